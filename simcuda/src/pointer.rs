//! `cuPointerGetAttribute`.

use std::ffi::{c_int, c_void};

use crate::abi::{Answer, Out, Status};
use crate::{memory, not_simulated};

/// `CUpointer_attribute`.
const MEMORY_TYPE: c_int = 2;
const DEVICE_POINTER: c_int = 3;
const DEVICE_ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_SIZE: c_int = 12;

/// Answers for device memory; everything else is unknown to the driver.
pub(crate) fn attribute(out: Out<c_void>, attribute: c_int, addr: u64) -> Answer {
    let device = memory::device_of(addr)?.ok_or(Status::INVALID_VALUE)?;
    match attribute {
        MEMORY_TYPE => out.cast::<u32>().set(2),
        DEVICE_POINTER => out.cast::<u64>().set(addr),
        DEVICE_ORDINAL => out.cast::<c_int>().set(c_int::from(device)),
        RANGE_START => out.cast::<u64>().set(memory::range_of(addr)?.0.0),
        RANGE_SIZE => out.cast::<usize>().set(memory::range_of(addr)?.1 as usize),
        _ => {
            not_simulated("cuPointerGetAttribute with an attribute that PyTorch does not use");
            Err(Status::NOT_SUPPORTED)
        }
    }
}
