//! Statistics with PyTorch's names, meanings and keys (`torch.cuda.memory_stats`).

mod byte_size;
mod counters;
mod follow;
mod keys;
#[cfg(feature = "serde")]
mod nested;
mod stat;
mod stat_counter;
mod values;

use alloc::vec::Vec;

use alloc::collections::BTreeMap;

pub use byte_size::ByteSize;
pub(crate) use counters::{Counters, PieceMerge, Pieces};
use events::PoolId;
pub use stat::{Stat, StatArray};

use settings::{Compat, UNLIMITED};

/// What one device's allocator did (PyTorch's `DeviceStats`). Counts, or bytes where the name says
/// so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Allocations that callers hold.
    pub allocation: StatArray,
    /// Segments obtained with `cudaMalloc`; expandable segments do not count here.
    pub segment: StatArray,
    /// Blocks held by callers or still in use by a stream.
    pub active: StatArray,
    /// Free blocks that are a part of a segment; expandable segments do not count here.
    pub inactive_split: StatArray,
    /// Bytes of blocks that callers hold.
    pub allocated_bytes: StatArray,
    /// Bytes obtained from the device.
    pub reserved_bytes: StatArray,
    /// Bytes of active blocks.
    pub active_bytes: StatArray,
    /// Bytes of inactive split blocks.
    pub inactive_split_bytes: StatArray,
    /// Bytes that callers asked for, before rounding, of active blocks.
    pub requested_bytes: StatArray,
    /// Allocations of at least `max_split_size_mb`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size_mb`.
    pub oversize_segments: Stat,
    /// Times the device was asked again after a flush.
    pub num_alloc_retries: i64,
    /// Times memory could not be had.
    pub num_ooms: i64,
    /// Times all streams' pending frees were waited for.
    pub num_sync_all_streams: i64,
    /// Calls that obtained device memory, mapped or allocated.
    pub num_device_alloc: i64,
    /// Calls that returned device memory, unmapped or freed.
    pub num_device_free: i64,
    /// Requests refused before the device was asked (`throw_on_cudamalloc_oom`, since 2.13).
    pub num_oom_rejections: i64,
    /// Bytes obtained from the device for each private pool, in order of creation (since 2.13).
    reserved_bytes_by_private_pools: Vec<(PoolId, StatArray)>,
    /// The place of each pool among them.
    place_of_private_pool: BTreeMap<PoolId, usize>,
    /// Bytes, latched when the allocator starts as PyTorch does.
    max_split_size_bytes: u64,
    compat: Compat,
}

impl Stats {
    /// Zero everywhere. `compat` chooses the keys, `max_split_size_bytes` is shown as it was at the
    /// start.
    pub fn new(compat: Compat, max_split_size_bytes: u64) -> Self {
        let (array, stat) = (StatArray::default(), Stat::default());
        Self {
            allocation: array,
            segment: array,
            active: array,
            inactive_split: array,
            allocated_bytes: array,
            reserved_bytes: array,
            active_bytes: array,
            inactive_split_bytes: array,
            requested_bytes: array,
            oversize_allocations: stat,
            oversize_segments: stat,
            num_alloc_retries: 0,
            num_ooms: 0,
            num_sync_all_streams: 0,
            num_device_alloc: 0,
            num_device_free: 0,
            num_oom_rejections: 0,
            reserved_bytes_by_private_pools: Vec::new(),
            place_of_private_pool: BTreeMap::new(),
            max_split_size_bytes,
            compat,
        }
    }

    /// The reserved bytes of one private pool, to be raised or lowered beside
    /// [`reserved_bytes`](Self::reserved_bytes). Segment calls only: the first call for a pool
    /// allocates.
    pub fn private_pool_reserved_bytes(&mut self, pool: PoolId) -> &mut StatArray {
        let pools = &mut self.reserved_bytes_by_private_pools;
        let place = *self.place_of_private_pool.entry(pool).or_insert_with(|| {
            pools.push((pool, StatArray::default()));
            pools.len() - 1
        });
        &mut pools[place].1
    }

    /// The reserved bytes of every private pool that held memory since the beginning, in order of creation.
    pub fn reserved_bytes_by_private_pools(&self) -> impl Iterator<Item = (PoolId, &StatArray)> {
        self.reserved_bytes_by_private_pools.iter().map(|(pool, bytes)| (*pool, bytes))
    }

    /// Every peak restarts from the current value (`torch.cuda.reset_peak_memory_stats`).
    pub fn reset_peak(&mut self) {
        self.each(StatArray::reset_peak, Stat::reset_peak);
    }

    /// Every sum and event counter restarts from zero
    /// (`torch.cuda.reset_accumulated_memory_stats`).
    pub fn reset_accumulated(&mut self) {
        self.each(StatArray::reset_accumulated, Stat::reset_accumulated);
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_sync_all_streams = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
        self.num_oom_rejections = 0;
    }

    /// Whether a size counts as oversize under this limit; nothing does under no limit.
    #[inline]
    pub const fn is_oversize(size_bytes: u64, max_split_size_bytes: u64) -> bool {
        max_split_size_bytes != UNLIMITED && size_bytes >= max_split_size_bytes
    }

    /// `max_split_size` as PyTorch prints it: -1 is no limit.
    pub fn max_split_size(&self) -> i64 {
        match self.max_split_size_bytes {
            UNLIMITED => -1,
            bytes => bytes.cast_signed(),
        }
    }

    fn each(&mut self, array: impl Fn(&mut StatArray), stat: impl Fn(&mut Stat)) {
        for counter in [
            &mut self.allocation,
            &mut self.segment,
            &mut self.active,
            &mut self.inactive_split,
            &mut self.allocated_bytes,
            &mut self.reserved_bytes,
            &mut self.active_bytes,
            &mut self.inactive_split_bytes,
            &mut self.requested_bytes,
        ] {
            array(counter);
        }
        for (_, counter) in &mut self.reserved_bytes_by_private_pools {
            array(counter);
        }
        stat(&mut self.oversize_allocations);
        stat(&mut self.oversize_segments);
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self::new(Compat::default(), UNLIMITED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_reset_keeps_sums_and_counters() {
        let mut stats = Stats::default();
        stats.reserved_bytes.increase(true, 4 << 20);
        stats.reserved_bytes.decrease(true, 2 << 20);
        stats.private_pool_reserved_bytes(PoolId(1, 0)).increase(true, 2 << 20);
        stats.private_pool_reserved_bytes(PoolId(1, 0)).decrease(true, 2 << 20);
        stats.num_ooms = 1;
        stats.reset_peak();
        assert_eq!(stats.reserved_bytes.small_pool.peak, 2 << 20);
        assert_eq!(stats.private_pool_reserved_bytes(PoolId(1, 0)).all.peak, 0);
        assert_eq!(stats.reserved_bytes.all.allocated, 4 << 20);
        assert_eq!(stats.num_ooms, 1);
    }

    #[test]
    fn an_accumulated_reset_keeps_current_values_and_peaks() {
        let mut stats = Stats::default();
        stats.allocation.increase(false, 1);
        stats.oversize_segments.increase(1);
        stats.num_device_alloc = 1;
        stats.reset_accumulated();
        assert_eq!(stats.allocation.all, Stat { current: 1, peak: 1, allocated: 0, freed: 0 });
        assert_eq!(stats.oversize_segments.allocated, 0);
        assert_eq!(stats.num_device_alloc, 0);
    }
}
