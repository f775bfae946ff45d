//! The optional hooks of `torch.cuda.memory.CUDAPluggableAllocator`.
//!
//! In the two-function use the library sets them itself at the first allocation.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use device::Device;
use trace_format::PoolId;

use super::done;
use super::memory::{address_of, stream_of};
use crate::error::Error;
use crate::guard;
use crate::process::{self, stacks};
use crate::torch::Filter;

/// CUDA begins, with this many devices (`set_init_fn`). Checks the settings, so that a mistake is
/// raised here and not in the first allocation.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vramtape_init(device_count: c_int) {
    // Devices open at their first allocation, however many there are.
    let _ = device_count;
    guard::raise((), process::begin_devices);
}

/// Declares that PyTorch's allocator calls this library itself and needs no hooks. Otherwise the first
/// allocation sets them.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_without_hooks() -> c_int {
    done(process::need_no_hooks)
}

/// Returns cached segments of every device to the driver (`set_reset_fn`,
/// `torch.cuda.empty_cache()`).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vramtape_empty_cache() {
    guard::raise((), || {
        for heap in process::heaps() {
            let device = heap.lock()?.device_mut().id();
            let stack = stacks::of_release(device.0.into());
            heap.lock()?.empty_cache(PoolId::DEFAULT, stack)?;
        }
        Ok(())
    });
}

/// Limits reserved memory to a fraction in `[0, 1]` of the device's; 1 is no limit
/// (`set_memory_fraction_fn`).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vramtape_set_memory_fraction(fraction: f64, device: c_int) {
    guard::raise((), || Ok(process::heap(device)?.lock()?.set_memory_fraction(fraction)?));
}

/// The start of the segment that holds the allocation at `ptr`, and its size where `size` is not
/// NULL (`set_base_alloc_fn`). An unknown pointer and one into an expandable segment are errors.
///
/// # Safety
///
/// `size` is NULL or points to room for one value.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vramtape_base_alloc(
    ptr: *mut c_void,
    size: *mut usize,
) -> *mut c_void {
    let base = guard::raise(None, || {
        let addr = address_of(ptr)?;
        process::owner(addr, |heap| Ok(heap.lock()?.base_allocation(addr)?)).map(Some)
    });
    let Some((base, size_bytes)) = base else { return ptr::null_mut() };
    if let Some(size) = NonNull::new(size) {
        // SAFETY: the caller gives room for one value, and `size` is not NULL.
        unsafe { size.write(size_bytes as usize) };
    }
    ptr::with_exposed_provenance_mut(base.0 as usize)
}

/// `stream` uses the allocation at `ptr` too: its memory is not used again before the stream has
/// done what it was given by the time of the free (`set_record_stream_fn`).
///
/// Never throws. A pointer that is not ours (PyTorch hands such over too) is a recorded error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_record_stream(ptr: *mut c_void, stream: *mut c_void) {
    guard::answer((), || {
        let (addr, stream) = (address_of(ptr)?, stream_of(stream));
        process::owner(addr, |heap| heap.lock()?.record_stream(addr, stream))
    });
}

/// Allocations of the streams that `filter` takes come from the pool from here on
/// (`set_begin_allocate_to_pool`). The filter is copied.
///
/// # Safety
///
/// `filter` is NULL, which is an error, or points to a live `std::function<bool(cudaStream_t)>`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vramtape_begin_allocate_to_pool(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    filter: *mut c_void,
) {
    guard::raise((), || {
        let filter = NonNull::new(filter).ok_or_else(|| {
            Error::value("the pool's stream filter is NULL; expected a std::function")
        })?;
        // SAFETY: the caller vouches for a live `std::function<bool(cudaStream_t)>`.
        let filter = unsafe { Filter::clone_of(filter) }?;
        let (pool, kind) = (PoolId(pool_0, pool_1), filter.kind());
        let takes = Arc::new(move |stream| filter.takes(stream));
        Ok(process::heap(device)?.lock()?.begin_pool(pool, kind, takes)?)
    });
}

/// Ends what `vramtape_begin_allocate_to_pool` began (`set_end_allocate_to_pool_fn`).
///
/// Never throws: PyTorch 2.15 calls it in a graph's destructor too.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_end_allocate_to_pool(device: c_int, pool_0: u64, pool_1: u64) {
    guard::answer((), || Ok(process::heap(device)?.lock()?.end_pool(PoolId(pool_0, pool_1))?));
}

/// One user fewer of the pool; without users its memory can be returned (`set_release_pool`).
///
/// Never throws: PyTorch calls it in destructors.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_release_pool(device: c_int, pool_0: u64, pool_1: u64) {
    guard::answer((), || {
        Ok(process::heap(device)?.lock()?.release_pool(PoolId(pool_0, pool_1))?)
    });
}
