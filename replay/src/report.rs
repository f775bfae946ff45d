//! What a replay reserved, and how it got there.

use allocator::device::sim::SimDevice;
use allocator::heap::Heap;
use allocator::record::Recorder;
use serde::Serialize;

/// The outcome of one replay. The field names are those of `vramtape replay --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `native` or `expandable`.
    pub strategy: String,
    /// The settings at the end, as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub config: String,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// The most bytes alive at once, requests rounded up to 512 bytes: what no policy can go below.
    pub peak_live_bytes: u64,
    /// The most bytes handed out at once, after rounding and splitting.
    pub peak_allocated_bytes: u64,
    /// The most bytes held from the device at once.
    pub peak_reserved_bytes: u64,
    /// `peak_live_bytes / peak_reserved_bytes`.
    pub efficiency: f64,
    /// Calls that obtained device memory: `cudaMalloc` and mappings.
    pub device_allocs: i64,
    /// Calls that returned it.
    pub device_frees: i64,
    /// Estimated time in driver calls, from the simulated device's price table.
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

/// Peaks and sums of a replay that a tape's own resets of the statistics do not lower.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    peak_allocated: i64,
    peak_reserved: i64,
    device_allocs: i64,
    device_frees: i64,
    retries: i64,
    ooms: i64,
    allocs: i64,
    frees: i64,
}

impl Totals {
    /// Notes the peaks; before each reset of theirs, and at the end.
    pub(crate) fn add_peaks<R: Recorder>(&mut self, heap: &Heap<SimDevice, R>) {
        let stats = heap.stats();
        self.peak_allocated = self.peak_allocated.max(stats.allocated_bytes.all.peak);
        self.peak_reserved = self.peak_reserved.max(stats.reserved_bytes.all.peak);
    }

    /// Adds the sums; before each reset of theirs, and at the end.
    pub(crate) fn add_sums<R: Recorder>(&mut self, heap: &Heap<SimDevice, R>) {
        let stats = heap.stats();
        self.device_allocs += stats.num_device_alloc;
        self.device_frees += stats.num_device_free;
        self.retries += stats.num_alloc_retries;
        self.ooms += stats.num_ooms;
        self.allocs += stats.allocation.all.allocated;
        self.frees += stats.allocation.all.freed;
    }

    /// The report, but for what the caller knows.
    pub(crate) fn report(&self, peak_live_bytes: u64, driver_time_ns: u64) -> Report {
        let peak_reserved_bytes = self.peak_reserved as u64;
        let efficiency = if peak_reserved_bytes == 0 {
            1.0
        } else {
            peak_live_bytes as f64 / peak_reserved_bytes as f64
        };
        Report {
            strategy: String::new(),
            config: String::new(),
            capacity_bytes: None,
            peak_live_bytes,
            peak_allocated_bytes: self.peak_allocated as u64,
            peak_reserved_bytes,
            efficiency,
            device_allocs: self.device_allocs,
            device_frees: self.device_frees,
            driver_time_ns,
            num_alloc_retries: self.retries,
            num_ooms: self.ooms,
            events: (self.allocs + self.frees + self.device_allocs + self.device_frees) as u64,
            elapsed_s: 0.0,
        }
    }
}
