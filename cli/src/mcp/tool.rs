//! The tools: verbs with the arguments that clap knows, as JSON Schema, and the command lines that calls become.

use std::ffi::OsString;
use std::sync::Arc;

use anyhow::Result;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command, value_parser};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::call::Question;
use super::schema;

/// The verbs that only read.
const VERBS: [&str; 12] = [
    "explain", "report", "info", "waste", "leaks", "diff", "compare", "replay", "tune", "fit",
    "verify", "top",
];

/// Flags that write a file, that choose the form of the output, or that are of a terminal.
const LEFT_OUT: [&str; 9] =
    ["help", "json", "output", "force", "html", "markdown", "snapshot", "once", "interval"];

/// A pasted text has a tool of its own: the verb's flag names a file.
const EXPLAIN_TEXT: &str = "explain_message";

/// A verb as a tool.
pub(super) struct VerbTool {
    /// Its name, and the schemas of its arguments and its result.
    pub(super) definition: Tool,
    /// The verb; `None` for the tool that reads a text.
    verb: Option<Command>,
}

/// All tools.
pub(super) fn all() -> Result<Vec<VerbTool>> {
    let mut command = crate::command();
    command.build();
    let mut tools = vec![of_text()?];
    for verb in VERBS {
        let verb = command.find_subcommand(verb);
        tools.extend(verb.map(of_verb).transpose()?);
    }
    Ok(tools)
}

fn of_text() -> Result<VerbTool> {
    let about = "Explain an out-of-memory error from its text, or from a log with such errors";
    let text =
        json!({ "type": "string", "description": "The message or the log, as it was printed" });
    let text = JsonObject::from_iter([("text".to_owned(), text)]);
    let input = input(text, vec!["text".to_owned()]);
    let definition = define(EXPLAIN_TEXT, about, input, schema::output("explain", Some("text"))?);
    Ok(VerbTool { definition, verb: None })
}

fn of_verb(verb: &Command) -> Result<VerbTool> {
    let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string));
    let properties = arguments(verb).map(|arg| (key(arg), property(arg))).collect();
    let required = arguments(verb).filter(|arg| arg.is_required_set()).map(key).collect();
    let (input, output) = (input(properties, required), schema::output(name, None)?);
    let definition = define(name, &about.unwrap_or_default(), input, output);
    Ok(VerbTool { definition, verb: Some(verb.clone()) })
}

fn input(properties: JsonObject, required: Vec<String>) -> JsonObject {
    JsonObject::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), required.into()),
        ("additionalProperties".to_owned(), false.into()),
    ])
}

fn define(name: &str, about: &str, input: JsonObject, output: JsonObject) -> Tool {
    let hints = ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    let tool = Tool::new(name.to_owned(), about.to_owned(), Arc::new(input));
    tool.with_raw_output_schema(Arc::new(output)).with_annotations(hints)
}

/// The arguments that a call may have.
fn arguments(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments()
        .filter(|arg| !arg.is_hide_set() && !LEFT_OUT.contains(&arg.get_id().as_str()))
}

/// The name of an argument: that of the Python function's.
fn key(arg: &Arg) -> String {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str()).replace('-', "_")
}

fn property(arg: &Arg) -> Value {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return json!({ "type": "boolean", "description": help });
    }
    let mut one = json!({ "type": if is_integer(arg) { "integer" } else { "string" } });
    let names: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !names.is_empty() {
        one["enum"] = names.into();
    }
    if matches!(arg.get_action(), ArgAction::Append) {
        return json!({ "type": "array", "items": one, "description": help });
    }
    one["description"] = help.into();
    if let [default] = arg.get_default_values() {
        let text = default.to_string_lossy();
        one["default"] = text.parse::<u64>().map_or_else(|_| text.into(), Value::from);
    }
    one
}

fn is_integer(arg: &Arg) -> bool {
    let known: [ValueParser; 4] = [
        value_parser!(u16).into(),
        value_parser!(u32).into(),
        value_parser!(u64).into(),
        value_parser!(usize).into(),
    ];
    known.iter().any(|parser| parser.type_id() == arg.get_value_parser().type_id())
}

impl VerbTool {
    /// The work of a call.
    ///
    /// # Errors
    /// When the tool has no such argument, or one has the wrong type.
    pub(super) fn question(&self, given: &JsonObject) -> Result<Question, String> {
        let properties = self.definition.input_schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> =
            properties.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
        if let Some(unknown) = given.keys().find(|key| !known.contains(&key.as_str())) {
            let name = &self.definition.name;
            return Err(format!("{name} has no argument {unknown:?}; known: {}", known.join(", ")));
        }
        let Some(verb) = &self.verb else {
            let text = given.get("text").and_then(Value::as_str);
            let text = text.ok_or("the argument \"text\" is the text of the message: a string")?;
            return Ok(Question::Text(text.to_owned()));
        };
        let (mut line, mut names) = (vec![verb.get_name().into(), "--json".into()], Vec::new());
        for arg in arguments(verb) {
            let key = key(arg);
            for value in values(arg, &key, given.get(&key))? {
                match (arg.get_long().filter(|_| !arg.is_positional()), value) {
                    (None, value) => names.extend(value.map(OsString::from)),
                    (Some(long), None) => line.push(format!("--{long}").into()),
                    (Some(long), Some(value)) => line.push(format!("--{long}={value}").into()),
                }
            }
        }
        line.push("--".into());
        line.extend(names);
        Ok(Question::Line(line))
    }
}

/// The values of one argument, `None` for a flag that takes none.
fn values(arg: &Arg, key: &str, given: Option<&Value>) -> Result<Vec<Option<String>>, String> {
    let wrong = |what: &str| Err(format!("the argument {key:?} is {what}"));
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let is_list = matches!(arg.get_action(), ArgAction::Append);
    match given {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Bool(is_set)) if is_flag => Ok(vec![None; usize::from(*is_set)]),
        Some(_) if is_flag => wrong("true or false"),
        Some(Value::Array(items)) if is_list => items.iter().map(|item| value(key, item)).collect(),
        Some(Value::Array(_)) => wrong("one value, not a list"),
        Some(one) => Ok(vec![value(key, one)?]),
    }
}

fn value(key: &str, given: &Value) -> Result<Option<String>, String> {
    match given {
        Value::String(text) if text == "-" => Err(format!(
            "the argument {key:?} cannot be standard input, which carries the protocol: name a file"
        )),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        other => Err(format!("the argument {key:?} cannot be {other}: write a string or a number")),
    }
}
