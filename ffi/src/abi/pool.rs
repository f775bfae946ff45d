//! Private pools beyond PyTorch's hooks (`torch.cuda.MemPool`).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use allocator::SegmentSource;
use device::{DeviceCall, DeviceError};
use trace_format::{Addr, PoolId};

use super::done;
use crate::guard;
use crate::process::{self, stacks};

/// Creates the pool with one user, or adds a user (`createOrIncrefPool`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_create(device: c_int, pool_0: u64, pool_1: u64) -> c_int {
    done(|| Ok(process::heap(device)?.lock()?.create_pool(PoolId(pool_0, pool_1), None)?))
}

/// The source of the segments of a pool from `vramtape_pool_create_from` (`torch.cuda.MemPool(allocator)`).
///
/// The functions are called with `user`, under the device's lock: they must not call this library for
/// the same device, and must not throw.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeSource {
    /// Memory for one segment; NULL is out of memory.
    pub allocate: unsafe extern "C" fn(size: usize, user: *mut c_void) -> *mut c_void,
    /// Takes a segment back; false if that failed, and the pool keeps it.
    pub free: unsafe extern "C" fn(ptr: *mut c_void, user: *mut c_void) -> bool,
    /// The pool is gone, and `user` with it.
    pub drop: unsafe extern "C" fn(user: *mut c_void),
    /// The argument that the functions are called with.
    pub user: *mut c_void,
}

/// As `vramtape_pool_create`, with a pool that has its segments from `source`. The pool must hold nothing yet.
/// The source is dropped with the pool, or here if there is an error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_create_from(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    source: VramtapeSource,
) -> c_int {
    let source = Source(source);
    done(|| {
        let source = Arc::new(source);
        Ok(process::heap(device)?.lock()?.create_pool(PoolId(pool_0, pool_1), Some(source))?)
    })
}

struct Source(VramtapeSource);

// SAFETY: `vramtape_pool_create_from` asks for functions that any thread may call.
unsafe impl Send for Source {}
// SAFETY: a shared reference only calls the functions, and the pool does so under its device's lock, one at a time.
unsafe impl Sync for Source {}

impl SegmentSource for Source {
    fn allocate(&self, size_bytes: u64) -> Option<Addr> {
        // SAFETY: the caller vouches for the function and what it is called with.
        let ptr = unsafe { (self.0.allocate)(size_bytes as usize, self.0.user) };
        (!ptr.is_null()).then(|| Addr(ptr.expose_provenance() as u64))
    }

    fn free(&self, addr: Addr, _: u64) -> Result<(), DeviceError> {
        let ptr = std::ptr::with_exposed_provenance_mut(addr.0 as usize);
        // SAFETY: the caller vouches for the function and `user`; the pointer is one that `allocate` gave.
        let is_free = unsafe { (self.0.free)(ptr, self.0.user) };
        let failed = || DeviceError::Unavailable {
            call: DeviceCall::Free,
            reason: "the pool's own allocator could not take a segment back".to_owned(),
        };
        is_free.then_some(()).ok_or_else(failed)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the caller vouches for the function and `user`; no call follows this one.
        unsafe { (self.0.drop)(self.0.user) };
    }
}

/// Lets the pool's free memory serve others as a last resort before out of memory, or no longer
/// (`setUseOnOOM`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_set_use_on_oom(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    enabled: bool,
) -> c_int {
    done(|| {
        process::heap(device)?.lock()?.set_use_on_oom(PoolId(pool_0, pool_1), enabled);
        Ok(())
    })
}

/// Keeps the pool's segments whole from here on (`setNoSplit`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_set_no_split(device: c_int, pool_0: u64, pool_1: u64) -> c_int {
    done(|| {
        process::heap(device)?.lock()?.set_no_split(PoolId(pool_0, pool_1));
        Ok(())
    })
}

/// How many users the pool has (`getPoolUseCount`); -1 is an error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_use_count(device: c_int, pool_0: u64, pool_1: u64) -> i64 {
    guard::answer(-1, || {
        let pool = PoolId(pool_0, pool_1);
        Ok(i64::from(process::heap(device)?.lock()?.pool_use_count(pool)?))
    })
}

/// Returns the pool's cached segments to the driver; the pool (0, 0) is the default pool
/// (`emptyCache`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_empty_cache(device: c_int, pool_0: u64, pool_1: u64) -> c_int {
    done(|| {
        let stack = stacks::of_release(device);
        // A device that was never used has nothing cached.
        let Some(heap) = process::used(device)? else { return Ok(()) };
        Ok(heap.lock()?.empty_cache(PoolId(pool_0, pool_1), stack)?)
    })
}
