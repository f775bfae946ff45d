//! The values of a pickle, each a number, a constant or a name of something in the tree.

use super::strings::Text;

/// A list, tuple or dict of one [`Tree`](super::Tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

impl Node {
    /// Its place among the tree's nodes, for tables beside the tree.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn at(index: u32) -> Self {
        Self(index)
    }
}

/// One value. Containers and strings are names of things in a [`Tree`](super::Tree); a container may hold itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of at most 63 bits.
    Int(i64),
    /// An integer of 64 bits.
    Big(u64),
    /// A float.
    Float(f64),
    /// A string.
    Text(Text),
    /// A tuple.
    Tuple(Node),
    /// A list.
    List(Node),
    /// A dict.
    Dict(Node),
}

impl Value {
    /// Python's name of its type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) | Self::Big(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dict",
        }
    }

    /// The integer, if it is one and not negative.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(value).ok(),
            Self::Big(value) => Some(value),
            _ => None,
        }
    }
}
