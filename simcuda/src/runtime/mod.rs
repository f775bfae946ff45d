//! The CUDA runtime (`libcudart.so.13` and `.12`) as PyTorch imports it. What is missing here stays with the real
//! libcudart: registration of kernels, and the texts of errors.

mod device;
pub(crate) mod execution;
mod memory;
mod stream;

use std::cell::Cell;
use std::ffi::c_int;

use crate::abi::{self, Answer};

thread_local! {
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
}

/// Runs a runtime entry point's body; an error is kept for `cudaGetLastError`.
pub(crate) fn answer(body: impl FnOnce() -> Answer) -> c_int {
    let error = abi::number(abi::guarded(body));
    if error != 0 {
        // A thread that is ending has no last error any more.
        let _ = LAST_ERROR.try_with(|last| last.set(error));
    }
    error
}

/// Defines runtime entry points: the body's [`Answer`] becomes the `cudaError_t`.
macro_rules! runtime {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::runtime::answer(|| $body)
        }
    )*};
}
pub(crate) use runtime;

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> c_int {
    LAST_ERROR.try_with(|last| last.replace(0)).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> c_int {
    LAST_ERROR.try_with(Cell::get).unwrap_or(0)
}
