//! Size classes, and who is in them.

use alloc::vec::Vec;

use crate::arena::{Arena, BlockId};
use crate::cast;

/// Steps of a size class within a power of two. Many, so that few classes hold more than one block: what is done then
/// is what the processor foresees.
const STEPS: u64 = 64;

/// Classes: the first multiples of 512 bytes each for themselves, then so many to a power of two up to 2^64.
pub(super) const CLASSES: usize = (64 - 9 - STEPS.ilog2() as usize + 1) * cast::index(STEPS);

/// The class of a size; it never falls as sizes rise. A class ends with a round size, so that a whole segment and what
/// is left of it after a small cut are in one.
#[inline]
pub(super) const fn class_of(size_bytes: u64) -> usize {
    let units = size_bytes.saturating_sub(1) >> 9;
    if units < STEPS {
        return cast::index(units);
    }
    let shift = units.ilog2() - STEPS.ilog2();
    cast::index(shift as u64 * STEPS + (units >> shift))
}

/// The ids of every class in order.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// As many as were ever needed: most streams hold small blocks only.
    classes: Vec<Class>,
    /// The blocks of each class behind its first, the last in front, so that the next is taken off the end. The first
    /// list belongs to no class and stays empty.
    others: Vec<Vec<BlockId>>,
}

/// Eight bytes, so that the classes in use stay in the first cache.
#[derive(Clone, Copy, Debug)]
struct Class {
    first: Option<BlockId>,
    /// Its list of others: made when there first was one, and kept.
    others: u32,
}

impl Classes {
    pub(super) fn new() -> Self {
        Self { classes: Vec::new(), others: Vec::new() }
    }

    /// The first of a class.
    #[inline]
    pub(super) fn first(&self, class: usize) -> Option<BlockId> {
        self.classes.get(class)?.first
    }

    /// The id at a place of a class.
    pub(super) fn get(&self, class: usize, at: usize) -> Option<BlockId> {
        let others = self.others(class);
        match at {
            0 => self.first(class),
            at => others.len().checked_sub(at).map(|at| others[at]),
        }
    }

    /// The ids of a class in order.
    pub(super) fn ids(&self, class: usize) -> impl DoubleEndedIterator<Item = BlockId> {
        self.first(class).into_iter().chain(self.others(class).iter().rev().copied())
    }

    /// The first of a class that holds so many bytes, and its place.
    #[inline]
    pub(super) fn first_fit(
        &self,
        arena: &Arena,
        class: usize,
        size_bytes: u64,
    ) -> Option<(usize, BlockId)> {
        let first = self.first(class)?;
        if arena[first].size_bytes >= size_bytes {
            return Some((0, first));
        }
        self.first_fit_of_others(arena, class, size_bytes)
    }

    #[inline(never)]
    fn first_fit_of_others(
        &self,
        arena: &Arena,
        class: usize,
        size_bytes: u64,
    ) -> Option<(usize, BlockId)> {
        let others = self.others(class);
        let fitting = others.partition_point(|id| arena[*id].size_bytes >= size_bytes);
        let last = fitting.checked_sub(1)?;
        Some((others.len() - last, others[last]))
    }

    /// The place of an id in its class; `None` if it is not there.
    #[inline]
    pub(super) fn place_of(&self, arena: &Arena, class: usize, id: BlockId) -> Option<usize> {
        if self.first(class) == Some(id) {
            return Some(0);
        }
        self.place_among_others(arena, class, id)
    }

    #[inline(never)]
    fn place_among_others(&self, arena: &Arena, class: usize, id: BlockId) -> Option<usize> {
        let others = self.others(class);
        let behind = others.partition_point(|other| arena[id].precedes(&arena[*other]));
        (others.get(behind) == Some(&id)).then(|| others.len() - behind)
    }

    /// Enters an id where it belongs.
    #[inline]
    pub(super) fn insert(&mut self, arena: &Arena, class: usize, id: BlockId) {
        match self.classes.get_mut(class) {
            Some(Class { first: first @ None, .. }) => *first = Some(id),
            _ => self.insert_beside(arena, class, id),
        }
    }

    /// Enters an id into a class that holds others, or that is larger than any before.
    #[inline(never)]
    fn insert_beside(&mut self, arena: &Arena, class: usize, id: BlockId) {
        if class >= self.classes.len() {
            self.grow(class);
        }
        let class = &mut self.classes[class];
        let Some(first) = class.first else {
            class.first = Some(id);
            return;
        };
        assert!(first != id, "a block is freed once");
        if class.others == 0 {
            class.others = cast::id(self.others.len());
            self.others.push(Vec::new());
        }
        let others = &mut self.others[class.others as usize];
        if arena[id].precedes(&arena[first]) {
            class.first = Some(id);
            others.push(first);
            return;
        }
        let behind = others.partition_point(|other| arena[id].precedes(&arena[*other]));
        assert!(others.get(behind) != Some(&id), "a block is freed once");
        others.insert(behind, id);
    }

    /// Makes room for a class, and for the others of its power of two.
    #[cold]
    fn grow(&mut self, class: usize) {
        let len = (class + 1).next_multiple_of(cast::index(STEPS));
        self.classes.reserve_exact(len - self.classes.len());
        self.classes.resize(len, Class { first: None, others: 0 });
        if self.others.is_empty() {
            self.others.push(Vec::new());
        }
    }

    /// Takes the id at a place of a class out. Whether the class is empty now.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(super) fn remove(&mut self, class: usize, at: usize) -> bool {
        let place = &mut self.classes[class];
        if place.others == 0 {
            place.first = None;
            return true;
        }
        self.remove_beside_others(class, at)
    }

    #[inline(never)]
    fn remove_beside_others(&mut self, class: usize, at: usize) -> bool {
        let class = &mut self.classes[class];
        let others = &mut self.others[class.others as usize];
        if at > 0 {
            others.remove(others.len() - at);
            return false;
        }
        class.first = others.pop();
        class.first.is_none()
    }

    /// Whether the block at a place of a class stands between its neighbours.
    #[inline]
    pub(super) fn is_in_order(&self, arena: &Arena, class: usize, at: usize) -> bool {
        self.classes[class].others == 0 || self.follows_in_order(arena, class, at)
    }

    #[inline(never)]
    fn follows_in_order(&self, arena: &Arena, class: usize, at: usize) -> bool {
        let block = |at: usize| self.get(class, at).map(|id| &arena[id]);
        let precedes = |one: usize, other: usize| match (block(one), block(other)) {
            (Some(one), Some(other)) => one.precedes(other),
            _ => true,
        };
        (at == 0 || precedes(at - 1, at)) && precedes(at, at + 1)
    }

    #[inline]
    fn others(&self, class: usize) -> &[BlockId] {
        self.classes.get(class).map_or(&[], |class| &self.others[class.others as usize])
    }
}
