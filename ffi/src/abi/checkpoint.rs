//! A private pool's state for trees of CUDA graphs (`getCheckpointState`, `setCheckpointPoolState`).

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use allocator::heap::PoolCheckpoint;
use trace_format::{Addr, PoolId};

use super::done;
use crate::error::Error;
use crate::guard;
use crate::process::{self, stacks};

/// A private pool's blocks at one moment.
pub struct VramtapeCheckpoint(PoolCheckpoint);

/// Callback of `vramtape_checkpoint_restore` and `vramtape_pool_allocations`, called once for each address.
type Visit = unsafe extern "C" fn(ptr: *mut c_void, user: *mut c_void);

/// Returns a checkpoint of the pool's blocks, to be dropped with `vramtape_checkpoint_drop`; NULL is an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_checkpoint_take(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
) -> *mut VramtapeCheckpoint {
    guard::answer(ptr::null_mut(), || {
        let checkpoint = process::heap(device)?.lock()?.checkpoint(PoolId(pool_0, pool_1))?;
        Ok(Box::into_raw(Box::new(VramtapeCheckpoint(checkpoint))))
    })
}

/// Frees the pool's allocations and allocates those of the checkpoint. Calls `freed` with every address
/// that its holder must not free any more, then `created` with every address that the caller has to
/// free; with no lock of ours held.
///
/// # Safety
///
/// `checkpoint` is NULL, which is an error, or from `vramtape_checkpoint_take`, of this device. The
/// functions are NULL, which is an error, or may be called with `user`; they must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_checkpoint_restore(
    device: c_int,
    checkpoint: *const VramtapeCheckpoint,
    freed: Option<unsafe extern "C" fn(ptr: *mut c_void, user: *mut c_void)>,
    created: Option<unsafe extern "C" fn(ptr: *mut c_void, user: *mut c_void)>,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let checkpoint = NonNull::new(checkpoint.cast_mut())
            .ok_or_else(|| Error::value("the checkpoint is NULL"))?;
        // SAFETY: the caller vouches that it is one of ours, not dropped.
        let VramtapeCheckpoint(checkpoint) = unsafe { checkpoint.as_ref() };
        let (Some(freed), Some(created)) = (freed, created) else {
            return Err(Error::value("`freed` or `created` is NULL; expected two functions"));
        };
        let stack = stacks::of_allocation(device, 0);
        let delta = process::heap(device)?.lock()?.restore_checkpoint(checkpoint, stack)?;
        // SAFETY: the caller vouches that `freed` may be called with `user`.
        unsafe { visit_each(&delta.freed, freed, user) };
        // SAFETY: the caller vouches that `created` may be called with `user`.
        unsafe { visit_each(&delta.created, created, user) };
        Ok(())
    })
}

/// Drops a checkpoint.
///
/// # Safety
///
/// `checkpoint` is NULL or from `vramtape_checkpoint_take`, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_checkpoint_drop(checkpoint: *mut VramtapeCheckpoint) {
    guard::answer((), || {
        if !checkpoint.is_null() {
            // SAFETY: the caller vouches that it came from a box of ours, and for the last use.
            drop(unsafe { Box::from_raw(checkpoint) });
        }
        Ok(())
    });
}

/// Calls `visit` with the address of every allocation of the pool, with no lock of ours held
/// (`checkPoolLiveAllocations`).
///
/// # Safety
///
/// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_pool_allocations(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    visit: Option<unsafe extern "C" fn(ptr: *mut c_void, user: *mut c_void)>,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let visit = visit.ok_or_else(|| Error::value("the visitor of allocations is NULL"))?;
        let addrs = process::heap(device)?.lock()?.allocations_of(PoolId(pool_0, pool_1))?;
        // SAFETY: the caller vouches for the function.
        unsafe { visit_each(&addrs, visit, user) };
        Ok(())
    })
}

/// # Safety
///
/// `visit` may be called with `user`.
unsafe fn visit_each(addrs: &[Addr], visit: Visit, user: *mut c_void) {
    for addr in addrs {
        // SAFETY: the caller vouches that `visit` may be called with `user`.
        unsafe { visit(ptr::with_exposed_provenance_mut(addr.0 as usize), user) };
    }
}
