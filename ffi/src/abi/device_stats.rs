//! Statistics as C structures, for callers that make PyTorch's `DeviceStats` of them.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use allocator::stats::{Stat, StatArray, Stats};

use super::done;
use crate::error::Error;
use crate::process;

/// A quantity over time (`c10::CachingAllocator::Stat`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeStat {
    /// Its value now.
    pub current: i64,
    /// The largest value since the last peak reset.
    pub peak: i64,
    /// The sum of all increases since the last accumulated reset.
    pub allocated: i64,
    /// The sum of all decreases since the last accumulated reset.
    pub freed: i64,
}

/// The same over everything, and for each kind of pool (`c10::CachingAllocator::StatArray`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeStatArray {
    /// Both kinds of pool.
    pub all: VramtapeStat,
    /// Pools of requests up to 1 MiB.
    pub small_pool: VramtapeStat,
    /// Pools of larger requests.
    pub large_pool: VramtapeStat,
}

/// Statistics of one device's allocator, by PyTorch's names; counts, or bytes where the name says so
/// (`c10::CachingDeviceAllocator::DeviceStats`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeDeviceStats {
    /// Allocations that callers hold.
    pub allocation: VramtapeStatArray,
    /// Segments obtained with `cudaMalloc`.
    pub segment: VramtapeStatArray,
    /// Blocks held by callers or still in use by a stream.
    pub active: VramtapeStatArray,
    /// Free blocks that are a part of a segment.
    pub inactive_split: VramtapeStatArray,
    /// Bytes of blocks that callers hold.
    pub allocated_bytes: VramtapeStatArray,
    /// Bytes obtained from the device.
    pub reserved_bytes: VramtapeStatArray,
    /// Bytes of active blocks.
    pub active_bytes: VramtapeStatArray,
    /// Bytes of inactive split blocks.
    pub inactive_split_bytes: VramtapeStatArray,
    /// Bytes that callers asked for, before rounding, of active blocks.
    pub requested_bytes: VramtapeStatArray,
    /// Allocations of at least `max_split_size_mb`.
    pub oversize_allocations: VramtapeStat,
    /// Segments of at least `max_split_size_mb`.
    pub oversize_segments: VramtapeStat,
    /// Times the device was asked again after a flush.
    pub num_alloc_retries: i64,
    /// Out-of-memory errors.
    pub num_ooms: i64,
    /// Times all streams' pending frees were waited for.
    pub num_sync_all_streams: i64,
    /// Calls that obtained device memory.
    pub num_device_alloc: i64,
    /// Calls that returned device memory.
    pub num_device_free: i64,
    /// Requests refused before the device was asked.
    pub num_oom_rejections: i64,
    /// Blocks of at least this size are not split; -1 is no limit.
    pub max_split_size: i64,
}

/// Writes the device's statistics to `out`. A device that was never used has zeros.
///
/// # Safety
///
/// `out` is NULL, which is an error, or points to room for one value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_device_stats(
    device: c_int,
    out: *mut VramtapeDeviceStats,
) -> c_int {
    done(|| {
        let out = NonNull::new(out).ok_or_else(|| Error::value("no room for the statistics"))?;
        let stats = stats_of(device)?;
        // SAFETY: the caller gives room for one value, and `out` is not NULL.
        unsafe { out.write(VramtapeDeviceStats::from(&stats)) };
        Ok(())
    })
}

/// Calls `visit` with every private pool that held memory since the process began, and its reserved
/// bytes (PyTorch since 2.13). No lock of ours is held meanwhile.
///
/// # Safety
///
/// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_private_pool_stats(
    device: c_int,
    visit: Option<
        unsafe extern "C" fn(
            pool_0: u64,
            pool_1: u64,
            reserved_bytes: *const VramtapeStatArray,
            user: *mut c_void,
        ),
    >,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let visit = visit.ok_or_else(|| Error::value("the visitor of pools is NULL"))?;
        for (pool, reserved_bytes) in stats_of(device)?.reserved_bytes_by_private_pools() {
            let reserved_bytes = VramtapeStatArray::from(reserved_bytes);
            // SAFETY: the caller vouches for the function, and the value lives during the call.
            unsafe { visit(pool.0, pool.1, &raw const reserved_bytes, user) };
        }
        Ok(())
    })
}

pub(super) fn stats_of(device: c_int) -> Result<Stats, Error> {
    match process::used(device)? {
        Some(heap) => Ok(heap.lock()?.stats()),
        None => process::unused_stats(),
    }
}

impl From<&Stat> for VramtapeStat {
    fn from(stat: &Stat) -> Self {
        let Stat { current, peak, allocated, freed } = *stat;
        Self { current, peak, allocated, freed }
    }
}

impl From<&StatArray> for VramtapeStatArray {
    fn from(array: &StatArray) -> Self {
        Self {
            all: (&array.all).into(),
            small_pool: (&array.small_pool).into(),
            large_pool: (&array.large_pool).into(),
        }
    }
}

impl From<&Stats> for VramtapeDeviceStats {
    fn from(stats: &Stats) -> Self {
        Self {
            allocation: (&stats.allocation).into(),
            segment: (&stats.segment).into(),
            active: (&stats.active).into(),
            inactive_split: (&stats.inactive_split).into(),
            allocated_bytes: (&stats.allocated_bytes).into(),
            reserved_bytes: (&stats.reserved_bytes).into(),
            active_bytes: (&stats.active_bytes).into(),
            inactive_split_bytes: (&stats.inactive_split_bytes).into(),
            requested_bytes: (&stats.requested_bytes).into(),
            oversize_allocations: (&stats.oversize_allocations).into(),
            oversize_segments: (&stats.oversize_segments).into(),
            num_alloc_retries: stats.num_alloc_retries,
            num_ooms: stats.num_ooms,
            num_sync_all_streams: stats.num_sync_all_streams,
            num_device_alloc: stats.num_device_alloc,
            num_device_free: stats.num_device_free,
            num_oom_rejections: stats.num_oom_rejections,
            max_split_size: stats.max_split_size(),
        }
    }
}
