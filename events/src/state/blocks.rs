//! The live blocks of a device, by address.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use super::{Problem, ranges::end_of};
use crate::event::{Event, Record};
use crate::ids::Addr;
use crate::segment::{BlockState, BlockStatus};

/// The effect of an event on a block.
#[derive(Clone, Copy, Debug)]
pub enum BlockChange {
    /// The block is live from here on.
    Begin(BlockState),
    /// The block is free from here on.
    End(BlockState),
    /// The block has this status from here on.
    Turn(BlockState, BlockStatus),
}

impl BlockChange {
    /// `None` for events of anything but one block.
    #[inline]
    pub fn of(record: &Record) -> Option<Self> {
        use BlockStatus::{Allocated, PendingFree};
        let (Event::Alloc { addr, requested_bytes, size_bytes, .. }
        | Event::Free { addr, requested_bytes, size_bytes, .. }
        | Event::FreeCompleted { addr, requested_bytes, size_bytes }) = record.event
        else {
            return None;
        };
        let (status, stack) = (Allocated, record.stack);
        let block = BlockState { addr, size_bytes, requested_bytes, status, stack };
        Some(match record.event {
            Event::Alloc { .. } => Self::Begin(block),
            Event::Free { pending: true, .. } => Self::Turn(block, PendingFree),
            Event::Free { .. } => Self::End(block),
            _ => Self::End(BlockState { status: PendingFree, ..block }),
        })
    }

    /// The change that takes this one back.
    #[inline]
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Begin(block) => Self::End(block),
            Self::End(block) => Self::Begin(block),
            Self::Turn(block, status) => Self::Turn(BlockState { status, ..block }, block.status),
        }
    }
}

impl BlockState {
    /// Checks that the block holds what was requested of it.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let Self { addr, size_bytes, requested_bytes, .. } = *self;
        if requested_bytes > size_bytes {
            return Err(Problem::TooSmall { addr, size_bytes, requested_bytes });
        }
        Ok(())
    }

    /// Checks that the block is the one that an event describes; their stacks may differ.
    ///
    /// # Errors
    /// Where it has another status or other sizes.
    #[inline]
    pub fn expect(&self, event: &Self) -> Result<(), Problem> {
        let Self { addr, size_bytes, requested_bytes, status, .. } = *self;
        if status != event.status {
            return Err(Problem::Pending { addr, pending: status == BlockStatus::PendingFree });
        }
        if (size_bytes, requested_bytes) != (event.size_bytes, event.requested_bytes) {
            return Err(Problem::OtherSize {
                addr,
                size_bytes,
                requested_bytes,
                event_size_bytes: event.size_bytes,
                event_requested_bytes: event.requested_bytes,
            });
        }
        Ok(())
    }
}

/// Blocks that never overlap, with their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    by_addr: BTreeMap<Addr, BlockState>,
    allocated_bytes: u64,
    pending_bytes: u64,
}

impl Blocks {
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    pub(super) fn active_bytes(&self) -> u64 {
        self.allocated_bytes + self.pending_bytes
    }

    /// The live block that starts at `addr`.
    pub(super) fn get(&self, addr: Addr) -> Option<&BlockState> {
        self.by_addr.get(&addr)
    }

    /// The live blocks that start at `addr` or behind it, ascending.
    pub(super) fn from(&self, addr: Addr) -> impl Iterator<Item = BlockState> {
        self.by_addr.range(addr..).map(|(_, block)| *block)
    }

    /// All live blocks, ascending.
    pub(super) fn into_iter(self) -> impl Iterator<Item = BlockState> {
        self.by_addr.into_values()
    }

    pub(super) fn insert(&mut self, block: BlockState) -> Result<(), Problem> {
        block.check()?;
        self.expect_none(block.addr, block.size_bytes)?;
        *self.sum(block.status) += block.size_bytes;
        self.by_addr.insert(block.addr, block);
        Ok(())
    }

    /// Gives the block that an event describes another status.
    pub(super) fn turn(&mut self, event: &BlockState, status: BlockStatus) -> Result<(), Problem> {
        let addr = event.addr;
        let block = self.by_addr.get_mut(&addr).ok_or(Problem::NotLive { addr })?;
        block.expect(event)?;
        block.status = status;
        *self.sum(event.status) -= event.size_bytes;
        *self.sum(status) += event.size_bytes;
        Ok(())
    }

    /// Takes away the block that an event describes.
    pub(super) fn take(&mut self, event: &BlockState) -> Result<(), Problem> {
        let addr = event.addr;
        let Entry::Occupied(entry) = self.by_addr.entry(addr) else {
            return Err(Problem::NotLive { addr });
        };
        entry.get().expect(event)?;
        entry.remove();
        *self.sum(event.status) -= event.size_bytes;
        Ok(())
    }

    /// Checks that a block is allocated at `addr`.
    pub(super) fn expect_allocated(&self, addr: Addr) -> Result<(), Problem> {
        match self.get(addr).ok_or(Problem::NotLive { addr })?.status {
            BlockStatus::Allocated => Ok(()),
            _ => Err(Problem::Pending { addr, pending: true }),
        }
    }

    /// Checks that no block is live in `size_bytes` bytes from `addr`.
    pub(super) fn expect_none(&self, addr: Addr, size_bytes: u64) -> Result<(), Problem> {
        let end = end_of(addr, size_bytes)?;
        match self.by_addr.range(..end).next_back() {
            Some((&block, live)) if block.0 + live.size_bytes > addr.0 => {
                Err(Problem::Live { addr, size_bytes, block })
            }
            _ => Ok(()),
        }
    }

    fn sum(&mut self, status: BlockStatus) -> &mut u64 {
        match status {
            BlockStatus::Allocated => &mut self.allocated_bytes,
            _ => &mut self.pending_bytes,
        }
    }
}
