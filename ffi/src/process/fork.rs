//! Fork: the child finds every lock free and every heap whole, and writes to no tape of its parent.
//!
//! The locks are taken in one order (the end of the process, process, the heaps by device, what is uncached) before
//! the fork and given back after it, in parent and child. CUDA itself does not survive a fork; what the child frees
//! of its parent's memory is bookkeeping in its own copy.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::MutexGuard;

use recorder::AnyRecorder;
use settings::RecordMode;
use shared_heap::Frozen;
use trace_format::Addr;

use super::{Heap, Process, exit, heaps, lock, observe, stacks, uncached};
use crate::any_device::AnyDevice;
use crate::error::Error;

/// The locks that the forking thread holds during its fork, in the order in which it took them.
struct HeldLocks {
    _finishing: MutexGuard<'static, ()>,
    process: MutexGuard<'static, Option<Process>>,
    heaps: Vec<Frozen<'static, AnyDevice, AnyRecorder>>,
    _uncached: MutexGuard<'static, HashMap<Addr, c_int>>,
}

thread_local! {
    static HELD: RefCell<Option<HeldLocks>> = const { RefCell::new(None) };
}

/// Registers the handlers. Called once, with the process's lock held.
pub(super) fn register() -> Result<(), Error> {
    // SAFETY: the handlers are functions of this library, which is never unloaded (PyTorch keeps
    // pointers into it).
    let code = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if code == 0 {
        return Ok(());
    }
    Err(Error::runtime("pthread_atfork failed: out of host memory"))
}

extern "C" fn prepare() {
    // A thread whose locals are gone is ending, and forks unprotected.
    let _ = HELD.try_with(|held| {
        let finishing = exit::finishing();
        let process = lock();
        let heaps = heaps().map(Heap::freeze).collect();
        held.replace(Some(HeldLocks {
            _finishing: finishing,
            process,
            heaps,
            _uncached: uncached::given(),
        }));
    });
}

extern "C" fn parent() {
    let _ = HELD.try_with(RefCell::take);
}

extern "C" fn child() {
    let _ = HELD.try_with(|held| {
        if let Some(mut held) = held.take()
            && let Some(process) = &mut *held.process
        {
            leave_recording(process, held.heaps.is_empty() && !observe::is_any());
        }
    });
}

/// The rings and tapes are the parent's. A child of a process that used no device yet is one of its
/// own and records; others cannot use CUDA, and what they recorded would only be litter.
fn leave_recording(process: &mut Process, is_unused: bool) {
    stacks::after_fork_child(is_unused);
    observe::after_fork_child();
    for recording in &process.recordings {
        recording.ring.after_fork_child();
    }
    process.recordings.clear();
    process.tapes.clear();
    process.program.after_fork_child();
    if !is_unused {
        process.settings.record = RecordMode::Off;
        process.tape_path = None;
    }
}
