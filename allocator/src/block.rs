//! Block metadata: a dense arena with 32-bit ids. Device memory cannot hold headers, so all of it lives here.

use trace_format::{Addr, StackId, Stream};

use crate::expandable::RangeId;
use crate::free_list::Entry;
use crate::pool::PoolIndex;
use crate::record::BlockSlot;

/// A block's place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(u32);

impl BlockId {
    /// Its place as the recorder knows it.
    pub(crate) const fn slot(self) -> BlockSlot {
        BlockSlot(self.0)
    }
}

/// A contiguous piece of a segment: handed out, waiting for events, free, or (expandable segments) unmapped.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) addr: Addr,
    pub(crate) size_bytes: u64,
    /// Bytes asked for when last handed out; kept while free, as PyTorch's snapshots show it.
    pub(crate) requested_bytes: u64,
    pub(crate) stream: Stream,
    pub(crate) pool: PoolIndex,
    /// Neighbours in the same segment.
    pub(crate) prev: Option<BlockId>,
    pub(crate) next: Option<BlockId>,
    /// The address range of the expandable segment this is part of.
    pub(crate) range: Option<RangeId>,
    pub(crate) allocated: bool,
    pub(crate) mapped: bool,
    /// Whether other streams used it since it was handed out; which ones is in the heap's side table.
    pub(crate) used_by_others: bool,
    /// Events recorded at its free that are not done.
    pub(crate) event_count: u32,
    /// The pool's search count when it became free: its age, for garbage collection.
    pub(crate) search_count_at_free: u64,
    pub(crate) stack: StackId,
    /// Stack of the call that made the segment; on the first block only.
    pub(crate) segment_stack: StackId,
    /// The segment's place in the order of creation, which decides between blocks of one size: PyTorch 2.15 takes from
    /// the older segment first. Zero for all under 2.11, which looks at addresses only.
    pub(crate) segment_rank: u32,
}

impl Block {
    /// A free, mapped, unsplit block.
    pub(crate) fn new(addr: Addr, size_bytes: u64, stream: Stream, pool: PoolIndex) -> Self {
        Self {
            addr,
            size_bytes,
            requested_bytes: 0,
            stream,
            pool,
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

    /// What the free list knows of it.
    pub(crate) const fn entry(&self, id: BlockId) -> Entry {
        Entry { size_bytes: self.size_bytes, addr: self.addr, segment_rank: self.segment_rank, id }
    }

    /// Whether the segment holds more than this block.
    pub(crate) const fn is_split(&self) -> bool {
        self.prev.is_some() || self.next.is_some()
    }

    /// Whether nobody holds or awaits it, mapped or not.
    pub(crate) const fn is_idle(&self) -> bool {
        !self.allocated && self.event_count == 0 && !self.used_by_others
    }

    /// First address behind it.
    pub(crate) const fn end(&self) -> Addr {
        Addr(self.addr.0 + self.size_bytes)
    }
}

/// All blocks of a heap. Ids of removed blocks are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    slots: Vec<Block>,
    vacant: Vec<BlockId>,
}

impl Blocks {
    pub(crate) fn insert(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self[id] = block;
            return id;
        }
        self.slots.push(block);
        BlockId(u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 blocks"))
    }

    /// Forgets a block; the caller has unlinked it.
    pub(crate) fn remove(&mut self, id: BlockId) {
        assert!(self[id].size_bytes > 0, "a block is removed once");
        self[id].size_bytes = 0;
        self.vacant.push(id);
    }

    /// Puts `new` between its neighbours `new.prev` and `new.next`, which must be neighbours now.
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

    /// Takes a block out of its chain, its neighbours meeting over it.
    pub(crate) fn unlink(&mut self, id: BlockId) {
        let (prev, next) = (self[id].prev, self[id].next);
        if let Some(prev) = prev {
            self[prev].next = next;
        }
        if let Some(next) = next {
            self[next].prev = prev;
        }
    }

    /// The live blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let all = self.slots.iter().enumerate();
        all.filter(|(_, block)| block.size_bytes > 0).map(|(at, block)| (BlockId(at as u32), block))
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;

    fn index(&self, id: BlockId) -> &Block {
        &self.slots[id.0 as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.slots[id.0 as usize]
    }
}
