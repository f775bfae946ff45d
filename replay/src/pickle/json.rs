//! The same values out of JSON, which PyTorch's viewer reads too.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Limits;
use super::tree::{Full, Tree};
use super::value::Value;

/// Reads a JSON document.
///
/// # Errors
/// When it is not JSON, nests deeper than 127 levels, or holds more values than allowed.
pub fn read_json(bytes: &[u8], limits: Limits) -> Result<Tree, serde_json::Error> {
    let mut tree = Tree::with_limits(limits, bytes.len());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let root = Seed(&mut tree).deserialize(&mut deserializer)?;
    deserializer.end()?;
    tree.set_root(root);
    Ok(tree)
}

/// Puts one value into a tree.
struct Seed<'a>(&'a mut Tree);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Big(value), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(self.0.strings.intern_str(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Seed(&mut *self.0))? {
            values.push(value);
        }
        let node = self.0.add_node().map_err(|Full| too_many())?;
        self.0.extend(node, &values).map_err(|Full| too_many())?;
        Ok(Value::List(node))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(key) = entries.next_key_seed(Seed(&mut *self.0))? {
            values.push(key);
            values.push(entries.next_value_seed(Seed(&mut *self.0))?);
        }
        let node = self.0.add_node().map_err(|Full| too_many())?;
        self.0.extend_dict(node, &values).map_err(|Full| too_many())?;
        Ok(Value::Dict(node))
    }
}

fn too_many<E: Error>() -> E {
    E::custom(
        "more values than are expected of a file of this size; if you trust it, raise the limit (--trust-factor 10)",
    )
}
