//! The figures of a replay.

use serde::Serialize;

use crate::pool_peaks::{PoolsApart, efficiency};
use crate::strategy::{Choice, ReplayTotals};

/// The outcome of one replay. The field names are those of `vramtape replay --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Its name in the [table](crate::strategy::TABLE).
    pub strategy: String,
    /// Its settings at the end: those of `native` and `expandable` as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub config: String,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// The most bytes alive at once, requests rounded up to the strategy's smallest unit (512 bytes for PyTorch's
    /// policy): what nothing with such units can go below.
    pub peak_live_bytes: u64,
    /// The most bytes allocated at once, after rounding and splitting.
    pub peak_allocated_bytes: u64,
    /// The most bytes held from the device at once.
    pub peak_reserved_bytes: u64,
    /// The most bytes of addresses at which memory was mapped at once. Under `stitch` a page may be mapped at several;
    /// memory of `cudaMalloc` does not count.
    pub peak_mapped_bytes: u64,
    /// `peak_live_bytes / peak_reserved_bytes`.
    pub efficiency: f64,
    /// The default pool and the private pools apart; `None` where no block was in a private pool.
    pub pools: Option<PoolsApart>,
    /// Calls that obtained device memory: `cudaMalloc` and mappings.
    pub device_allocs: i64,
    /// Calls that returned it.
    pub device_frees: i64,
    /// All driver calls: those, and reserving, mapping, releasing, events and waiting.
    pub driver_calls: u64,
    /// Those of them that map physical memory (`cuMemMap`).
    pub driver_maps: u64,
    /// Estimated time of all driver calls, from the simulated device's price table.
    pub driver_time_ns: u64,
    /// Times the cache was flushed because the device had no memory.
    pub num_alloc_retries: i64,
    /// Times memory could not be had.
    pub num_ooms: i64,
    /// Allocations, frees and segment calls.
    pub events: u64,
    /// Time of the replay.
    pub elapsed_s: f64,
}

impl Report {
    /// The report of a replay that took `elapsed_s`.
    pub(crate) fn new(
        choice: &Choice,
        capacity_bytes: Option<u64>,
        totals: &ReplayTotals,
        peak_live_bytes: u64,
        pools: Option<PoolsApart>,
        elapsed_s: f64,
    ) -> Self {
        let peak_reserved_bytes = totals.peak_reserved_bytes;
        let calls = totals.device_allocs + totals.device_frees;
        Self {
            strategy: choice.name().to_owned(),
            config: choice.text().to_owned(),
            capacity_bytes,
            peak_live_bytes,
            peak_allocated_bytes: totals.peak_allocated_bytes,
            peak_reserved_bytes,
            peak_mapped_bytes: totals.peak_mapped_bytes,
            efficiency: efficiency(peak_live_bytes, peak_reserved_bytes),
            pools,
            device_allocs: totals.device_allocs,
            device_frees: totals.device_frees,
            driver_calls: totals.driver_calls,
            driver_maps: totals.driver_maps,
            driver_time_ns: totals.driver_time_ns,
            num_alloc_retries: totals.retries,
            num_ooms: totals.ooms,
            events: (totals.allocs + totals.frees + calls) as u64,
            elapsed_s,
        }
    }
}
