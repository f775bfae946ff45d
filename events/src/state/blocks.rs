//! The live blocks of a device, by address.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use super::{Problem, ranges::end_of};
use crate::ids::{Addr, StackId};

/// A block that cannot be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) size_bytes: u64,
    pub(super) requested_bytes: u64,
    /// Given back, but still in use by another stream.
    pub(super) pending: bool,
    pub(super) stack: StackId,
}

impl Block {
    pub(super) fn new(
        size_bytes: u64,
        requested_bytes: u64,
        pending: bool,
        stack: StackId,
    ) -> Self {
        Self { size_bytes, requested_bytes, pending, stack }
    }

    /// That it holds what was requested of it.
    pub(super) fn check(&self, addr: Addr) -> Result<(), Problem> {
        let Self { size_bytes, requested_bytes, .. } = *self;
        if requested_bytes > size_bytes {
            return Err(Problem::TooSmall { addr, size_bytes, requested_bytes });
        }
        Ok(())
    }

    /// Whether it has these sizes and is pending or not.
    fn is(&self, requested_bytes: u64, size_bytes: u64, pending: bool) -> bool {
        (self.requested_bytes, self.size_bytes, self.pending)
            == (requested_bytes, size_bytes, pending)
    }
}

/// Blocks that never overlap, with their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    by_addr: BTreeMap<Addr, Block>,
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
    pub(super) fn get(&self, addr: Addr) -> Option<&Block> {
        self.by_addr.get(&addr)
    }

    /// The live blocks that start at `addr` or behind it, ascending.
    pub(super) fn from(&self, addr: Addr) -> impl Iterator<Item = (Addr, &Block)> {
        self.by_addr.range(addr..).map(|(&addr, block)| (addr, block))
    }

    /// The live blocks that start in `size_bytes` bytes from `addr`, ascending.
    pub(super) fn within(
        &self,
        addr: Addr,
        size_bytes: u64,
    ) -> impl Iterator<Item = (Addr, &Block)> {
        let end = Addr(addr.0 + size_bytes);
        self.by_addr.range(addr..end).map(|(&addr, block)| (addr, block))
    }

    pub(super) fn insert(&mut self, addr: Addr, block: Block) -> Result<(), Problem> {
        block.check(addr)?;
        self.expect_none(addr, block.size_bytes)?;
        *self.sum(block.pending) += block.size_bytes;
        self.by_addr.insert(addr, block);
        Ok(())
    }

    pub(super) fn set_pending(&mut self, addr: Addr, pending: bool) {
        if let Some(block) = self.by_addr.get_mut(&addr) {
            let Block { size_bytes, pending: before, .. } = *block;
            block.pending = pending;
            *self.sum(before) -= size_bytes;
            *self.sum(pending) += size_bytes;
        }
    }

    /// That a live block with these sizes starts at `addr`, pending or not.
    pub(super) fn expect(
        &self,
        addr: Addr,
        event_requested_bytes: u64,
        event_size_bytes: u64,
        pending: bool,
    ) -> Result<(), Problem> {
        let block = self.by_addr.get(&addr).ok_or(Problem::NotLive { addr })?;
        if block.pending != pending {
            return Err(Problem::Pending { addr, pending: block.pending });
        }
        let Block { size_bytes, requested_bytes, .. } = *block;
        if (size_bytes, requested_bytes) != (event_size_bytes, event_requested_bytes) {
            return Err(Problem::OtherSize {
                addr,
                size_bytes,
                requested_bytes,
                event_size_bytes,
                event_requested_bytes,
            });
        }
        Ok(())
    }

    /// Takes away the block that [`Self::expect`] describes.
    pub(super) fn take(
        &mut self,
        addr: Addr,
        requested_bytes: u64,
        size_bytes: u64,
        pending: bool,
    ) -> Result<(), Problem> {
        match self.by_addr.entry(addr) {
            Entry::Occupied(entry) if entry.get().is(requested_bytes, size_bytes, pending) => {
                entry.remove();
                *self.sum(pending) -= size_bytes;
                Ok(())
            }
            // Returns the exact problem.
            _ => self.expect(addr, requested_bytes, size_bytes, pending),
        }
    }

    /// Checks that a block is allocated at `addr`.
    pub(super) fn expect_allocated(&self, addr: Addr) -> Result<(), Problem> {
        let block = self.by_addr.get(&addr).ok_or(Problem::NotLive { addr })?;
        if block.pending { Err(Problem::Pending { addr, pending: true }) } else { Ok(()) }
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

    fn sum(&mut self, pending: bool) -> &mut u64 {
        if pending { &mut self.pending_bytes } else { &mut self.allocated_bytes }
    }
}
