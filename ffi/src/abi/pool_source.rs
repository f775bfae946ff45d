//! Pools that bring their own memory, from functions like those of PyTorch's pluggable allocators.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use allocator::SegmentSource;
use device::DeviceError;
use trace_format::{Addr, PoolId};

use super::done;
use crate::error::Error;
use crate::process;

/// PyTorch's `alloc_fn`; NULL is out of memory.
type Allocate =
    unsafe extern "C" fn(size: usize, device: c_int, stream: *mut c_void) -> *mut c_void;

/// PyTorch's `free_fn`.
type Free = unsafe extern "C" fn(ptr: *mut c_void, size: usize, device: c_int, stream: *mut c_void);

struct Source {
    allocate: Allocate,
    free: Free,
    device: c_int,
}

impl SegmentSource for Source {
    fn allocate(&self, size_bytes: u64) -> Option<Addr> {
        let size = size_bytes as usize;
        // SAFETY: the caller of `vramtape_pool_create_with` vouches for the function.
        let ptr = unsafe { (self.allocate)(size, self.device, ptr::null_mut()) };
        (!ptr.is_null()).then(|| Addr(ptr.expose_provenance() as u64))
    }

    fn free(&self, addr: Addr, size_bytes: u64) -> Result<(), DeviceError> {
        let ptr = ptr::with_exposed_provenance_mut(addr.0 as usize);
        // SAFETY: the caller of `vramtape_pool_create_with` vouches for the function; `allocate` gave the pointer.
        unsafe { (self.free)(ptr, size_bytes as usize, self.device, ptr::null_mut()) };
        Ok(())
    }
}

/// As `vramtape_pool_create`, with a pool that has its segments from these functions of the kind
/// that PyTorch's pluggable allocators are made of (`torch.cuda.MemPool(allocator=...)`). They are
/// given the device, and the default stream. The pool must hold nothing yet.
///
/// # Safety
///
/// The functions are NULL, which is an error, or may be called on any thread as long as the pool has
/// memory. They are called under the device's lock: they must not call this library for the same
/// device, and must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_pool_create_with(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    allocate: Option<
        unsafe extern "C" fn(size: usize, device: c_int, stream: *mut c_void) -> *mut c_void,
    >,
    free: Option<
        unsafe extern "C" fn(ptr: *mut c_void, size: usize, device: c_int, stream: *mut c_void),
    >,
) -> c_int {
    done(|| {
        let (Some(allocate), Some(free)) = (allocate, free) else {
            return Err(Error::value("a function of the pool's allocator is NULL"));
        };
        let source = Arc::new(Source { allocate, free, device });
        Ok(process::heap(device)?.lock()?.create_pool(PoolId(pool_0, pool_1), Some(source))?)
    })
}
