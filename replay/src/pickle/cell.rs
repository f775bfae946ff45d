//! A value in eight bytes, which is what makes a tree of a million events small.

use super::strings::Text;
use super::value::{Node, Value};

/// A packed [`Value`]: a tag in the lowest three bits, and what it names above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cell(u64);

const CONSTANT: u64 = 0;
const INT: u64 = 1;
const WIDE: u64 = 2;
const TEXT: u64 = 3;
const TUPLE: u64 = 4;
const LIST: u64 = 5;
const DICT: u64 = 6;
const TAG_BITS: u32 = 3;

impl Cell {
    /// `None`.
    pub(super) const NONE: Self = Self(CONSTANT);

    /// Packs a value; floats and integers of more than 61 bits go to `wide`.
    #[inline]
    pub(super) fn pack(value: Value, wide: &mut Vec<Value>) -> Self {
        let named = |tag, index: usize| Self((index as u64) << TAG_BITS | tag);
        match value {
            Value::None => Self::NONE,
            Value::Bool(value) => named(CONSTANT, 1 + usize::from(value)),
            Value::Int(value) if value << TAG_BITS >> TAG_BITS == value => {
                Self((value << TAG_BITS) as u64 | INT)
            }
            Value::Text(text) => named(TEXT, text.index()),
            Value::Tuple(node) => named(TUPLE, node.index()),
            Value::List(node) => named(LIST, node.index()),
            Value::Dict(node) => named(DICT, node.index()),
            Value::Int(_) | Value::Big(_) | Value::Float(_) => {
                wide.push(value);
                named(WIDE, wide.len() - 1)
            }
        }
    }

    /// The value.
    #[inline]
    pub(super) fn unpack(self, wide: &[Value]) -> Value {
        let index = (self.0 >> TAG_BITS) as u32;
        match self.0 & ((1 << TAG_BITS) - 1) {
            CONSTANT => match index {
                0 => Value::None,
                index => Value::Bool(index == 2),
            },
            INT => Value::Int(self.0 as i64 >> TAG_BITS),
            TEXT => Value::Text(Text::at(index)),
            TUPLE => Value::Tuple(Node::at(index)),
            LIST => Value::List(Node::at(index)),
            DICT => Value::Dict(Node::at(index)),
            _ => wide.get(index as usize).copied().unwrap_or(Value::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        let mut wide = Vec::new();
        for value in [
            Value::None,
            Value::Bool(false),
            Value::Bool(true),
            Value::Int(0),
            Value::Int(-1),
            Value::Int((1 << 60) - 1),
            Value::Int(1 << 60),
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::Big(u64::MAX),
            Value::Float(-0.5),
            Value::Text(Text::at(u32::MAX)),
            Value::Tuple(Node::at(7)),
            Value::List(Node::at(u32::MAX)),
            Value::Dict(Node::at(0)),
        ] {
            assert_eq!(Cell::pack(value, &mut wide).unpack(&wide), value);
        }
        assert_eq!(wide.len(), 5, "only what does not fit");
    }
}
