//! Lookups by address.

use super::State;
use crate::{
    ids::Addr,
    segment::{BlockState, SegmentState},
};

impl State {
    /// The live block that starts at `addr`.
    pub fn block_at(&self, addr: Addr) -> Option<BlockState> {
        self.blocks.get(addr).copied()
    }

    /// The live blocks that start at `addr` or behind it, ascending.
    pub fn live_blocks_from(&self, addr: Addr) -> impl Iterator<Item = BlockState> {
        self.blocks.from(addr)
    }

    /// The mapped range that holds `addr`; its blocks are left out.
    pub fn segment_at(&self, addr: Addr) -> Option<SegmentState> {
        self.ranges.find(addr, 1).ok().map(|(start, range)| range.at(start))
    }

    /// How many bytes from `addr` on lie in one mapped range and in no live block.
    pub fn free_bytes_at(&self, addr: Addr) -> u64 {
        self.segment_at(addr).map_or(0, |segment| self.free_bytes_in(&segment, addr))
    }

    /// The same for a known range: `segment` is the result of [`Self::segment_at`] for `addr`.
    pub fn free_bytes_in(&self, segment: &SegmentState, addr: Addr) -> u64 {
        if self.blocks.expect_none(addr, 1).is_err() {
            return 0;
        }
        let rest_bytes = segment.addr.0 + segment.size_bytes - addr.0;
        let next = self.blocks.from(addr).next();
        next.map_or(rest_bytes, |block| rest_bytes.min(block.addr.0 - addr.0))
    }
}
