//! The state of memory, as PyTorch's snapshots show it.

use std::ffi::{c_char, c_int, c_void};

use trace_format::PoolId;

use super::done;
use super::memory::address_of;
use super::text::{copy_out, to_json};
use crate::error::Error;
use crate::{guard, process, snapshot};

/// The segments and blocks of one device as JSON, `{"segments": [...]}` with the keys of PyTorch's
/// snapshots; of one pool, or of all where the pool is (0, 0). Stacks are numbers there, which
/// `stacks` makes lists of places in `frames`, where there are any. Buffer and answer are those of
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
        let json = to_json(&snapshot::of_device(device, PoolId(pool_0, pool_1))?)?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&json, buffer, capacity) })
    })
}

/// Gives `take` all devices' memory as one JSON object, once and before this returns: `segments`
/// (of one pool, or of all where the pool is (0, 0)), `device_traces` (the memory history, one list
/// for each device up to the last that was used; none without `with_traces`), `settings`, and
/// `stacks` with `frames`, which blocks, segments and entries name by number.
///
/// An entry is `[action, address, size, stream, pool_0, pool_1, time in unix microseconds, stack,
/// metadata]`, its action one of PyTorch's numbers, or 9 for what `vramtape_annotate_memory` said.
///
/// # Safety
///
/// `take` is NULL, which is an error, or may be called with `user`, a text and its length in bytes,
/// which live during the call; it must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_take_snapshot(
    pool_0: u64,
    pool_1: u64,
    with_traces: bool,
    take: Option<unsafe extern "C" fn(user: *mut c_void, json: *const c_char, length: usize)>,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let take = take.ok_or_else(|| Error::value("the taker of the snapshot is NULL"))?;
        let json = to_json(&snapshot::take(PoolId(pool_0, pool_1), with_traces)?)?;
        // SAFETY: the caller vouches for the function; the text lives until it returns.
        unsafe { take(user, json.as_ptr().cast(), json.len()) };
        Ok(())
    })
}

/// The stack of the live allocation at `ptr` as JSON, a list of `[name, file, line]` from the
/// innermost frame on; `null` where it is unknown. Buffer and answer are those of `vramtape_stats`.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_allocation_traceback(
    ptr: *mut c_void,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    guard::answer(-1, || {
        let addr = address_of(ptr)?;
        let stack = process::owner(addr, |heap| Ok(heap.lock()?.allocation(addr)?.stack));
        let frames = stack.ok().and_then(snapshot::frames_of);
        let json = to_json(&frames)?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&json, buffer, capacity) })
    })
}
