//! Allocation and free.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use allocator::heap::{AllocError, HeapError, PoolChoice, Request};
use device::Device;
use trace_format::{Addr, DeviceId, StackId, Stream};

use super::done;
use crate::error::Error;
use crate::guard;
use crate::process::{self, oom, stacks};

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

/// As `vramtape_free`, for a caller that knows the pointer only, as PyTorch's deleters do. It is
/// looked for on the device `guess` first, where a wrong guess costs a look into other heaps.
///
/// Answers `VRAMTAPE_ERROR` for a pointer that no device handed out.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_delete(ptr: *mut c_void, guess: c_int) -> c_int {
    done(|| {
        let addr = address_of(ptr)?;
        if let Ok(Some(heap)) = process::used(guess) {
            match heap.free(addr, stacks::of_free(guess, 0)) {
                Err(AllocError::Heap(HeapError::UnknownPointer { .. })) => {}
                freed => return Ok(freed?),
            }
        }
        process::owner(addr, |heap| heap.free(addr, StackId::NONE))
    })
}

/// A live allocation.
#[repr(C)]
pub struct VramtapeAllocation {
    /// The device it is on.
    pub device: c_int,
    /// Bytes of its block: those asked for, rounded up.
    pub size: u64,
    /// Bytes asked for.
    pub requested_size: u64,
    /// The stream it was made for.
    pub stream: u64,
    /// The pool it is from; (0, 0) is the default pool.
    pub pool_0: u64,
    /// The pool's second half.
    pub pool_1: u64,
}

/// Writes what is known of the allocation at `ptr`. An error for a pointer that no device handed out.
///
/// # Safety
///
/// `allocation` is NULL, which is an error, or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_allocation(
    ptr: *mut c_void,
    allocation: *mut VramtapeAllocation,
) -> c_int {
    done(|| {
        let addr = address_of(ptr)?;
        let out = NonNull::new(allocation)
            .ok_or_else(|| Error::value("no room for what is known of the allocation"))?;
        let (device, found) = process::owner(addr, |heap| {
            let mut heap = heap.lock()?;
            Ok((heap.device_mut().id(), heap.allocation(addr)?))
        })?;
        let known = VramtapeAllocation {
            device: device.0.into(),
            size: found.size_bytes,
            requested_size: found.requested_bytes,
            stream: found.stream.0,
            pool_0: found.pool.0,
            pool_1: found.pool.1,
        };
        // SAFETY: the caller gives room for one.
        unsafe { out.write(known) };
        Ok(())
    })
}

/// Lets the device `peer` read and write the expandable segments of `device`, future ones included
/// (`enablePeerAccess`). Memory from `cudaMalloc` is accessible once the driver has enabled peer access.
/// If both devices have memory and the driver allows it, their memory is mapped for each other without
/// this call.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_enable_peer_access(device: c_int, peer: c_int) -> c_int {
    done(|| {
        let known = u16::try_from(peer).ok().filter(|_| peer != device).ok_or_else(|| {
            Error::value(format!("device {peer} is no peer of {device}; expected another device"))
        })?;
        Ok(process::heap(device)?.lock()?.add_peer(DeviceId(known))?)
    })
}

#[inline]
fn allocate(size: usize, device: c_int, stream: *mut c_void) -> Result<*mut c_void, Error> {
    if size == 0 {
        return Ok(ptr::null_mut());
    }
    let stream = stream_of(stream);
    let heap = process::heap_for(device, stream)?;
    let addr = heap
        .malloc(&Request {
            requested_bytes: size as u64,
            stream,
            pool: PoolChoice::ByScope,
            stack: stacks::of_allocation(device, size),
        })
        .map_err(oom::observed)?;
    Ok(ptr::with_exposed_provenance_mut(addr.0 as usize))
}

#[inline]
fn release(ptr: *mut c_void, size: usize, device: c_int) -> Result<(), Error> {
    let addr = address_of(ptr)?;
    let heap = process::used(device)?.ok_or_else(|| {
        Error::value(format!("cannot free {addr}: device {device} never allocated anything"))
    })?;
    let stack = stacks::of_free(device, size);
    heap.free(addr, stack).map_err(process::not_freed)
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
