//! The key sequences of dicts, each stored once: a million events have the same eight keys.

use hashbrown::HashMap;

use super::cell::Cell;

/// A key sequence: the one before its last key, and that key. Number 0 is empty.
#[derive(Clone, Copy, Debug)]
struct Shape {
    parent: u32,
    key: Cell,
}

/// All key sequences of a tree.
#[derive(Debug)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    longer: HashMap<(u32, Cell), u32>,
    /// The sequence seen last of each small length: most dicts are like the one before.
    recent: [(u32, Vec<Cell>); RECENT],
}

const RECENT: usize = 24;

impl Default for Shapes {
    fn default() -> Self {
        Self {
            all: vec![Shape { parent: 0, key: Cell::NONE }],
            longer: HashMap::new(),
            recent: std::array::from_fn(|_| (0, Vec::new())),
        }
    }
}

impl Shapes {
    /// How many sequences there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The sequence that `keys` alone make.
    pub(super) fn of(&mut self, keys: impl ExactSizeIterator<Item = Cell> + Clone) -> u32 {
        let len = keys.len();
        if let Some((shape, known)) = self.recent.get(len)
            && known.len() == len
            && known.iter().copied().eq(keys.clone())
        {
            return *shape;
        }
        let shape = keys.clone().fold(0, |shape, key| self.and(shape, key));
        if let Some(recent) = self.recent.get_mut(len) {
            *recent = (shape, keys.collect());
        }
        shape
    }

    /// The sequence with one more key.
    pub(super) fn and(&mut self, parent: u32, key: Cell) -> u32 {
        let next = self.all.len() as u32;
        let shape = *self.longer.entry((parent, key)).or_insert(next);
        if shape == next {
            self.all.push(Shape { parent, key });
        }
        shape
    }

    /// The keys of a sequence, last first.
    pub(super) fn keys_back(&self, shape: u32) -> impl Iterator<Item = Cell> {
        let mut at = shape as usize;
        std::iter::from_fn(move || {
            let shape = self.all.get(at).filter(|_| at != 0)?;
            at = shape.parent as usize;
            Some(shape.key)
        })
    }
}
