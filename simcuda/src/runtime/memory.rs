//! Memory.

use std::ffi::c_int;
use std::mem::offset_of;

use super::runtime;
use crate::abi::{Out, Status};
use crate::copy::{self, Rows};
use crate::{machine, memory, not_simulated};

/// `cudaPointerAttributes` of CUDA 12. CUDA 13 has reserved space behind it, which a caller has no use for.
#[repr(C)]
pub(super) struct PointerAttributes {
    memory_type: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

const _: () = assert!(size_of::<PointerAttributes>() == 24);
const _: () = assert!(offset_of!(PointerAttributes, device_pointer) == 8);
const _: () = assert!(offset_of!(PointerAttributes, host_pointer) == 16);

/// `cudaMemoryType`.
const UNREGISTERED: c_int = 0;
const HOST: c_int = 1;
const DEVICE: c_int = 2;
/// `cudaInvalidDeviceId`.
const NO_DEVICE: c_int = -2;

runtime! {
    fn cudaHostGetDevicePointer(out: Out<u64>, addr: u64, _flags: u32) {
        out.set(addr)
    }

    fn cudaPointerGetAttributes(out: Out<PointerAttributes>, addr: u64) {
        let of_host = machine::with(|machine| Ok(machine.host.device_of(addr)))?;
        let (memory_type, device, host_pointer) = match (memory::device_of(addr)?, of_host) {
            (Some(device), _) => (DEVICE, c_int::from(device), 0),
            (None, Some(device)) => (HOST, c_int::from(device), addr),
            (None, None) => (UNREGISTERED, NO_DEVICE, addr),
        };
        let device_pointer = if memory_type == UNREGISTERED { 0 } else { addr };
        out.set(PointerAttributes { memory_type, device, device_pointer, host_pointer })
    }

    fn cudaMemcpyAsync(to: u64, from: u64, size_bytes: usize, _kind: c_int, stream: u64) {
        copy::copy_async(to, from, size_bytes, stream)
    }

    fn cudaMemcpyPeerAsync(
        to: u64, to_device: c_int, from: u64, from_device: c_int, size_bytes: usize, stream: u64,
    ) {
        machine::ordinal(to_device)?;
        machine::ordinal(from_device)?;
        copy::copy_async(to, from, size_bytes, stream)
    }

    fn cudaMemcpy2DAsync(
        to: u64, to_pitch_bytes: usize, from: u64, from_pitch_bytes: usize, width_bytes: usize,
        rows: usize, _kind: c_int, stream: u64,
    ) {
        let to = Rows { address: to, pitch_bytes: to_pitch_bytes };
        let from = Rows { address: from, pitch_bytes: from_pitch_bytes };
        copy::copy_rows(to, from, width_bytes, rows, stream)
    }

    /// Variables of modules have no content either.
    fn cudaMemcpyToSymbol(
        _symbol: u64, from: u64, _size_bytes: usize, _offset_bytes: usize, _kind: c_int,
    ) {
        if from == 0 { Err(Status::INVALID_VALUE) } else { Ok(()) }
    }

    fn cudaGetSymbolAddress(out: Out<u64>, _symbol: u64) {
        out.set(machine::fixed()?.addresses.variables())
    }

    fn cudaMemset(addr: u64, byte: c_int, size_bytes: usize) {
        copy::fill_async(addr, byte as u8, size_bytes, 0)
    }

    fn cudaMemsetAsync(addr: u64, byte: c_int, size_bytes: usize, stream: u64) {
        copy::fill_async(addr, byte as u8, size_bytes, stream)
    }

    /// PyTorch's `backend:cudaMallocAsync` begins here: its pools are the driver's, so there is nothing of ours to see.
    fn cudaDeviceGetDefaultMemPool(_pool: Out<u64>, _device: c_int) {
        not_simulated("cudaMallocAsync and its pools (leave backend:native)");
        Err(Status::NOT_SUPPORTED)
    }
}
