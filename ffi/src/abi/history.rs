//! PyTorch's memory history (`torch.cuda.memory._record_memory_history`), which
//! `vramtape_take_snapshot` shows.

use std::ffi::{c_char, c_int, c_void};

use device::Device;

use super::done;
use super::memory::address_of;
use super::text::{copy_out, read};
use crate::error::Error;
use crate::guard;
use crate::process;
use crate::process::history::{self, Context, Options};

/// No stacks (`RecordContext`).
pub const VRAMTAPE_CONTEXT_NEVER: c_int = 0;
/// Live allocations have a stack.
pub const VRAMTAPE_CONTEXT_STATE: c_int = 1;
/// So have the entries of allocations and frees, which is that of the allocation.
pub const VRAMTAPE_CONTEXT_ALLOC: c_int = 2;
/// Frees have a stack of their own.
pub const VRAMTAPE_CONTEXT_ALL: c_int = 3;

/// Keeps the newest `entries_max` (1 at least) trace entries of each device from here on; another
/// call changes how. `context` is one of `VRAMTAPE_CONTEXT_*`, `is_native` says whether stacks have
/// native frames too, `skipped` has a bit for each action that is not kept, and `is_cleared`
/// forgets what was kept so far.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_history_start(
    context: c_int,
    is_native: bool,
    entries_max: u64,
    skipped: u32,
    is_cleared: bool,
) -> c_int {
    done(|| {
        let context = match context {
            VRAMTAPE_CONTEXT_NEVER => Context::Never,
            VRAMTAPE_CONTEXT_STATE => Context::State,
            VRAMTAPE_CONTEXT_ALLOC => Context::Alloc,
            VRAMTAPE_CONTEXT_ALL => Context::All,
            other => return Err(Error::value(format!("{other} is no context; expected 0 to 3"))),
        };
        let entries_max = usize::try_from(entries_max).unwrap_or(usize::MAX);
        history::start(Options { context, is_native, entries_max, skipped }, is_cleared)
    })
}

/// Keeps no history any more, and forgets what was kept.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_history_stop() -> c_int {
    done(history::stop)
}

/// Whether a history is being kept.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_history_is_running() -> bool {
    guard::answer(false, || Ok(history::is_running()))
}

/// Sets the metadata of this thread's later entries (`torch.cuda.memory._set_memory_metadata`).
///
/// # Safety
///
/// `text` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_set_memory_metadata(text: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `text` is NULL or a terminated string.
        history::set_metadata(unsafe { read(text, "the metadata") }?);
        Ok(())
    })
}

/// The metadata that `vramtape_set_memory_metadata` set on this thread. Buffer and answer are those of
/// `vramtape_get_settings`.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_get_memory_metadata(buffer: *mut c_char, capacity: usize) -> i64 {
    guard::answer(-1, || {
        let text = history::metadata();
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(text.as_deref().unwrap_or(""), buffer, capacity) })
    })
}

/// Adds an entry with this text to the history, if one is kept: something that became known of the
/// allocation at `ptr` (`torch.cuda.memory._annotate_tensor`).
///
/// # Safety
///
/// `text` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_annotate_memory(ptr: *mut c_void, text: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `text` is NULL or a terminated string.
        let (addr, text) = (address_of(ptr)?, unsafe { read(text, "the annotation") }?);
        let (device, allocation) = process::owner(addr, |heap| {
            let mut heap = heap.lock()?;
            Ok((heap.device_mut().id(), heap.allocation(addr)?))
        })?;
        history::annotate(device.0.into(), addr, &allocation, text);
        Ok(())
    })
}
