//! The order in which segments and expandable ranges began: PyTorch 2.15 takes from the older one first.

use alloc::collections::BTreeMap;
use core::ops::Bound::{Excluded, Unbounded};

use events::Addr;

/// Ranks of segments and ranges, from 1. Empty under 2.11, which looks at addresses only.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentRanks {
    /// The newest rank; wraps after four thousand million of them.
    newest: u32,
    /// Where each begins, by its rank.
    begun: BTreeMap<u32, Addr>,
}

impl SegmentRanks {
    /// The rank of a segment that begins now, at this address.
    pub(crate) fn begin(&mut self, addr: Addr) -> u32 {
        self.newest = self.newest.wrapping_add(1);
        self.begun.insert(self.newest, addr);
        self.newest
    }

    /// Forgets a segment that ended.
    pub(crate) fn end(&mut self, rank: u32) {
        self.begun.remove(&rank);
    }

    /// Lets new ranks follow those of a restored state.
    pub(crate) fn restart_behind(&mut self, newest: u32) {
        self.newest = newest;
    }

    /// Gives a restored segment its rank.
    pub(crate) fn restore(&mut self, rank: u32, addr: Addr) {
        self.begun.insert(rank, addr);
    }

    /// Where segments and ranges begin, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Addr> {
        // Ranks wrap: those above the newest one are the oldest.
        let oldest = self.begun.range((Excluded(self.newest), Unbounded));
        let newest = self.begun.range(..=self.newest);
        oldest.chain(newest).map(|(_, addr)| *addr)
    }

    /// Whether these are the ranks, for the full check.
    pub(crate) fn are(&self, begun: &BTreeMap<u32, Addr>) -> bool {
        self.begun == *begun
    }
}
