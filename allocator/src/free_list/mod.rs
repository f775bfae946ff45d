//! Free lists: the free blocks of one stream in one small or large pool. A block never leaves its list's pool and
//! stream.
//!
//! Blocks are sorted into size classes, and a bitmap says which classes hold any: the best fit is in the request's own
//! class or the first of the next class that holds one. Within a class ids are kept in exact order, so the order over
//! all is PyTorch's, block for block: size, segment rank, address. Sizes and addresses stay in the arena: a block that
//! is cut or grows keeps its place where the order allows it, and nothing moves.

mod bitmap;
mod class;
mod lists;

use alloc::vec::Vec;

use events::{Addr, Stream};

use crate::arena::{Arena, BlockId};
use crate::ids::PoolIndex;
use bitmap::Bitmap;
use class::{CLASSES, Classes, class_of};
pub(crate) use lists::FreeLists;

/// Where a free block stands in its free list; good until the free list changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    class: usize,
    at: usize,
}

const _: () = assert!(CLASSES < Bitmap::LEN, "a bit for every class, and one behind the last");

/// The free and the unmapped blocks of one stream in one small or large pool.
#[derive(Clone, Debug)]
pub(crate) struct FreeList {
    pub(crate) pool: PoolIndex,
    pub(crate) stream: Stream,
    /// Segments and address ranges whose blocks these are.
    pub(crate) segment_count: u32,
    /// The classes that hold a block.
    occupied: Bitmap,
    classes: Classes,
    /// Unmapped blocks of expandable segments by address: the lowest is mapped first (`BlockComparatorAddress`).
    unmapped: Vec<(Addr, BlockId)>,
}

impl FreeList {
    pub(crate) fn new(pool: PoolIndex, stream: Stream) -> Self {
        Self {
            pool,
            stream,
            segment_count: 0,
            occupied: Bitmap::new(),
            classes: Classes::new(),
            unmapped: Vec::new(),
        }
    }

    /// The smallest free block of at least `size_bytes`.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn first_fit(&self, arena: &Arena, size_bytes: u64) -> Option<(ListPlace, BlockId)> {
        let own = class_of(size_bytes);
        if let Some((at, id)) = self.classes.first_fit(arena, own, size_bytes) {
            return Some((ListPlace { class: own, at }, id));
        }
        // All of a higher class are large enough.
        self.first_of(own + 1)
    }

    /// The next larger one.
    pub(crate) fn after(&self, ListPlace { class, at }: ListPlace) -> Option<(ListPlace, BlockId)> {
        match self.classes.get(class, at + 1) {
            Some(id) => Some((ListPlace { class, at: at + 1 }, id)),
            None => self.first_of(class + 1),
        }
    }

    /// The first block of the first class from `class` on that holds any.
    #[inline]
    fn first_of(&self, class: usize) -> Option<(ListPlace, BlockId)> {
        let class = self.occupied.first_from(class)?;
        Some((ListPlace { class, at: 0 }, self.classes.first(class)?))
    }

    /// Enters a free block.
    #[inline]
    pub(crate) fn insert(&mut self, arena: &Arena, id: BlockId) {
        self.insert_into(class_of(arena[id].size_bytes), arena, id);
    }

    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    fn insert_into(&mut self, class: usize, arena: &Arena, id: BlockId) {
        self.occupied.set(class);
        self.classes.insert(arena, class, id);
    }

    /// Takes a free block out.
    #[inline]
    pub(crate) fn remove(&mut self, arena: &Arena, id: BlockId) {
        let place = self.find(arena, id);
        self.take(place);
    }

    /// Takes the free block at a place out.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn take(&mut self, ListPlace { class, at }: ListPlace) {
        if self.classes.remove(class, at) {
            self.occupied.clear(class);
        }
    }

    /// Where a free block stands.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn find(&self, arena: &Arena, id: BlockId) -> ListPlace {
        let class = class_of(arena[id].size_bytes);
        let at = self.classes.place_of(arena, class, id);
        ListPlace { class, at: at.expect("a free block is in its list") }
    }

    /// Whether a block is among the free ones.
    pub(crate) fn holds(&self, arena: &Arena, id: BlockId) -> bool {
        let class = class_of(arena[id].size_bytes);
        self.occupied.first_from(class) == Some(class)
            && self.classes.place_of(arena, class, id).is_some()
    }

    /// Moves the block that stood at a place to where it belongs, now that its size or address is another.
    #[allow(
        clippy::inline_always,
        reason = "a call costs a third of it, and every cut and merge makes one"
    )]
    #[inline(always)]
    pub(crate) fn settle(&mut self, arena: &Arena, place: ListPlace, id: BlockId) {
        let class = class_of(arena[id].size_bytes);
        if class != place.class || !self.classes.is_in_order(arena, class, place.at) {
            self.take(place);
            self.insert_into(class, arena, id);
        }
        debug_assert!(self.holds(arena, id), "a moved block is found where it belongs");
    }

    /// The free blocks, smallest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockId> {
        self.occupied.iter().flat_map(|class| self.classes.ids(class))
    }

    /// Enters an unmapped block.
    pub(crate) fn insert_unmapped(&mut self, addr: Addr, id: BlockId) {
        let at = self.unmapped.partition_point(|entry| entry.0 < addr);
        self.unmapped.insert(at, (addr, id));
    }

    /// Takes an unmapped block out.
    pub(crate) fn remove_unmapped(&mut self, addr: Addr, id: BlockId) {
        let at = self.unmapped.partition_point(|entry| entry.0 < addr);
        assert_eq!(self.unmapped.get(at), Some(&(addr, id)), "an unmapped block is in its list");
        self.unmapped.remove(at);
    }

    /// The unmapped blocks, the lowest address first.
    pub(crate) fn unmapped(&self) -> impl Iterator<Item = BlockId> {
        self.unmapped.iter().map(|entry| entry.1)
    }
}

#[cfg(test)]
mod tests;
