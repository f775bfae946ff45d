//! The memory of one device as its events tell it, forwards and backwards.
//!
//! [`State`] keeps the mapped ranges and the live blocks; free blocks are the gaps between them, as the allocator
//! merges free neighbours at once. So every event can be undone: a tape can be checked against its own end, an
//! importer can walk from a final snapshot back to the state its trace began with, and the tail of a ring that lost
//! its head can be given a base.

mod blocks;
mod error;
mod queries;
mod ranges;
mod segments;

pub use error::{Problem, StateError};
pub use segments::check_segments;

use crate::{
    event::{Event, Record},
    ids::{Addr, StackId, Stream},
};
use blocks::{Block, Blocks};
use ranges::{Range, Ranges};

/// Mapped memory and live blocks of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    ranges: Ranges,
    blocks: Blocks,
}

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

    /// Does to the state what `record` did to the memory. Events that move no memory change nothing.
    ///
    /// # Errors
    /// Where the event contradicts the state, which is left as it was.
    pub fn apply(&mut self, record: &Record) -> Result<(), StateError> {
        self.step_forward(record).map_err(|problem| StateError {
            event: record.event.name(),
            undoing: false,
            problem,
        })
    }

    /// Takes back what `record` did: the state before it, given the state after it.
    ///
    /// A block that comes back to life carries the stack of the event undone, the best that is known then.
    ///
    /// # Errors
    /// Where the event contradicts the state, which is left as it was.
    pub fn undo(&mut self, record: &Record) -> Result<(), StateError> {
        self.step_backward(record).map_err(|problem| StateError {
            event: record.event.name(),
            undoing: true,
            problem,
        })
    }

    fn step_forward(&mut self, record: &Record) -> Result<(), Problem> {
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, stream, .. } => {
                let block = Block::new(size_bytes, requested_bytes, false, record.stack);
                self.revive(addr, block, Some(stream))
            }
            Event::Free { addr, requested_bytes, size_bytes, pending } => {
                if pending {
                    self.blocks.expect(addr, requested_bytes, size_bytes, false)?;
                    self.blocks.set_pending(addr, true);
                    return Ok(());
                }
                self.blocks.take(addr, requested_bytes, size_bytes, false)
            }
            Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                self.blocks.take(addr, requested_bytes, size_bytes, true)
            }
            Event::RecordStream { addr, .. } | Event::Category { addr, .. } => {
                self.blocks.expect_allocated(addr)
            }
            ref event => match segment_change(event, record.stack) {
                Some((Change::Map, addr, range)) => self.ranges.map(addr, range),
                Some((Change::Unmap, addr, range)) => self.unmap(addr, range),
                None => Ok(()),
            },
        }
    }

    fn step_backward(&mut self, record: &Record) -> Result<(), Problem> {
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                self.blocks.take(addr, requested_bytes, size_bytes, false)
            }
            Event::Free { addr, requested_bytes, size_bytes, pending: false } => {
                let block = Block::new(size_bytes, requested_bytes, false, record.stack);
                self.revive(addr, block, None)
            }
            Event::Free { addr, requested_bytes, size_bytes, pending: true } => {
                self.blocks.expect(addr, requested_bytes, size_bytes, true)?;
                self.blocks.set_pending(addr, false);
                Ok(())
            }
            Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                let block = Block::new(size_bytes, requested_bytes, true, record.stack);
                self.revive(addr, block, None)
            }
            Event::RecordStream { addr, .. } | Event::Category { addr, .. } => {
                self.blocks.expect_allocated(addr)
            }
            ref event => match segment_change(event, record.stack) {
                Some((Change::Map, addr, range)) => self.unmap(addr, range),
                Some((Change::Unmap, addr, range)) => self.ranges.map(addr, range),
                None => Ok(()),
            },
        }
    }

    /// Makes a block live, where memory is mapped and nothing else lives. The pool is not compared: a pool that may
    /// be used on out of memory serves requests of others.
    fn revive(&mut self, addr: Addr, block: Block, stream: Option<Stream>) -> Result<(), Problem> {
        let range = self.ranges.holding(addr, block.size_bytes)?;
        if let Some(stream) = stream
            && stream != range.stream
        {
            return Err(Problem::OtherStream { addr, event: stream, state: range.stream });
        }
        self.blocks.insert(addr, block)
    }

    fn unmap(&mut self, addr: Addr, range: Range) -> Result<(), Problem> {
        self.blocks.expect_none(addr, range.size_bytes)?;
        self.ranges.unmap(addr, range)
    }
}

/// The effect of an event on the mapped memory.
enum Change {
    Map,
    Unmap,
}

fn segment_change(event: &Event, stack: StackId) -> Option<(Change, Addr, Range)> {
    let (change, is_expandable) = match event {
        Event::SegmentAlloc { .. } => (Change::Map, false),
        Event::SegmentFree { .. } => (Change::Unmap, false),
        Event::SegmentMap { .. } => (Change::Map, true),
        Event::SegmentUnmap { .. } => (Change::Unmap, true),
        _ => return None,
    };
    let (Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
    | Event::SegmentFree { addr, size_bytes, stream, pool, is_large }
    | Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
    | Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large }) = *event
    else {
        return None;
    };
    Some((change, addr, Range { size_bytes, stream, pool, is_large, is_expandable, stack }))
}
