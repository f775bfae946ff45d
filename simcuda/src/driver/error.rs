//! Names and texts of errors.

use std::ffi::{CStr, c_char};

use crate::abi::{Out, Status, driver};

/// Name and text of the errors that this library answers with.
fn describe(code: u32) -> Option<(&'static CStr, &'static CStr)> {
    Some(match Status(code) {
        Status(0) => (c"CUDA_SUCCESS", c"no error"),
        Status::INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        Status::OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        Status::NOT_INITIALIZED => (
            c"CUDA_ERROR_NOT_INITIALIZED",
            c"the simulated driver's settings are wrong (see stderr)",
        ),
        Status::INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        Status::INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        Status(208) => (c"CUDA_ERROR_ALREADY_MAPPED", c"resource already mapped"),
        Status(211) => (c"CUDA_ERROR_NOT_MAPPED", c"resource not mapped"),
        Status::INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        Status(401) => (c"CUDA_ERROR_ILLEGAL_STATE", c"illegal state"),
        Status::NOT_FOUND => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        Status::NOT_READY => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        Status::ILLEGAL_ADDRESS => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access"),
        Status::PEER_ENABLED => {
            (c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled")
        }
        Status::NOT_SUPPORTED => (c"CUDA_ERROR_NOT_SUPPORTED", c"not simulated (see stderr)"),
        Status::CAPTURE_UNSUPPORTED => (
            c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            c"operation not permitted when stream is capturing",
        ),
        Status(901) => (
            c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            c"operation failed due to a previous error during capture",
        ),
        Status(902) => (c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"two captures would merge"),
        Status(903) => (c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"not the capture's first stream"),
        Status(904) => (c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"a forked stream was not joined"),
        Status::CAPTURE_ISOLATION => {
            (c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"dependency on work outside the capture")
        }
        Status(907) => (c"CUDA_ERROR_CAPTURED_EVENT", c"the event was recorded in a capture"),
        Status(908) => (c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"capture of another thread"),
        Status::UNKNOWN => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        _ => return None,
    })
}

driver! {
    fn cuGetErrorName(code: u32, out: Out<*const c_char>) {
        let found = describe(code);
        out.set(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    fn cuGetErrorString(code: u32, out: Out<*const c_char>) {
        let found = describe(code);
        out.set(found.map_or(std::ptr::null(), |(_, text)| text.as_ptr()))?;
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }
}
