//! `cudnnDataType_t`.

use std::ffi::c_int;

use crate::abi::{Answer, Status};

const FLOAT: c_int = 0;
const DOUBLE: c_int = 1;
const HALF: c_int = 2;
pub(super) const BFLOAT16: c_int = 9;

/// The size of an element of one of the types that layers have.
pub(super) fn size_bytes(kind: c_int) -> Answer<usize> {
    match kind {
        HALF | BFLOAT16 => Ok(2),
        FLOAT => Ok(4),
        DOUBLE => Ok(8),
        _ => Err(Status::NOT_SUPPORTED),
    }
}
