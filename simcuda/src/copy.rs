//! Copies and fills. Device memory has no content: it reads as zeros, and what is written to it is gone. Its addresses
//! are checked, so that an allocator that hands out memory it does not have is found out.

use std::ptr;

use device::Device;
use events::Addr;
use sim_device::SimDevice;

use crate::abi::{Answer, Status};
use crate::machine;
use crate::stream;
use crate::zeros;

/// Refuses a device range whose ends cannot be used by its device; true for device memory.
fn is_device(addr: u64, size_bytes: u64) -> Answer<bool> {
    if !machine::fixed()?.addresses.contains(addr) {
        return Ok(false);
    }
    if size_bytes == 0 || machine::fixed()?.addresses.is_variable(addr) {
        return Ok(true);
    }
    machine::with(|machine| {
        let device = machine.owner(addr).map_err(|_| Status::ILLEGAL_ADDRESS)?;
        let usable = |device: &SimDevice, addr| device.accessible(Addr(addr), device.id());
        if usable(device, addr) && usable(device, addr + size_bytes - 1) {
            return Ok(true);
        }
        eprintln!(
            "simcuda: {size_bytes} bytes at {} are not device memory that is allocated or mapped",
            Addr(addr)
        );
        Err(Status::ILLEGAL_ADDRESS)
    })
}

/// One row of a copy.
fn copy_row(to: u64, from: u64, size_bytes: usize) -> Answer {
    let from_device = is_device(from, size_bytes as u64)?;
    if is_device(to, size_bytes as u64)? || size_bytes == 0 {
        return Ok(());
    }
    let to = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    if from_device {
        // SAFETY: a host address, and the caller's contract says that `size_bytes` bytes there are writable.
        unsafe { zeros::write(to, size_bytes) };
        return Ok(());
    }
    let from = ptr::with_exposed_provenance::<u8>(from as usize);
    // SAFETY: both are host addresses, readable and writable by the caller's contract; they may overlap.
    unsafe { ptr::copy(from, to, size_bytes) };
    Ok(())
}

/// `cudaMemcpyAsync`.
pub(crate) fn copy_async(to: u64, from: u64, size_bytes: usize, stream: u64) -> Answer {
    stream::launch(stream)?;
    copy_row(to, from, size_bytes)
}

/// `cudaMemcpy`: on the default stream, and waits for it.
pub(crate) fn copy(to: u64, from: u64, size_bytes: usize) -> Answer {
    copy_async(to, from, size_bytes, 0)?;
    stream::synchronize(0)
}

/// A rectangle of rows with a distance between them on each side.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) address: u64,
    pub(crate) pitch_bytes: usize,
}

/// `cudaMemcpy2DAsync`.
pub(crate) fn copy_rows(
    to: Rows,
    from: Rows,
    width_bytes: usize,
    rows: usize,
    stream: u64,
) -> Answer {
    if width_bytes > to.pitch_bytes || width_bytes > from.pitch_bytes {
        return Err(Status::INVALID_VALUE);
    }
    stream::launch(stream)?;
    (0..rows).try_for_each(|row| {
        let at = |side: Rows| side.address + (row * side.pitch_bytes) as u64;
        copy_row(at(to), at(from), width_bytes)
    })
}

/// `cudaMemsetAsync`.
pub(crate) fn fill_async(addr: u64, byte: u8, size_bytes: usize, stream: u64) -> Answer {
    stream::launch(stream)?;
    if is_device(addr, size_bytes as u64)? || size_bytes == 0 {
        return Ok(());
    }
    let to = ptr::with_exposed_provenance_mut::<u8>(addr as usize);
    // SAFETY: a host address, and the caller's contract says that `size_bytes` bytes there are writable.
    unsafe { ptr::write_bytes(to, byte, size_bytes) };
    Ok(())
}

/// `cuMemsetD32Async` and its like, which take device memory only.
pub(crate) fn fill_device_async(addr: u64, size_bytes: usize, stream: u64) -> Answer {
    stream::launch(stream)?;
    if is_device(addr, size_bytes as u64)? { Ok(()) } else { Err(Status::INVALID_VALUE) }
}
