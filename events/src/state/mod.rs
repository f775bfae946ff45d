//! The memory of one device as its events tell it, forwards and backwards.
//!
//! [`State`] keeps the mapped ranges, the pages of `stitch` and the live blocks; free blocks are the gaps between
//! blocks, as the allocator merges free neighbours at once. So every event can be undone: a tape can be checked against
//! its own end, an importer can walk from a final snapshot back to the state its trace began with, and the tail of a
//! ring that lost its head can be given a base. Pools and scopes are followed as far as the events describe them.

mod blocks;
mod error;
mod pages;
mod pools;
mod queries;
mod ranges;
mod scopes;
mod segments;

pub use blocks::BlockChange;
pub use error::{Problem, StateError};
pub use pages::{MappedPages, PageChange, check_pages};
pub use pools::PoolsState;
pub use ranges::{MappedRange, MappedRanges, MappingChange, RangeEdit};
pub use scopes::Scopes;
pub use segments::{check_segments, tile};

use crate::{
    base::BaseState,
    event::{Event, Record},
    segment::BlockState,
};
use blocks::Blocks;

/// Mapped memory, live blocks and pools of one device.
#[derive(Clone, Debug, Default)]
pub struct State {
    ranges: MappedRanges,
    pages: MappedPages,
    blocks: Blocks,
    pools: PoolsState,
}

/// Compares memory. Pools are left out: an event does not say what the pool was that it ends, so that one moment has
/// other pools forwards than backwards.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (&self.ranges, &self.pages, &self.blocks) == (&other.ranges, &other.pages, &other.blocks)
    }
}

impl Eq for State {}

impl State {
    /// Nothing mapped, nothing live.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is mapped (and so nothing is live).
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes mapped: PyTorch's `reserved_bytes`.
    pub fn reserved_bytes(&self) -> u64 {
        self.ranges.bytes()
    }

    /// Bytes of allocated blocks: PyTorch's `allocated_bytes`.
    pub fn allocated_bytes(&self) -> u64 {
        self.blocks.allocated_bytes()
    }

    /// Bytes of blocks that cannot be reused, pending frees included: PyTorch's `active_bytes`.
    pub fn active_bytes(&self) -> u64 {
        self.blocks.active_bytes()
    }

    /// Where the pages of `stitch` are mapped.
    pub fn pages(&self) -> &MappedPages {
        &self.pages
    }

    /// The pools, scopes and fraction that the events led to.
    pub fn pools(&self) -> &PoolsState {
        &self.pools
    }

    /// The state as a tape carries it, without time, settings, statistics and order.
    pub fn base_state(&self) -> BaseState {
        let pages = self.pages.iter().collect();
        BaseState { segments: self.segments(), pages, ..self.base_without_memory() }
    }

    /// The same without segments, pages and blocks.
    pub fn base_without_memory(&self) -> BaseState {
        self.pools.to_base(|pool| self.ranges.any_of(pool))
    }

    /// Does to the state what `record` did to the device.
    ///
    /// # Errors
    /// Where the event contradicts the state, which is left as it was.
    pub fn apply(&mut self, record: &Record) -> Result<(), StateError> {
        self.step(record, false)
    }

    /// Takes back what `record` did: the state before it, given the state after it.
    ///
    /// A block that comes back to life carries the stack of the event undone, the best that is known then.
    ///
    /// # Errors
    /// Where the event contradicts the state, which is left as it was.
    pub fn undo(&mut self, record: &Record) -> Result<(), StateError> {
        self.step(record, true)
    }

    /// Takes the live blocks out of the state, ascending.
    pub fn take_blocks(&mut self) -> impl Iterator<Item = BlockState> + use<> {
        core::mem::take(&mut self.blocks).into_iter()
    }

    /// Puts live blocks into the state.
    ///
    /// # Errors
    /// Where one lies in no mapped range, or in another block.
    pub fn put_blocks(
        &mut self,
        mut blocks: impl Iterator<Item = BlockState>,
    ) -> Result<(), Problem> {
        blocks.try_for_each(|block| {
            self.ranges.find(block.addr, block.size_bytes)?;
            self.blocks.insert(block)
        })
    }

    #[inline]
    fn step(&mut self, record: &Record, undoing: bool) -> Result<(), StateError> {
        self.change(record, undoing).map_err(|problem| StateError {
            event: record.event.name(),
            undoing,
            problem,
        })
    }

    #[inline]
    fn change(&mut self, record: &Record, undoing: bool) -> Result<(), Problem> {
        let event = &record.event;
        if let Some(change) = BlockChange::of(record) {
            let change = if undoing { change.reversed() } else { change };
            return self.change_block(change, record);
        }
        if let Event::RecordStream { addr, .. } | Event::Category { addr, .. } = *event {
            return self.blocks.expect_allocated(addr);
        }
        if let Some(change) = MappingChange::of(event, record.stack) {
            self.remap(if undoing { change.reversed() } else { change })?;
        } else if let Some(change) = PageChange::of(event) {
            self.pages.apply(if undoing { change.reversed() } else { change })?;
        } else if undoing {
            self.pools.undo(event);
        } else {
            self.pools.apply(event);
        }
        if !undoing {
            self.drop_ended(event);
        }
        Ok(())
    }

    fn change_block(&mut self, change: BlockChange, record: &Record) -> Result<(), Problem> {
        match change {
            BlockChange::Begin(block) => self.revive(block, record),
            BlockChange::End(block) => self.blocks.take(&block),
            BlockChange::Turn(block, status) => self.blocks.turn(&block, status),
        }
    }

    /// Makes a block live, where memory is mapped and nothing else lives. The pool is not compared: a pool that may
    /// be used on out of memory serves requests of others.
    fn revive(&mut self, block: BlockState, record: &Record) -> Result<(), Problem> {
        let addr = block.addr;
        let (_, range) = self.ranges.find(addr, block.size_bytes)?;
        if let Event::Alloc { stream, .. } = record.event
            && stream != range.stream
        {
            return Err(Problem::OtherStream { addr, event: stream, state: range.stream });
        }
        self.blocks.insert(block)
    }

    fn remap(&mut self, change: MappingChange) -> Result<(), Problem> {
        if let MappingChange::Unmap(addr, range) = change {
            self.blocks.expect_none(addr, range.size_bytes)?;
        }
        self.ranges.apply(change)
    }

    /// A released pool ends with its last segment, which no event says.
    fn drop_ended(&mut self, event: &Event) {
        if let Event::PoolRelease { pool }
        | Event::PoolEnd { pool }
        | Event::SegmentFree { pool, .. }
        | Event::SegmentUnmap { pool, .. } = *event
        {
            self.pools.drop_ended(pool, || self.ranges.any_of(pool));
        }
    }
}
