//! PyTorch's two functions for an allocator whose cache can be switched off.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::memory::{address_of, stream_of, vramtape_free, vramtape_malloc};
use crate::guard;
use crate::process::uncached;

/// As `vramtape_malloc`, while the cache is on. While it is off, memory straight from the device,
/// which no statistic counts and no tape has (`PYTORCH_NO_CUDA_MEMORY_CACHING`); where the device has
/// none, that is a `RuntimeError`, and nothing is freed for it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vramtape_malloc_switched(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    if uncached::is_caching() || size == 0 {
        return vramtape_malloc(size, device, stream);
    }
    guard::raise(ptr::null_mut(), || {
        let addr = uncached::take(size as u64, device, stream_of(stream))?;
        Ok(ptr::with_exposed_provenance_mut(addr.0 as usize))
    })
}

/// As `vramtape_free`, also for what `vramtape_malloc_switched` gave while the cache was off.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_free_switched(
    ptr: *mut c_void,
    size: usize,
    device: c_int,
    stream: *mut c_void,
) {
    if !guard::answer(true, || uncached::give_back(address_of(ptr)?)) {
        vramtape_free(ptr, size, device, stream);
    }
}

/// Switches the cache of `vramtape_malloc_switched` on or off
/// (`torch.cuda.caching_allocator_enable`). Cached memory stays cached.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_set_caching(value: bool) {
    guard::answer((), || {
        uncached::set_caching(value);
        Ok(())
    });
}

/// Whether it is on, as it is at first.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_is_caching() -> bool {
    guard::answer(true, || Ok(uncached::is_caching()))
}
