//! Statistics, and the state of memory.

use std::ffi::{c_char, c_int};

use serde::Serialize;
use trace_format::{BlockState, BlockStatus, PoolId, SegmentState};

use super::text::copy_out;
use super::{VRAMTAPE_ERROR, VRAMTAPE_OK};
use crate::error::Error;
use crate::{guard, process};

/// The device's statistics as JSON, with the keys and values of PyTorch's
/// `torch.cuda.memory_stats_as_nested_dict()`. A device that was never used has zeros.
///
/// Returns the length without the closing NUL, or -1; the buffer gets the text if it fits, else
/// the empty string. NULL asks for the length, which may have grown by the next call.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_stats(
    device: c_int,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    guard::answer(-1, || {
        let stats = match process::used(device)? {
            Some(heap) => heap.lock()?.stats(),
            None => process::unused_stats()?,
        };
        let json = to_json(&stats)?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&json, buffer, capacity) })
    })
}

/// Sets every peak to the current value (`torch.cuda.reset_peak_memory_stats`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_reset_peak_stats(device: c_int) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        if let Some(heap) = process::used(device)? {
            heap.lock()?.reset_peak_stats();
        }
        Ok(VRAMTAPE_OK)
    })
}

/// Zeroes the accumulated counters (`torch.cuda.reset_accumulated_memory_stats`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_reset_accumulated_stats(device: c_int) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        if let Some(heap) = process::used(device)? {
            heap.lock()?.reset_accumulated_stats();
        }
        Ok(VRAMTAPE_OK)
    })
}

/// The limit that `vramtape_set_memory_fraction` set; 1 is none. -1 is an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_get_memory_fraction(device: c_int) -> f64 {
    guard::answer(-1.0, || Ok(process::heap(device)?.lock()?.memory_fraction()))
}

/// The segments and blocks of one device as JSON, `{"segments": [...]}` with the keys of PyTorch's
/// snapshots; of one pool, or of all where the pool is (0, 0). Buffer and answer are those of
/// `vramtape_stats`.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_snapshot(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    guard::answer(-1, || {
        let segments = match process::used(device)? {
            Some(heap) => heap.lock()?.snapshot(PoolId(pool_0, pool_1)),
            None => Vec::new(),
        };
        let segments = segments.iter().map(|segment| Segment::of(device, segment)).collect();
        let json = to_json(&Snapshot { segments })?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&json, buffer, capacity) })
    })
}

/// Looks through the device's whole heap for contradictions. An error names the first: a bug.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_check(device: c_int) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        if let Some(heap) = process::used(device)? {
            heap.lock()?.check().map_err(Error::runtime)?;
        }
        Ok(VRAMTAPE_OK)
    })
}

fn to_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::runtime)
}

#[derive(Serialize)]
struct Snapshot {
    segments: Vec<Segment>,
}

#[derive(Serialize)]
struct Segment {
    device: c_int,
    address: u64,
    total_size: u64,
    allocated_size: u64,
    active_size: u64,
    requested_size: u64,
    stream: u64,
    #[serde(rename = "segment_type")]
    class: &'static str,
    #[serde(rename = "segment_pool_id")]
    pool: (u64, u64),
    is_expandable: bool,
    blocks: Vec<Block>,
}

#[derive(Serialize)]
struct Block {
    address: u64,
    size: u64,
    requested_size: u64,
    state: &'static str,
}

impl Segment {
    fn of(device: c_int, segment: &SegmentState) -> Self {
        let sum = |wanted: fn(BlockStatus) -> bool, size: fn(&BlockState) -> u64| {
            segment.blocks.iter().filter(|block| wanted(block.status)).map(size).sum()
        };
        let is_active = |status| status != BlockStatus::Inactive;
        Self {
            device,
            address: segment.addr.0,
            total_size: segment.size_bytes,
            allocated_size: sum(|s| s == BlockStatus::Allocated, |block| block.size_bytes),
            active_size: sum(is_active, |block| block.size_bytes),
            requested_size: sum(is_active, |block| block.requested_bytes),
            stream: segment.stream.0,
            class: if segment.is_large { "large" } else { "small" },
            pool: (segment.pool.0, segment.pool.1),
            is_expandable: segment.is_expandable,
            blocks: segment.blocks.iter().map(Block::of).collect(),
        }
    }
}

impl Block {
    fn of(block: &BlockState) -> Self {
        Self {
            address: block.addr.0,
            size: block.size_bytes,
            requested_size: block.requested_bytes,
            state: match block.status {
                BlockStatus::Allocated => "active_allocated",
                BlockStatus::PendingFree => "active_pending_free",
                BlockStatus::Inactive => "inactive",
            },
        }
    }
}
