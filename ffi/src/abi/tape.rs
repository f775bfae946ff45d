//! The tape: starting, stopping and saving it, and marks on it.

use std::ffi::{c_char, c_int};

use trace_format::{DeviceId, MarkKind};

use super::text::read;
use super::{VRAMTAPE_ERROR, VRAMTAPE_OK};
use crate::error::Error;
use crate::guard;
use crate::process::{self, tape};

/// A training step begins.
pub const VRAMTAPE_MARK_STEP: c_int = 0;
/// A phase (forward, backward, optimizer) begins.
pub const VRAMTAPE_MARK_PHASE: c_int = 1;
/// A named range begins.
pub const VRAMTAPE_MARK_RANGE_BEGIN: c_int = 2;
/// A named range ends.
pub const VRAMTAPE_MARK_RANGE_END: c_int = 3;
/// A named moment.
pub const VRAMTAPE_MARK_INSTANT: c_int = 4;

/// Starts a tape of every device at `path`, in which `{rank}`, `{pid}` and `{device}` are filled in.
/// It begins with the state that memory is in. An error while another tape is being written.
///
/// # Safety
///
/// `path` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_tape_start(path: *const c_char) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        // SAFETY: the caller vouches for it.
        let path = unsafe { read(path, "the tape's path") }?;
        tape::start(path)?;
        Ok(VRAMTAPE_OK)
    })
}

/// Finishes the tape that the settings or `vramtape_tape_start` began; it has everything recorded
/// until now.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_tape_stop() -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        tape::stop()?;
        Ok(VRAMTAPE_OK)
    })
}

/// Waits until everything recorded until now is in the tape's file, where a reader finds it.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_flush() -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        tape::flush()?;
        Ok(VRAMTAPE_OK)
    })
}

/// Saves what the device's ring holds, the newest events and the state before them, as a tape at
/// `path`. Recording goes on.
///
/// # Safety
///
/// `path` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_tape_save(device: c_int, path: *const c_char) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        // SAFETY: the caller vouches for it.
        let path = unsafe { read(path, "the tape's path") }?;
        process::used(device)?;
        tape::save(DeviceId(device as u16), path)?;
        Ok(VRAMTAPE_OK)
    })
}

/// Records a mark on every device that was used: `kind` is one of `VRAMTAPE_MARK_*`.
///
/// # Safety
///
/// `name` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_mark(kind: c_int, name: *const c_char) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        // SAFETY: the caller vouches for it.
        let name = unsafe { read(name, "the mark's name") }?;
        let kind = match kind {
            VRAMTAPE_MARK_STEP => MarkKind::Step,
            VRAMTAPE_MARK_PHASE => MarkKind::Phase,
            VRAMTAPE_MARK_RANGE_BEGIN => MarkKind::RangeBegin,
            VRAMTAPE_MARK_RANGE_END => MarkKind::RangeEnd,
            VRAMTAPE_MARK_INSTANT => MarkKind::Instant,
            other => {
                return Err(Error::value(format!("{other} is no kind of mark; expected 0 to 4")));
            }
        };
        tape::mark(kind, name)?;
        Ok(VRAMTAPE_OK)
    })
}
