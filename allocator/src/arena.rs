//! Block metadata: a dense arena with 32-bit ids. Device memory cannot hold headers, so all of it lives here.

use alloc::vec;
use alloc::vec::Vec;

use core::num::NonZeroU32;

use events::{Addr, BlockState, BlockStatus, StackId};

use crate::ids::{FreeListId, RangeId};
use events::BlockSlot;

/// A block's place in the arena. Not zero, so that `Option<BlockId>` is as small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(NonZeroU32);

impl BlockId {
    #[inline]
    const fn index(self) -> usize {
        self.0.get() as usize
    }

    /// Its place as the recorder knows it.
    pub(crate) const fn slot(self) -> BlockSlot {
        BlockSlot(self.0.get())
    }
}

/// A contiguous piece of a segment: handed out, waiting for events, free, or (expandable segments) unmapped.
///
/// A cache line each: an allocation and its free see three or four blocks, and what is read of one is all over it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Block {
    pub(crate) addr: Addr,
    pub(crate) size_bytes: u64,
    /// Bytes asked for when last handed out; kept while free, as PyTorch's snapshots show it.
    pub(crate) requested_bytes: u64,
    /// Neighbours in the same segment.
    pub(crate) prev: Option<BlockId>,
    pub(crate) next: Option<BlockId>,
    // The next four are the same for every block of a segment, as a rule, and copied together: not a byte of them is
    // written for nothing, as a copy has to wait for that.
    /// The free list of its pool and stream, which it never leaves.
    pub(crate) list: FreeListId,
    /// The address range of the expandable segment this is part of.
    pub(crate) range: Option<RangeId>,
    /// The segment's place in the order of creation, which decides between blocks of one size: PyTorch 2.15 takes from
    /// the older segment first. Zero for all under 2.11, which looks at addresses only.
    pub(crate) segment_rank: u32,
    /// Stack of the call that made the segment; it counts on the first block only.
    pub(crate) segment_stack: StackId,
    /// The pool's search count, modulo 2^32, when it became free: its age, for garbage collection.
    pub(crate) search_count_at_free: u32,
    /// Events recorded at its free that are not done.
    pub(crate) event_count: u32,
    pub(crate) stack: StackId,
    pub(crate) allocated: bool,
    pub(crate) mapped: bool,
    /// Whether other streams used it since it was handed out; which ones is in the heap's side table.
    pub(crate) used_by_others: bool,
}

impl Block {
    /// A free, mapped, unsplit block.
    pub(crate) fn new(addr: Addr, size_bytes: u64, list: FreeListId) -> Self {
        Self {
            addr,
            size_bytes,
            requested_bytes: 0,
            list,
            prev: None,
            next: None,
            range: None,
            allocated: false,
            mapped: true,
            used_by_others: false,
            event_count: 0,
            search_count_at_free: 0,
            stack: StackId::NONE,
            segment_stack: StackId::NONE,
            segment_rank: 0,
        }
    }

    /// The order in which the blocks of a free list are tried (`BlockComparatorSize`).
    #[inline]
    #[allow(clippy::needless_bitwise_bool, reason = "a mispredict costs more than a comparison")]
    pub(crate) const fn precedes(&self, other: &Self) -> bool {
        let is_lower = self.addr.0 < other.addr.0;
        let is_older = self.segment_rank < other.segment_rank;
        let has_turn = is_older | ((self.segment_rank == other.segment_rank) & is_lower);
        (self.size_bytes < other.size_bytes) | ((self.size_bytes == other.size_bytes) & has_turn)
    }

    /// Whether the segment holds more than this block.
    #[inline]
    pub(crate) const fn is_split(&self) -> bool {
        self.prev.is_some() || self.next.is_some()
    }

    /// Whether it is neither allocated nor pending, mapped or not.
    #[inline]
    #[allow(clippy::needless_bitwise_bool, reason = "a mispredict costs more than three loads")]
    pub(crate) const fn is_idle(&self) -> bool {
        // Branchless: a mispredict costs more than three loads.
        !(self.allocated | self.used_by_others | (self.event_count > 0))
    }

    /// The block as snapshots show it.
    pub(crate) fn state(&self) -> BlockState {
        let (status, stack) = match (self.allocated, self.is_idle()) {
            (true, _) => (BlockStatus::Allocated, self.stack),
            (false, true) => (BlockStatus::Inactive, StackId::NONE),
            (false, false) => (BlockStatus::PendingFree, self.stack),
        };
        let Self { addr, size_bytes, requested_bytes, .. } = *self;
        BlockState { addr, size_bytes, requested_bytes, status, stack }
    }

    /// First address behind it.
    pub(crate) const fn end(&self) -> Addr {
        Addr(self.addr.0 + self.size_bytes)
    }
}

/// The memory of all blocks. Ids of removed blocks are used again, the last first: its memory is still in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    /// The first is unused: ids begin at 1.
    slots: Vec<Block>,
    vacant: Vec<BlockId>,
}

impl Default for Arena {
    fn default() -> Self {
        let unused = Block::new(Addr(0), 0, FreeListId(0));
        Self { slots: vec![unused], vacant: Vec::new() }
    }
}

impl Arena {
    #[inline]
    pub(crate) fn insert(&mut self, block: Block) -> BlockId {
        let id = self.vacant.pop().unwrap_or_else(|| self.add_slot());
        self[id] = block;
        id
    }

    #[cold]
    fn add_slot(&mut self) -> BlockId {
        let id = u32::try_from(self.slots.len()).ok().and_then(NonZeroU32::new);
        self.slots.push(self.slots[0]);
        BlockId(id.expect("fewer than 2^32 blocks"))
    }

    /// Forgets a block that is part of no chain any more.
    #[inline]
    pub(crate) fn remove(&mut self, id: BlockId) {
        let block = &mut self[id];
        assert!(block.size_bytes > 0 && !block.is_split(), "a block is removed once, and whole");
        block.size_bytes = 0;
        self.vacant.push(id);
    }

    /// Puts `new` between its neighbours `new.prev` and `new.next`, which must be neighbours now.
    #[inline]
    pub(crate) fn insert_linked(&mut self, new: Block) -> BlockId {
        let (prev, next) = (new.prev, new.next);
        let id = self.insert(new);
        if let Some(prev) = prev {
            debug_assert_eq!(self[prev].next, next);
            self[prev].next = Some(id);
        }
        if let Some(next) = next {
            debug_assert_eq!(self[next].prev, prev);
            self[next].prev = Some(id);
        }
        id
    }

    /// Cuts `front_bytes` off the front of a free block and hands them out. Returns the front; the rest keeps its id,
    /// and became free when its pool's search count was this.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn split(
        &mut self,
        id: BlockId,
        front_bytes: u64,
        (requested_bytes, stack): (u64, StackId),
        search_count: u32,
    ) -> BlockId {
        let front = self.vacant.pop().unwrap_or_else(|| self.add_slot());
        let rest = &mut self[id];
        let (addr, prev) = (rest.addr, rest.prev);
        let block = Block {
            prev,
            next: Some(id),
            range: rest.range,
            segment_rank: rest.segment_rank,
            segment_stack: rest.segment_stack,
            allocated: true,
            requested_bytes,
            stack,
            ..Block::new(addr, front_bytes, rest.list)
        };
        rest.addr.0 += front_bytes;
        rest.size_bytes -= front_bytes;
        rest.prev = Some(front);
        rest.search_count_at_free = search_count;
        self[front] = block;
        if let Some(prev) = prev {
            self[prev].next = Some(front);
        }
        debug_assert!(self.is_linked(front) && self.is_linked(id), "a split leaves neighbours");
        front
    }

    /// Makes `back` a part of `front`, the block before it.
    #[inline]
    pub(crate) fn join(&mut self, front: BlockId, back: BlockId) {
        // Its length stays in a register: a block that is written could lie on that of the vector, for all the
        // compiler knows.
        let slots = self.slots.as_mut_slice();
        let Block { size_bytes, next, .. } = slots[back.index()];
        let block = &mut slots[front.index()];
        assert!(block.next == Some(back) && size_bytes > 0, "neighbours are joined once");
        block.size_bytes += size_bytes;
        block.next = next;
        if let Some(next) = next {
            slots[next.index()].prev = Some(front);
        }
        slots[back.index()].size_bytes = 0;
        self.vacant.push(back);
        debug_assert!(self.is_linked(front), "a join leaves neighbours");
    }

    /// Makes `front` a part of `back`, the block behind it.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(crate) fn join_ahead(&mut self, front: BlockId, back: BlockId) {
        let slots = self.slots.as_mut_slice();
        let Block { addr, size_bytes, segment_stack, prev, .. } = slots[front.index()];
        let block = &mut slots[back.index()];
        assert!(block.prev == Some(front) && size_bytes > 0, "neighbours are joined once");
        block.addr = addr;
        block.size_bytes += size_bytes;
        if block.segment_stack != segment_stack {
            block.segment_stack = segment_stack;
        }
        block.prev = prev;
        if let Some(prev) = prev {
            slots[prev.index()].next = Some(back);
        }
        slots[front.index()].size_bytes = 0;
        self.vacant.push(front);
        debug_assert!(self.is_linked(back), "a join leaves neighbours");
    }

    /// Whether a block is live, and touches its neighbours, which link to it.
    pub(crate) fn is_linked(&self, id: BlockId) -> bool {
        let Block { prev, next, size_bytes, .. } = self[id];
        let touch = |front: BlockId, back: BlockId| {
            let (one, other) = (&self[front], &self[back]);
            (one.next, one.end(), other.prev) == (Some(back), other.addr, Some(front))
        };
        let is_neighbour = prev.is_none_or(|prev| touch(prev, id));
        size_bytes > 0 && is_neighbour && next.is_none_or(|next| touch(id, next))
    }

    /// At most `max` slots from `slot` on, vacant ones included, and the slot behind them if there is one.
    pub(crate) fn part(&self, slot: usize, max: usize) -> (&[Block], Option<usize>) {
        let end = slot.saturating_add(max).min(self.slots.len());
        let part = self.slots.get(slot..end).unwrap_or_default();
        (part, (end < self.slots.len()).then_some(end))
    }

    /// The live blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let all = (0..).zip(&self.slots).filter(|(_, block)| block.size_bytes > 0);
        all.filter_map(|(at, block)| Some((BlockId(NonZeroU32::new(at)?), block)))
    }
}

impl core::ops::Index<BlockId> for Arena {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.slots[id.index()]
    }
}

impl core::ops::IndexMut<BlockId> for Arena {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.slots[id.index()]
    }
}

const _: () = assert!(size_of::<Block>() == 64, "a block is a cache line");
