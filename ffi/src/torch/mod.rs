//! Calls into PyTorch besides the C ABI: exceptions, hooks, and the pool filter that it hands
//! us. The C++ lies in `cpp/` and uses no header of PyTorch: it finds what it needs by name in the
//! libraries that the process has loaded.

mod filter;
mod hooks;

use std::ffi::{CStr, c_char};

pub(crate) use filter::Filter;
pub(crate) use hooks::set_hooks;

use settings::Compat;

use crate::error::Exception;

unsafe extern "C-unwind" {
    fn vramtape_torch_raise(mangled: *const c_char, message: *const c_char, size: usize);
}

unsafe extern "C" {
    safe fn vramtape_torch_version() -> *const c_char;
}

/// Throws the exception in a process with PyTorch; returns elsewhere.
pub(crate) fn raise(exception: Exception, message: &str) {
    let mangled: &CStr = match exception {
        Exception::OutOfMemory => c"N3c1016OutOfMemoryErrorE",
        Exception::Value => c"N3c1010ValueErrorE",
        Exception::Index => c"N3c1010IndexErrorE",
        Exception::Runtime => c"N3c105ErrorE",
    };
    // SAFETY: a terminated name, and a message with its size; the thrower copies both. What it
    // throws passes frames that unwind only.
    unsafe { vramtape_torch_raise(mangled.as_ptr(), message.as_ptr().cast(), message.len()) };
}

/// The PyTorch version to reproduce by default: that of the process.
pub(crate) fn running() -> Compat {
    version().map_or_else(Compat::default, |version| Compat::of_torch(&version))
}

/// The version of the PyTorch in the process, if there is one.
pub(crate) fn version() -> Option<String> {
    let version = vramtape_torch_version();
    if version.is_null() {
        return None;
    }
    // SAFETY: a terminated text in a table of PyTorch's, which lives as long as the process.
    let version = unsafe { CStr::from_ptr(version) };
    Some(version.to_string_lossy().into_owned())
}
