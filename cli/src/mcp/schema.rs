//! The schemas of the tools' results: those of `docs/schema`, each with the shared types that it names.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Map, Value, from_str, from_value};

/// A JSON object.
type Object = Map<String, Value>;

macro_rules! schemas {
    ($($verb:literal)*) => {
        [$(($verb, include_str!(concat!("../../../docs/schema/", $verb, ".json")))),*]
    };
}

/// Verbs and their schemas.
const SCHEMAS: [(&str, &str); 12] = schemas!(
    "compare" "diff" "explain" "fit" "info" "leaks" "replay" "report" "top" "tune" "verify" "waste"
);

/// The types that several verbs print.
const SHARED: &str = include_str!("../../../docs/schema/defs.json");

/// The schema of a verb's output, or of one form of it, in one document. Its root is an object, as the protocol
/// requires: lists are left out.
pub(super) fn output(verb: &str, form: Option<&str>) -> Result<Object> {
    let (_, text) = SCHEMAS.iter().find(|(known, _)| *known == verb).context("no schema")?;
    let mut schema: Object = from_str(&text.replace("\"defs.json#", "\"#"))?;
    let mut shared: Object = from_str(SHARED)?;
    let types = [schema.remove("$defs"), shared.remove("$defs")].into_iter().flatten();
    let mut known: Object =
        types.filter_map(|types| from_value::<Object>(types).ok()).flatten().collect();
    if let Some(Value::Array(forms)) = schema.get_mut("oneOf") {
        let is_wanted = |name: &str| {
            form.is_none_or(|form| form == name) && !known.get(name).is_some_and(is_list)
        };
        forms.retain(|form| names(form).iter().any(|name| is_wanted(name)));
    }
    let mut used = Object::new();
    let mut wanted = names(&Value::Object(schema.clone()));
    while let Some(name) = wanted.pop_first() {
        if let Some(definition) = known.remove(&name) {
            wanted.extend(names(&definition));
            used.insert(name, definition);
        }
    }
    schema.insert("type".to_owned(), "object".into());
    schema.insert("$defs".to_owned(), used.into());
    Ok(schema)
}

fn is_list(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "array")
}

/// The types that a schema names.
fn names(schema: &Value) -> BTreeSet<String> {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|reference| reference.strip_prefix("#/$defs/"));
            fields.values().flat_map(names).chain(name.map(str::to_owned)).collect()
        }
        Value::Array(items) => items.iter().flat_map(names).collect(),
        _ => BTreeSet::new(),
    }
}
