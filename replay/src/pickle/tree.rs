//! The values of a pickle: an arena, so that sharing costs nothing and depth costs no stack.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Limits;
use super::cell::Cell;
use super::shapes::Shapes;
use super::strings::{Strings, Text};
use super::value::{Node, Value};

/// Where a node's values lie in the arena; of a dict, its keys are its shape.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    start: u32,
    len: u32,
    capacity: u32,
    shape: u32,
}

/// Everything one pickle holds.
#[derive(Debug)]
pub struct Tree {
    cells: Vec<Cell>,
    wide: Vec<Value>,
    runs: Vec<Run>,
    shapes: Shapes,
    /// Lists and tuples by what they held when they were filled: equal ones share their cells until one grows.
    filled: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(super) strings: Strings,
    root: Value,
    max_values: usize,
    /// Events, segments and blocks that a snapshot in it may have.
    pub(crate) records_max: usize,
}

/// The tree would grow past its limit.
#[derive(Debug)]
pub(super) struct Full;

/// Longer lists are hardly ever equal to another.
const SHARED_LEN_MAX: usize = 256;

impl Tree {
    pub(super) fn with_limits(limits: Limits, input_bytes: usize) -> Self {
        let max_values = limits.of_input(input_bytes);
        Self {
            cells: Vec::new(),
            wide: Vec::new(),
            runs: Vec::new(),
            shapes: Shapes::default(),
            filled: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            strings: Strings::default(),
            root: Value::None,
            max_values: max_values.min(u32::MAX as usize),
            records_max: usize::try_from(limits.records).unwrap_or(usize::MAX),
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

    /// How many values all nodes together have, at least.
    pub fn cell_count(&self) -> usize {
        self.cells.len()
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

    /// How many values a list, tuple or dict has.
    pub fn len(&self, node: Node) -> usize {
        self.runs[node.index()].len as usize
    }

    /// The values of a list, a tuple or a dict, in order.
    pub fn values(&self, node: Node) -> impl ExactSizeIterator<Item = Value> + DoubleEndedIterator {
        self.cells(node).iter().map(|cell| cell.unpack(&self.wide))
    }

    /// The values of a list or tuple; anything else has none.
    pub fn items(
        &self,
        value: Value,
    ) -> impl ExactSizeIterator<Item = Value> + DoubleEndedIterator {
        let cells = match value {
            Value::List(node) | Value::Tuple(node) => self.cells(node),
            _ => &[],
        };
        cells.iter().map(|cell| cell.unpack(&self.wide))
    }

    /// One of a node's values.
    pub fn value(&self, node: Node, at: usize) -> Option<Value> {
        self.cells(node).get(at).map(|cell| cell.unpack(&self.wide))
    }

    /// The node's values at `places`; `None` where there is none.
    #[inline]
    pub(crate) fn values_at<const N: usize>(&self, node: Node, places: &[u32; N]) -> [Value; N] {
        let cells = self.cells(node);
        let mut values = [Value::None; N];
        for (value, &place) in values.iter_mut().zip(places) {
            if let Some(cell) = cells.get(place as usize) {
                *value = cell.unpack(&self.wide);
            }
        }
        values
    }

    /// The keys of a dict, last first; one that occurs twice has the value of its last.
    pub fn keys_back(&self, node: Node) -> impl Iterator<Item = Value> {
        let shape = self.runs[node.index()].shape;
        self.shapes.keys_back(shape).map(|key| key.unpack(&self.wide))
    }

    /// The number of a dict's key sequence, for tables beside the tree.
    pub fn shape(&self, node: Node) -> usize {
        self.runs[node.index()].shape as usize
    }

    /// A dict's value of a key; the last wins, as in Python.
    pub fn get(&self, node: Node, key: &str) -> Option<Value> {
        let key = Value::Text(self.find_text(key)?);
        let back = self.keys_back(node).position(|found| found == key)?;
        self.value(node, self.len(node).checked_sub(back + 1)?)
    }

    fn cells(&self, node: Node) -> &[Cell] {
        let run = self.runs[node.index()];
        &self.cells[run.start as usize..(run.start + run.len) as usize]
    }

    /// Eight bytes each, what the tree takes beside its strings.
    pub(super) fn used(&self) -> usize {
        self.cells.len() + 2 * (self.wide.len() + self.runs.len()) + 6 * self.shapes.len()
    }

    pub(super) fn pack(&mut self, value: Value) -> Cell {
        Cell::pack(value, &mut self.wide)
    }

    pub(super) fn unpack(&self, cell: Cell) -> Value {
        cell.unpack(&self.wide)
    }

    pub(super) fn add_node(&mut self) -> Result<Node, Full> {
        let id = u32::try_from(self.runs.len()).map_err(|_| Full)?;
        if self.runs.len() >= self.max_values {
            return Err(Full);
        }
        self.runs.push(Run::default());
        Ok(Node::at(id))
    }

    /// Adds `values` at the end of a list or tuple.
    pub(super) fn extend(&mut self, node: Node, values: &[Value]) -> Result<(), Full> {
        let is_first = self.runs[node.index()].len == 0;
        self.add_cells(node, values.iter().copied())?;
        if is_first && (1..=SHARED_LEN_MAX).contains(&values.len()) {
            self.share(node);
        }
        Ok(())
    }

    /// Adds key, value, key, value at the end of a dict.
    pub(super) fn extend_dict(&mut self, node: Node, pairs: &[Value]) -> Result<(), Full> {
        let (pairs, _) = pairs.as_chunks::<2>();
        let before = self.runs[node.index()].shape;
        let Self { shapes, wide, .. } = self;
        let shape = if before == 0 {
            let is_text = pairs.iter().all(|[key, _]| matches!(key, Value::Text(_)));
            let keys = pairs.iter();
            if is_text {
                // No text is wide, so that packing one twice adds nothing.
                shapes.of(keys.map(|&[key, _]| Cell::pack(key, &mut Vec::new())))
            } else {
                keys.fold(0, |shape, &[key, _]| shapes.and(shape, Cell::pack(key, wide)))
            }
        } else {
            pairs.iter().fold(before, |shape, &[key, _]| shapes.and(shape, Cell::pack(key, wide)))
        };
        self.add_cells(node, pairs.iter().map(|&[_, value]| value))?;
        self.runs[node.index()].shape = shape;
        Ok(())
    }

    /// Puts values behind those of a node. A node that others have been written behind moves to the end of the arena,
    /// with room to double, so that growing it one by one stays linear in time and memory.
    fn add_cells(
        &mut self,
        node: Node,
        values: impl ExactSizeIterator<Item = Value>,
    ) -> Result<(), Full> {
        let run = self.runs[node.index()];
        let (start, len) = (run.start as usize, run.len as usize);
        let new_len = len + values.len();
        let Self { cells, wide, .. } = self;
        if new_len <= run.capacity as usize {
            for (cell, value) in cells[start + len..].iter_mut().zip(values) {
                *cell = Cell::pack(value, wide);
            }
            self.runs[node.index()].len = new_len as u32;
            return Ok(());
        }
        let capacity = if len == 0 { new_len } else { new_len.saturating_mul(2) };
        let new_start = cells.len();
        if new_start.saturating_add(capacity) > self.max_values {
            return Err(Full);
        }
        cells.extend_from_within(start..start + len);
        cells.extend(values.map(|value| Cell::pack(value, wide)));
        cells.resize(new_start + capacity, Cell::NONE);
        let run = &mut self.runs[node.index()];
        (run.start, run.len, run.capacity) = (new_start as u32, new_len as u32, capacity as u32);
        Ok(())
    }

    /// Lets a node that was just filled use the cells of an equal one. It has no room to grow there, so that it moves
    /// away when it does.
    fn share(&mut self, node: Node) {
        let Self { cells, runs, filled, hasher, .. } = self;
        let run = runs[node.index()];
        let cells_of = |run: Run| &cells[run.start as usize..(run.start + run.len) as usize];
        let (len, hash) = (run.len, hasher.hash_one(cells_of(run)));
        let is_equal = |&other: &u32| {
            let other = runs[other as usize];
            other.capacity == len && other.len == len && cells_of(other) == cells_of(run)
        };
        if let Some(&other) = filled.find(hash, is_equal) {
            let start = runs[other as usize].start;
            runs[node.index()].start = start;
            cells.truncate(run.start as usize);
        } else {
            // One that has grown since is found no more, wherever it stands.
            let hash_of = |&other: &u32| {
                let cells = cells_of(runs[other as usize]);
                hasher.hash_one(&cells[..cells.len().min(SHARED_LEN_MAX)])
            };
            filled.insert_unique(hash, node.index() as u32, hash_of);
        }
    }
}
