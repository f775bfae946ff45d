//! The errors of calls.

use std::ffi::c_char;

use crate::error;

/// This thread's last error: what was wrong, where, and what to do. NULL where there was none. The
/// string lives until the thread's next error or `vramtape_clear_error`.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_last_error() -> *const c_char {
    error::last()
}

/// Forgets this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_clear_error() {
    error::clear();
}

/// How many errors were recorded in all threads since the process began.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_error_count() -> u64 {
    error::count()
}
