//! `cuPointerGetAttribute`.

use std::ffi::{c_int, c_void};

use crate::abi::{Answer, Out, Status};
use crate::{machine, memory, not_simulated};

/// `CUmemorytype`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
/// `CUpointer_attribute`.
const MEMORY_TYPE: c_int = 2;
const DEVICE_POINTER: c_int = 3;
const HOST_POINTER: c_int = 4;
const DEVICE_ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_SIZE: c_int = 12;

/// Answers for device memory and pinned host memory; everything else is unknown to the driver.
pub(crate) fn attribute(out: Out<c_void>, attribute: c_int, addr: u64) -> Answer {
    let of_host = machine::with(|machine| Ok(machine.host.range_of(addr)))?;
    let (memory_type, device, (start, size_bytes)) = match (memory::device_of(addr)?, of_host) {
        (Some(device), _) => {
            let (start, size_bytes) = memory::range_of(addr)?;
            (DEVICE, device, (start.0, size_bytes))
        }
        (None, Some((device, range))) => (HOST, device, range),
        (None, None) => return Err(Status::INVALID_VALUE),
    };
    match attribute {
        MEMORY_TYPE => out.cast::<u32>().set(memory_type),
        DEVICE_POINTER => out.cast::<u64>().set(addr),
        HOST_POINTER if memory_type == HOST => out.cast::<u64>().set(addr),
        HOST_POINTER => Err(Status::INVALID_VALUE),
        DEVICE_ORDINAL => out.cast::<c_int>().set(c_int::from(device)),
        RANGE_START => out.cast::<u64>().set(start),
        RANGE_SIZE => out.cast::<usize>().set(size_bytes as usize),
        _ => {
            not_simulated("cuPointerGetAttribute with an attribute that PyTorch does not use");
            Err(Status::NOT_SUPPORTED)
        }
    }
}
