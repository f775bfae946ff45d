//! cuDNN: the real library plans, and executions are operations on a stream.
//!
//! Everything that needs no GPU stays the real library's: descriptors, heuristics, engines, plans and their workspaces,
//! which it computes for the simulated GPU ([`backend`]). This library answers the rest: handles, executions, and the
//! sizes that cuDNN computes for a handle only ([`norm`], [`rnn`], [`dropout`], [`ctc`]).

mod backend;
mod ctc;
mod dropout;
mod element;
mod gpu;
mod library;
mod model;
mod norm;
mod registry;
mod rnn;
mod rnn_size;

use std::ffi::c_int;

use crate::abi::{Answer, Out, Status, guarded};
use crate::{handle, machine};

/// The `cudnnStatus_t` of an answer.
fn status(body: impl FnOnce() -> Answer) -> c_int {
    const BAD_PARAM: c_int = 2000;
    const NOT_SUPPORTED: c_int = 3000;
    const INTERNAL_ERROR: c_int = 4000;
    const EXECUTION_FAILED: c_int = 5000;
    match guarded(body) {
        Ok(()) => 0,
        Err(Status::INVALID_VALUE) => BAD_PARAM,
        Err(Status::NOT_SUPPORTED) => NOT_SUPPORTED,
        Err(Status::UNKNOWN) => INTERNAL_ERROR,
        // A status of the real library, passed on.
        Err(Status(code)) if code >= BAD_PARAM as u32 => code as c_int,
        Err(_) => EXECUTION_FAILED,
    }
}

/// Defines entry points of cuDNN: the body's [`Answer`] becomes the `cudnnStatus_t`.
macro_rules! cudnn {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::cudnn::status(|| $body)
        }
    )*};
}
use cudnn;

/// Defines computations: whatever the other arguments, an operation on the stream of the handle that comes first.
macro_rules! operations {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(handle: u64) -> ::std::ffi::c_int {
            $crate::cudnn::status(|| $crate::handle::operation(handle))
        }
    )*};
}
use operations;

cudnn! {
    fn cudnnCreate(out: Out<u64>) {
        machine::bind()?;
        handle::create(out)
    }

    fn cudnnDestroy(handle: u64) {
        handle::destroy(handle);
        Ok(())
    }

    fn cudnnSetStream(handle: u64, stream: u64) {
        handle::set_stream(handle, stream);
        Ok(())
    }

    fn cudnnGetStream(handle: u64, out: Out<u64>) {
        out.set(handle::stream(handle))
    }
}

// Poolings and spatial transformers need no workspace.
operations! {
    cudnnPoolingForward
    cudnnSpatialTfGridGeneratorForward cudnnSpatialTfGridGeneratorBackward
    cudnnSpatialTfSamplerForward cudnnSpatialTfSamplerBackward
}
