//! The parts of reserved memory.

use serde::Serialize;

/// Every reserved byte, in exactly one part. Sizes are bytes. `docs/waste.md` defines each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Requested by live allocations.
    pub requested_bytes: u64,
    /// Added by rounding their sizes.
    pub rounding_bytes: u64,
    /// The rest of their blocks that was not split off.
    pub unsplit_remainder_bytes: u64,
    /// Free, and the reference request could be served from it.
    pub cached_reusable_bytes: u64,
    /// Free, and of use if it were the reference request's stream.
    pub stranded_by_stream_bytes: u64,
    /// Free, and of use if it were the reference request's pool.
    pub stranded_by_pool_bytes: u64,
    /// Free, and of no use to the reference request: too small, or the settings keep it from it.
    pub stranded_by_fragmentation_bytes: u64,
    /// Given back, and waiting for another stream to be done with it.
    pub pending_free_bytes: u64,
    /// The excess of segments made for one block, because segments are whole pages of 2 MiB.
    pub driver_granularity_bytes: u64,
}

impl Parts {
    /// The parts and their names, in the order of the table.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("requested", self.requested_bytes),
            ("rounding", self.rounding_bytes),
            ("unsplit remainder", self.unsplit_remainder_bytes),
            ("cached and reusable", self.cached_reusable_bytes),
            ("stranded by stream", self.stranded_by_stream_bytes),
            ("stranded by pool", self.stranded_by_pool_bytes),
            ("stranded by fragmentation", self.stranded_by_fragmentation_bytes),
            ("pending free", self.pending_free_bytes),
            ("driver granularity", self.driver_granularity_bytes),
        ]
    }

    /// All parts together: what is reserved.
    pub fn sum_bytes(&self) -> u64 {
        self.named().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Everything but what was asked for.
    pub fn waste_bytes(&self) -> u64 {
        self.sum_bytes() - self.requested_bytes
    }

    /// All free bytes, for any stream and pool.
    pub fn free_bytes(&self) -> u64 {
        self.cached_reusable_bytes
            + self.stranded_by_stream_bytes
            + self.stranded_by_pool_bytes
            + self.stranded_by_fragmentation_bytes
    }
}
