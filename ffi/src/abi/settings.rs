//! Settings at run time, free-memory callbacks and versions.

use std::ffi::{c_char, c_int, c_void};

use super::done;
use super::text::{copy_out, read};
use crate::error::Error;
use crate::process::Callback;
use crate::{guard, process};

/// Version of this interface. Functions are added under the same number; one that changes or goes
/// raises it.
pub const VRAMTAPE_ABI_VERSION: u32 = 1;

/// The ABI version of the library: compare with `VRAMTAPE_ABI_VERSION` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_abi_version() -> u32 {
    VRAMTAPE_ABI_VERSION
}

/// The library's version, "0.1.0". The string is constant.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Changes the allocator's settings from here on; `settings` is written as
/// `PYTORCH_CUDA_ALLOC_CONF`. Settings that are refused change nothing.
///
/// # Safety
///
/// `settings` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_set_settings(settings: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `settings` is NULL or a terminated string.
        let settings = unsafe { read(settings, "settings") }?;
        process::set_settings(settings)
    })
}

/// The settings in force, as they were written. Returns their length without the closing NUL, or
/// -1; the buffer gets them if they fit, else the empty string. NULL asks for the length.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_get_settings(buffer: *mut c_char, capacity: usize) -> i64 {
    guard::answer(-1, || {
        let text = process::settings_text()?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&text, buffer, capacity) })
    })
}

/// Adds a function that every device calls, on the allocating thread and with no lock of ours
/// held, when its pools have no memory for a request; it may free, and answers whether it did
/// (PyTorch's `FreeMemoryCallback`). It cannot be taken back.
///
/// # Safety
///
/// `callback` is NULL, which is an error, or may be called with `user` on any thread until the
/// process ends. It must not throw. It may wait for Python, and is not called once a Python
/// interpreter of the process is ending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_add_free_memory_callback(
    callback: Option<unsafe extern "C-unwind" fn(user: *mut c_void) -> bool>,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let function = callback
            .ok_or_else(|| Error::value("the free-memory callback is NULL; expected a function"))?;
        process::add_callback(Callback { function, user })
    })
}
