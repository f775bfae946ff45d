//! The memory at one moment, from copies that were made one after another and the records since the first of them.
//!
//! What no record names did not change meanwhile. What a record names is as the last record says, whatever the copies
//! have. So neither the ring's tables nor a heap need to hold still while they are copied.

use rustc_hash::FxHashMap;
use trace_format::{Addr, BlockState, BlockStatus, Event, Record, SegmentState, StackId};

use super::segments::{Change, Run, Runs};

/// Live blocks and mapped memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// As they were copied.
    blocks: Vec<BlockState>,
    /// What records say of blocks; `None` for those that are free again.
    changed: FxHashMap<Addr, Option<Changed>>,
    runs: Runs,
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
    pub(super) fn new(blocks: Vec<BlockState>, runs: Runs) -> Self {
        Self { blocks, changed: FxHashMap::default(), runs }
    }

    /// Adds copies. The records that were redone so far are older than they.
    pub(crate) fn add(&mut self, segments: &mut Vec<SegmentState>, blocks: &mut Vec<BlockState>) {
        for segment in segments.drain(..) {
            let change = Change::Map(segment.addr.0, Run::of(&segment));
            self.runs.apply(change, &mut |_| ());
        }
        self.blocks.append(blocks);
    }

    /// Does to the memory what a record did, whether the copies have it already or not.
    pub(crate) fn redo(&mut self, record: &Record) {
        let stack = record.stack;
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                let status = BlockStatus::Allocated;
                let block = BlockState { addr, size_bytes, requested_bytes, status, stack };
                self.changed.insert(addr, Some(Changed { block, has_stack: true }));
            }
            Event::Free { addr, requested_bytes, size_bytes, pending: true } => {
                let (stack, has_stack) = match self.changed.get(&addr) {
                    Some(Some(Changed { block, has_stack })) => (block.stack, *has_stack),
                    _ => (stack, false),
                };
                let status = BlockStatus::PendingFree;
                let block = BlockState { addr, size_bytes, requested_bytes, status, stack };
                self.changed.insert(addr, Some(Changed { block, has_stack }));
            }
            Event::Free { addr, .. } | Event::FreeCompleted { addr, .. } => {
                self.changed.insert(addr, None);
            }
            ref event => {
                if let Some(change) = Change::of(event, stack) {
                    self.runs.apply(change, &mut |_| ());
                }
            }
        }
    }

    /// The segments, tiled by their blocks; `None` where a block lies in none of them, or in another block.
    pub(crate) fn into_segments(self) -> Option<Vec<SegmentState>> {
        let Self { mut blocks, mut changed, runs } = self;
        blocks.retain(|copy| match changed.get_mut(&copy.addr) {
            None => true,
            Some(Some(Changed { block, has_stack: false })) => {
                block.stack = copy.stack;
                false
            }
            Some(_) => false,
        });
        blocks.extend(changed.into_values().flatten().map(|changed| changed.block));
        tile(runs.into_iter().map(|(addr, run)| run.at(addr)).collect(), blocks)
    }
}

/// Fills segments, which are in order of address, with their live blocks and the free ones between them; `None` where a
/// block lies in none, or in another.
pub(crate) fn tile(
    mut segments: Vec<SegmentState>,
    mut live: Vec<BlockState>,
) -> Option<Vec<SegmentState>> {
    live.sort_unstable_by_key(|block| block.addr);
    let mut live = live.into_iter().peekable();
    for segment in &mut segments {
        let end = segment.addr.0.checked_add(segment.size_bytes)?;
        let mut free_from = segment.addr.0;
        while let Some(block) = live.next_if(|block| block.addr.0 < end) {
            if block.addr.0 < free_from {
                return None;
            }
            segment.blocks.extend(gap(free_from, block.addr.0));
            free_from = block.addr.0.checked_add(block.size_bytes).filter(|next| *next <= end)?;
            segment.blocks.push(block);
        }
        segment.blocks.extend(gap(free_from, end));
    }
    live.next().is_none().then_some(segments)
}

/// The free block between two addresses, if there is room for one.
fn gap(from: u64, to: u64) -> Option<BlockState> {
    let (addr, size_bytes) = (Addr(from), to - from);
    let (requested_bytes, status, stack) = (0, BlockStatus::Inactive, StackId::NONE);
    let free = BlockState { addr, size_bytes, requested_bytes, status, stack };
    (size_bytes > 0).then_some(free)
}
