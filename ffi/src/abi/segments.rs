//! The state of memory as C structures, for callers that make PyTorch's snapshots of it.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use device::Device;
use trace_format::{BlockState, BlockStatus, PoolId, SegmentState};

use super::done;
use crate::error::Error;
use crate::process;

/// A block of a segment (`c10::CachingDeviceAllocator::BlockInfo`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeBlock {
    /// Its start address.
    pub addr: u64,
    /// Its size.
    pub size: u64,
    /// Bytes asked for when it was last handed out.
    pub requested_size: u64,
    /// Whether a caller holds it.
    pub allocated: bool,
    /// Whether a caller holds it, or a stream still uses it.
    pub active: bool,
}

/// A segment, or one contiguous mapped run of an expandable segment
/// (`c10::CachingDeviceAllocator::SegmentInfo`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeSegment {
    /// Its start address.
    pub addr: u64,
    /// Its size; the blocks tile it.
    pub size: u64,
    /// The stream it serves.
    pub stream: u64,
    /// The pool it serves; (0, 0) is the default pool.
    pub pool_0: u64,
    /// The pool's second half.
    pub pool_1: u64,
    /// Whether it serves requests over 1 MiB.
    pub is_large: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// Its blocks, ascending.
    pub blocks: *const VramtapeBlock,
    /// How many.
    pub block_count: usize,
}

/// Calls `visit` with every segment of the device in ascending order, or with those of one pool
/// where that is not (0, 0), as `vramtape_snapshot` shows them. The device's lock is held
/// meanwhile: `visit` must not call this library.
///
/// # Safety
///
/// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_visit_segments(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    visit: Option<unsafe extern "C" fn(segment: *const VramtapeSegment, user: *mut c_void)>,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let visit = visit.ok_or_else(|| Error::value("the visitor of segments is NULL"))?;
        let Some(heap) = process::used(device)? else { return Ok(()) };
        let mut heap = heap.lock()?;
        for segment in heap.snapshot(PoolId(pool_0, pool_1)) {
            let blocks: Vec<_> = segment.blocks.iter().map(VramtapeBlock::from).collect();
            let segment = VramtapeSegment::of(&segment, &blocks);
            // SAFETY: the caller vouches for the function; the segment lives during the call.
            unsafe { visit(&raw const segment, user) };
        }
        Ok(())
    })
}

/// Calls `visit` with the mapped bytes of each expandable segment
/// (`getExpandableSegmentSizes`). The device's lock is held meanwhile, as above.
///
/// # Safety
///
/// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_visit_expandable_segments(
    device: c_int,
    visit: Option<
        unsafe extern "C" fn(stream: u64, is_small: bool, mapped_bytes: u64, user: *mut c_void),
    >,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let visit = visit.ok_or_else(|| Error::value("the visitor of segments is NULL"))?;
        let Some(heap) = process::used(device)? else { return Ok(()) };
        for (stream, is_small, mapped_bytes) in heap.lock()?.expandable_segments() {
            // SAFETY: the caller vouches for the function.
            unsafe { visit(stream.0, is_small, mapped_bytes, user) };
        }
        Ok(())
    })
}

/// Raises `largest` to the size of the device's largest cached block; a zero there becomes the
/// memory that the device has free first (`cacheInfo`).
///
/// # Safety
///
/// `largest` is NULL, which is an error, or points to one value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_cache_info(device: c_int, largest: *mut usize) -> c_int {
    done(|| {
        let mut largest = NonNull::new(largest)
            .ok_or_else(|| Error::value("no room for the size of the largest block"))?;
        // SAFETY: the caller gives one value, for the time of the call.
        let largest = unsafe { largest.as_mut() };
        let heap = process::heap(device)?;
        let mut heap = heap.lock()?;
        if *largest == 0 {
            *largest = heap.device_mut().memory_info()?.free_bytes as usize;
        }
        *largest = (*largest).max(heap.largest_cached_bytes() as usize);
        Ok(())
    })
}

impl From<&BlockState> for VramtapeBlock {
    fn from(block: &BlockState) -> Self {
        Self {
            addr: block.addr.0,
            size: block.size_bytes,
            requested_size: block.requested_bytes,
            allocated: block.status == BlockStatus::Allocated,
            active: block.status != BlockStatus::Inactive,
        }
    }
}

impl VramtapeSegment {
    fn of(segment: &SegmentState, blocks: &[VramtapeBlock]) -> Self {
        Self {
            addr: segment.addr.0,
            size: segment.size_bytes,
            stream: segment.stream.0,
            pool_0: segment.pool.0,
            pool_1: segment.pool.1,
            is_large: segment.is_large,
            is_expandable: segment.is_expandable,
            blocks: blocks.as_ptr(),
            block_count: blocks.len(),
        }
    }
}
