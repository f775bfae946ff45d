//! Streams and events.

use std::ffi::c_void;

use super::runtime;
use crate::abi::{In, Out, Status};
use crate::capture::{self};
use crate::{event, not_simulated, stream};

/// `cudaHostFn_t`.
type HostFunction = extern "C" fn(*mut c_void);
/// `cudaStreamCallback_t`.
type Callback = extern "C" fn(u64, i32, *mut c_void);

runtime! {
    fn cudaStreamCreate(out: Out<u64>) {
        stream::create(out, 0, 0)
    }

    /// All work before is done, so the function runs at once.
    fn cudaLaunchHostFunc(stream: u64, function: Option<HostFunction>, argument: *mut c_void) {
        let function = function.ok_or(Status::INVALID_VALUE)?;
        if capture::is_capturing(stream)? {
            not_simulated("a host function in a CUDA graph");
            return Err(Status::NOT_SUPPORTED);
        }
        function(argument);
        Ok(())
    }

    fn cudaStreamAddCallback(
        stream: u64, function: Option<Callback>, argument: *mut c_void, _flags: u32,
    ) {
        let function = function.ok_or(Status::INVALID_VALUE)?;
        if capture::is_capturing(stream)? {
            return Err(Status::CAPTURE_UNSUPPORTED);
        }
        function(stream, 0, argument);
        Ok(())
    }

    fn cudaStreamUpdateCaptureDependencies(
        stream: u64, nodes: In<u64>, _edges: In<c_void>, count: usize, flags: u32,
    ) {
        capture::update_dependencies(stream, &nodes.list(count)?, flags)
    }

    fn cudaEventCreate(out: Out<u64>) {
        event::create(out, 0)
    }
}
