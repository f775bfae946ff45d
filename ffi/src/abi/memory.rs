//! Allocation and free.

use std::ffi::{c_int, c_void};
use std::ptr;

use allocator::heap::{PoolChoice, Request};
use trace_format::{Addr, Stream};

use crate::error::Error;
use crate::guard;
use crate::process::{self, stacks};

/// Allocates `size` bytes of device memory for `stream` (PyTorch's `alloc_fn`).
///
/// Size 0 gives NULL. Out of memory is `torch.OutOfMemoryError` in a process with PyTorch, another
/// failure its `RuntimeError` or `ValueError`; elsewhere both give NULL and are recorded.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vramtape_malloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    guard::raise(ptr::null_mut(), || allocate(size, device, stream))
}

/// Gives memory back (PyTorch's `free_fn`). `size` and `stream` are those of the allocation.
///
/// Never throws. A pointer that is NULL, unknown, freed already or another device's is a recorded
/// error and changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_free(ptr: *mut c_void, size: usize, device: c_int, stream: *mut c_void) {
    // The heap knows both, from the allocation.
    let _ = stream;
    guard::answer((), || release(ptr, size, device));
}

#[inline]
fn allocate(size: usize, device: c_int, stream: *mut c_void) -> Result<*mut c_void, Error> {
    if size == 0 {
        return Ok(ptr::null_mut());
    }
    let stream = stream_of(stream);
    let heap = process::heap_for(device, stream)?;
    let addr = heap.malloc(&Request {
        requested_bytes: size as u64,
        stream,
        pool: PoolChoice::ByScope,
        stack: stacks::of_allocation(device, size),
    })?;
    Ok(ptr::with_exposed_provenance_mut(addr.0 as usize))
}

#[inline]
fn release(ptr: *mut c_void, size: usize, device: c_int) -> Result<(), Error> {
    let addr = address_of(ptr)?;
    let heap = process::used(device)?.ok_or_else(|| {
        Error::value(format!("cannot free {addr}: device {device} never allocated anything"))
    })?;
    let stack = stacks::of_free(device, size);
    heap.free(addr, stack).map_err(|error| process::elsewhere(addr).unwrap_or(error.into()))
}

/// The address of a pointer into device memory, which is never looked into.
pub(super) fn address_of(ptr: *mut c_void) -> Result<Addr, Error> {
    if ptr.is_null() {
        return Err(Error::value("the pointer is NULL; expected one that vramtape_malloc gave"));
    }
    Ok(Addr(ptr.addr() as u64))
}

/// The stream with this handle.
pub(super) fn stream_of(stream: *mut c_void) -> Stream {
    Stream(stream.expose_provenance() as u64)
}
