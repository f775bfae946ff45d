//! The memory at one moment, from copies that were made one after another and the records since the first of them.
//!
//! What no record names did not change meanwhile. What a record names is as the last record says, whatever the copies
//! have. So neither the ring's tables nor a heap need to hold still while they are copied.

use events::{
    BlockChange, MappedPages, MappedRange, MappedRanges, MappingChange, PageChange, tile,
};
use rustc_hash::FxHashMap;
use trace_format::{Addr, BlockState, PageNumber, Record, SegmentState};

/// Live blocks and mapped memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// As they were copied.
    blocks: Vec<BlockState>,
    /// What records say of blocks; `None` for those that are free again.
    changed: FxHashMap<Addr, Option<Changed>>,
    ranges: MappedRanges,
    /// Where pages are mapped, if it began with the ring's tables.
    pages: MappedPages,
}

/// A block after a record.
#[derive(Clone, Copy, Debug)]
struct Changed {
    block: BlockState,
    /// Whether its stack is that of its allocation. A pending free does not know that; the copy of the block does.
    has_stack: bool,
}

impl Memory {
    /// Copies of the ring's tables.
    pub(super) fn new(
        blocks: Vec<BlockState>,
        (ranges, pages): (MappedRanges, MappedPages),
    ) -> Self {
        Self { blocks, changed: FxHashMap::default(), ranges, pages }
    }

    /// Adds copies. The records that were redone so far are older than they.
    pub(crate) fn add(&mut self, segments: &mut Vec<SegmentState>, blocks: &mut Vec<BlockState>) {
        for segment in segments.drain(..) {
            let change = MappingChange::Map(segment.addr, MappedRange::of(&segment));
            self.ranges.overwrite(change, &mut |_| ());
        }
        self.blocks.append(blocks);
    }

    /// Does to the memory what a record did, whether the copies have it already or not.
    pub(crate) fn redo(&mut self, record: &Record) {
        match BlockChange::of(record) {
            Some(BlockChange::Begin(block)) => {
                self.changed.insert(block.addr, Some(Changed { block, has_stack: true }));
            }
            Some(BlockChange::Turn(block, status)) => {
                let (stack, has_stack) = match self.changed.get(&block.addr) {
                    Some(Some(Changed { block, has_stack })) => (block.stack, *has_stack),
                    _ => (block.stack, false),
                };
                let block = BlockState { status, stack, ..block };
                self.changed.insert(block.addr, Some(Changed { block, has_stack }));
            }
            Some(BlockChange::End(block)) => {
                self.changed.insert(block.addr, None);
            }
            None => {
                if let Some(change) = MappingChange::of(&record.event, record.stack) {
                    self.ranges.overwrite(change, &mut |_| ());
                } else if let Some(change) = PageChange::of(&record.event) {
                    self.pages.overwrite(change);
                }
            }
        }
    }

    /// Where pages are mapped; nothing where it did not begin with the ring's tables.
    pub(super) fn take_pages(&mut self) -> Vec<(Addr, PageNumber)> {
        std::mem::take(&mut self.pages).iter().collect()
    }

    /// The segments, tiled by their blocks; `None` where a block lies in none of them, or in another block.
    pub(crate) fn into_segments(self) -> Option<Vec<SegmentState>> {
        let Self { mut blocks, mut changed, ranges, pages: _ } = self;
        blocks.retain(|copy| match changed.get_mut(&copy.addr) {
            None => true,
            Some(Some(Changed { block, has_stack: false })) => {
                block.stack = copy.stack;
                false
            }
            Some(_) => false,
        });
        blocks.extend(changed.into_values().flatten().map(|changed| changed.block));
        blocks.sort_unstable_by_key(|block| block.addr);
        tile(ranges.from(Addr(0)), blocks.into_iter())
    }
}
