//! The program around the allocator: what the Python package knows of it, and its end.

use std::ffi::{c_char, c_int};

use super::done;
use super::text::{copy_out, read, to_json};
use crate::guard;
use crate::process::{program, signals, tape};

/// Adds to what tapes say about this program: `json` is an object with any of `torch_version`,
/// `cuda_version`, `command` (an array of strings) and `end`, how the program is about to end
/// (`{"kind": "exception", "detail": "ValueError: no"}`).
///
/// # Safety
///
/// `json` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_describe(json: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `json` is NULL or a terminated string.
        let json = unsafe { read(json, "the description") }?;
        program::describe(json)
    })
}

/// Finishes the tapes at SIGTERM and SIGHUP, before these end the process as they would have: from
/// the first use of a device on, and only where the signal has its default action then.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_watch_signals() -> c_int {
    done(|| {
        signals::watch();
        Ok(())
    })
}

/// The tapes that this process is writing, as JSON: an array of objects with `path` and `failed`,
/// which is null, or an object with the `reason` and the `time` where a tape ended early.
///
/// Buffer and answer are those of `vramtape_stats`.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_tapes(buffer: *mut c_char, capacity: usize) -> i64 {
    guard::answer(-1, || {
        let text = to_json(&tape::list())?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&text, buffer, capacity) })
    })
}
