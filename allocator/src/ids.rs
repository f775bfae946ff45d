//! Places in the tables of a heap, each a type of its own.

use core::num::NonZeroU32;

/// A small or large pool: 0 and 1 are the default pool's, then two for each private pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolIndex(pub(crate) u32);

impl PoolIndex {
    /// The pool that serves blocks of this kind, of the default pool or of a private one.
    pub(crate) const fn new(private: Option<u32>, is_small: bool) -> Self {
        let pair = match private {
            None => 0,
            Some(slot) => slot + 1,
        };
        Self(2 * pair + !is_small as u32)
    }

    /// Whether this is a small pool.
    pub(crate) const fn is_small(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// The small and the large pool of a private one.
    pub(crate) fn both_of(slot: u32) -> impl Iterator<Item = Self> {
        [true, false].into_iter().map(move |is_small| Self::new(Some(slot), is_small))
    }

    /// Which private pool, if any.
    pub(crate) const fn private(self) -> Option<u32> {
        (self.0 / 2).checked_sub(1)
    }
}

/// A free list's place among all of a heap's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FreeListId(pub(crate) u32);

/// A range's place in the heap's table. Not zero, so that `Option<RangeId>` is as small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RangeId(NonZeroU32);

impl RangeId {
    pub(crate) fn new(slot: usize) -> Self {
        let id = u32::try_from(slot + 1).ok().and_then(NonZeroU32::new);
        Self(id.expect("fewer than 2^32 ranges"))
    }

    pub(crate) const fn slot(self) -> usize {
        self.0.get() as usize - 1
    }
}
