//! The values of a pickle: an arena, so that sharing costs nothing and depth costs no stack.

use super::strings::{Strings, Text};

/// A list, tuple or dict of one [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

impl Node {
    /// Its place among the tree's nodes, for tables beside the tree.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One value. Containers and strings are names of things in a [`Tree`]; a container may hold itself.
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
    /// A dict, as key, value, key, value.
    Dict(Node),
}

impl Value {
    /// What Python calls its type.
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

/// Where a node's values lie in the arena.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    len: u32,
    capacity: u32,
}

/// Everything one pickle holds.
#[derive(Debug)]
pub struct Tree {
    cells: Vec<Value>,
    runs: Vec<Run>,
    pub(super) strings: Strings,
    root: Value,
    max_cells: usize,
}

/// The tree would grow past its limit.
#[derive(Debug)]
pub(super) struct Full;

impl Tree {
    pub(super) fn with_limit(max_cells: usize) -> Self {
        Self {
            cells: Vec::new(),
            runs: Vec::new(),
            strings: Strings::default(),
            root: Value::None,
            max_cells,
        }
    }

    pub(super) fn set_root(&mut self, root: Value) {
        self.root = root;
    }

    /// The pickled object.
    pub fn root(&self) -> Value {
        self.root
    }

    /// How many nodes there are; every [`Node::index`] is below it.
    pub fn node_count(&self) -> usize {
        self.runs.len()
    }

    /// How many distinct strings there are.
    pub fn text_count(&self) -> usize {
        self.strings.len()
    }

    /// The characters of a string.
    pub fn text(&self, text: Text) -> &str {
        self.strings.get(text)
    }

    /// The name of `text` in this tree, if it occurs.
    pub fn find_text(&self, text: &str) -> Option<Text> {
        self.strings.find(text)
    }

    /// The values of a list or tuple; of a dict: key, value, key, value.
    pub fn cells(&self, node: Node) -> &[Value] {
        let run = self.runs[node.index()];
        &self.cells[run.start..run.start + run.len as usize]
    }

    /// The pairs of a dict, in order.
    pub fn pairs(&self, node: Node) -> impl DoubleEndedIterator<Item = (Value, Value)> + '_ {
        self.cells(node).as_chunks::<2>().0.iter().map(|&[key, value]| (key, value))
    }

    /// What a dict holds under a key; the last wins, as in Python.
    pub fn get(&self, node: Node, key: &str) -> Option<Value> {
        let key = Value::Text(self.find_text(key)?);
        self.pairs(node).rev().find(|&(k, _)| k == key).map(|(_, value)| value)
    }

    pub(super) fn add_node(&mut self) -> Result<Node, Full> {
        let id = u32::try_from(self.runs.len()).map_err(|_| Full)?;
        if self.runs.len() >= self.max_cells {
            return Err(Full);
        }
        self.runs.push(Run { start: 0, len: 0, capacity: 0 });
        Ok(Node(id))
    }

    /// A new node of these values.
    pub(super) fn add_full_node(&mut self, values: &[Value]) -> Result<Node, Full> {
        let node = self.add_node()?;
        self.extend(node, values)?;
        Ok(node)
    }

    /// Adds `values` at the end of a node. A node that others have been written behind moves to the end of the
    /// arena, with room to double, so that growing it one by one stays linear in time and memory.
    pub(super) fn extend(&mut self, node: Node, values: &[Value]) -> Result<(), Full> {
        let run = self.runs[node.index()];
        let len = run.len as usize + values.len();
        let new_len = u32::try_from(len).map_err(|_| Full)?;
        let end = run.start + run.len as usize;
        if len <= run.capacity as usize {
            self.cells[end..end + values.len()].copy_from_slice(values);
            self.runs[node.index()].len = new_len;
            return Ok(());
        }
        let start = self.cells.len();
        let capacity = if run.len == 0 { len } else { len.saturating_mul(2) };
        if start.saturating_add(capacity) > self.max_cells {
            return Err(Full);
        }
        self.cells.extend_from_within(run.start..end);
        self.cells.extend_from_slice(values);
        self.cells.resize(start + capacity, Value::None);
        self.runs[node.index()] =
            Run { start, len: new_len, capacity: u32::try_from(capacity).unwrap_or(new_len) };
        Ok(())
    }
}
