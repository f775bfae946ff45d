//! The tape: starting, stopping and saving it, and marks on it.

use std::ffi::{c_char, c_int};
use std::slice;

use trace_format::{Category, DeviceId, HostReading, MarkKind};

use super::text::read;
use super::{VRAMTAPE_ERROR, done};
use crate::error::Error;
use crate::guard;
use crate::pinned;
use crate::process::{self, exit, observe, tape};

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
/// A call of a module begins; the name is the module's path.
pub const VRAMTAPE_MARK_MODULE_BEGIN: c_int = 5;
/// A call of a module ends.
pub const VRAMTAPE_MARK_MODULE_END: c_int = 6;
/// The thread's backward pass reached the module; the next phase ends it.
pub const VRAMTAPE_MARK_MODULE_BACKWARD: c_int = 7;
/// The blocks that this thread categorizes from here on are the module's. An empty name ends it.
pub const VRAMTAPE_MARK_MODULE_OWNER: c_int = 8;

/// A parameter of the model.
pub const VRAMTAPE_CATEGORY_PARAMETER: c_int = 0;
/// The gradient of a parameter.
pub const VRAMTAPE_CATEGORY_GRADIENT: c_int = 1;
/// State of the optimizer.
pub const VRAMTAPE_CATEGORY_OPTIMIZER_STATE: c_int = 2;

/// Starts a tape of every device at `path`, in which `{rank}`, `{pid}` and `{device}` are filled in.
/// If a file exists there, the tape takes a free name beside it, and a warning names it. The tape
/// begins with the current state of memory. It is an error while another tape is being written.
///
/// # Safety
///
/// `path` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_tape_start(path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `path` is NULL or a terminated string.
        let path = unsafe { read(path, "the tape's path") }?;
        tape::start(path)
    })
}

/// Finishes the tape that the settings or `vramtape_tape_start` began; it has everything recorded
/// until now.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_tape_stop() -> c_int {
    done(tape::stop)
}

/// Waits until everything recorded until now is in the tape's file, where a reader finds it.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_flush() -> c_int {
    done(tape::flush)
}

/// Does now what the end of the process would do: removes its rings and finishes its tapes, which
/// have nothing of what comes after. For a process that ends without `exit`: Python's after Ctrl-C,
/// and its forked workers'.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_finish() -> c_int {
    done(|| {
        exit::finish();
        Ok(())
    })
}

/// Leaves the rings' files where they are when the process ends, for `vramtape recover`, and returns
/// how many there are: none where a tape is being written or nothing was recorded. To be called at
/// the end: such files are pruned sooner than those of killed processes.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_keep_rings() -> c_int {
    guard::answer(VRAMTAPE_ERROR, || Ok(exit::keep_rings() as c_int))
}

/// Saves what the device's ring holds, the newest events and the state before them, as a tape at
/// `path`. Recording goes on.
///
/// # Safety
///
/// `path` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_tape_save(device: c_int, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `path` is NULL or a terminated string.
        let path = unsafe { read(path, "the tape's path") }?;
        process::used(device)?;
        tape::save(DeviceId(device as u16), path)
    })
}

/// The position of the device's ring, for `vramtape_tape_save_since`; 0 if it has no ring.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_ring_position(device: c_int) -> u64 {
    guard::answer(0, || {
        process::used(device)?;
        tape::position(DeviceId(device as u16))
    })
}

/// Saves what every device recorded since a moment, and the state at that moment, as one tape at
/// `path`. `positions` are what `vramtape_ring_position` said then of the devices 0 to `count - 1`;
/// of others everything is saved that their rings hold. Recording goes on.
///
/// Returns how many of the records are missing because the rings have no room for so many, or -1.
///
/// # Safety
///
/// `positions` points to `count` values, or is NULL where that is 0. `path` is NULL, which is an
/// error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_tape_save_since(
    positions: *const u64,
    count: usize,
    path: *const c_char,
) -> i64 {
    guard::answer(-1, || {
        // SAFETY: the caller vouches that `path` is NULL or a terminated string.
        let path = unsafe { read(path, "the tape's path") }?;
        // SAFETY: the caller vouches for `count` positions, or NULL and 0.
        let positions = unsafe { values(positions, count, "positions") }?;
        Ok(tape::save_since(positions, path)? as i64)
    })
}

/// Records what blocks of the device hold: `category` is one of `VRAMTAPE_CATEGORY_*`. Addresses
/// that are no block's start are left out; the answer is how many were one, or -1.
///
/// # Safety
///
/// `addrs` points to `count` values, or is NULL where that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_categorize(
    device: c_int,
    category: c_int,
    addrs: *const u64,
    count: usize,
) -> i64 {
    guard::answer(-1, || {
        let known = usize::try_from(category).ok().and_then(|code| Category::ALL.get(code));
        let Some(category) = known.copied() else {
            let message = format!("{category} is no category; expected 0 to 2");
            return Err(Error::value(message));
        };
        // SAFETY: the caller vouches for `count` addresses, or NULL and 0.
        let addrs = unsafe { values(addrs, count, "addrs") }?;
        let known = match process::used(device)? {
            Some(heap) => tape::categorize(heap, category, addrs)?,
            None => observe::categorize(device, category, addrs)?,
        };
        Ok(known as i64)
    })
}

/// The caller's values; `what` names them in errors.
///
/// # Safety
///
/// `values` points to `count` of them that stay as they are during the call, or is NULL.
unsafe fn values<'a>(values: *const u64, count: usize, what: &str) -> Result<&'a [u64], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if values.is_null() {
        return Err(Error::value(format!("{what} is NULL; expected {count} values")));
    }
    // SAFETY: the caller vouches for `count` values that stay as they are, and `values` is not NULL.
    Ok(unsafe { slice::from_raw_parts(values, count) })
}

/// Whether the settings want the marks that the Python package makes by itself: not with `marks:off`
/// or `record:off`.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_wants_marks() -> bool {
    guard::answer(false, tape::wants_marks)
}

/// Whether the settings want marks of modules too: with `marks:modules`, and not with `record:off`.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_wants_module_marks() -> bool {
    guard::answer(false, tape::wants_module_marks)
}

/// Begins to count pinned host memory where PyTorch and the libraries that are loaded now call the CUDA runtime for it;
/// each call is a moment on the tape. Only the first call has an effect, and none where the runtime is not loaded.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_watch_host_memory() -> c_int {
    done(|| {
        pinned::watch();
        Ok(())
    })
}

/// Writes the pinned host memory of the process, counted so, to `numbers`: the bytes, the most of them so far, and the
/// blocks. Returns whether it is counted.
///
/// # Safety
///
/// `numbers` has room for three values, or is NULL, which is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_host_memory(numbers: *mut u64) -> bool {
    guard::answer(false, || {
        if numbers.is_null() {
            return Err(Error::value("the numbers' address is NULL"));
        }
        let Some(HostReading { reserved_bytes, reserved_bytes_peak, blocks, .. }) =
            pinned::reading()
        else {
            return Ok(false);
        };
        // SAFETY: the caller vouches for three values.
        unsafe { numbers.cast::<[u64; 3]>().write([reserved_bytes, reserved_bytes_peak, blocks]) };
        Ok(true)
    })
}

/// Records a mark on every device that was used: `kind` is one of `VRAMTAPE_MARK_*`.
///
/// # Safety
///
/// `name` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_mark(kind: c_int, name: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `name` is NULL or a terminated string.
        let name = unsafe { read(name, "the mark's name") }?;
        let kind = match kind {
            VRAMTAPE_MARK_STEP => MarkKind::Step,
            VRAMTAPE_MARK_PHASE => MarkKind::Phase,
            VRAMTAPE_MARK_RANGE_BEGIN => MarkKind::RangeBegin,
            VRAMTAPE_MARK_RANGE_END => MarkKind::RangeEnd,
            VRAMTAPE_MARK_INSTANT => MarkKind::Instant,
            VRAMTAPE_MARK_MODULE_BEGIN => MarkKind::ModuleBegin,
            VRAMTAPE_MARK_MODULE_END => MarkKind::ModuleEnd,
            VRAMTAPE_MARK_MODULE_BACKWARD => MarkKind::ModuleBackward,
            VRAMTAPE_MARK_MODULE_OWNER => MarkKind::ModuleOwner,
            other => {
                return Err(Error::value(format!("{other} is no kind of mark; expected 0 to 8")));
            }
        };
        tape::mark(kind, name)
    })
}
