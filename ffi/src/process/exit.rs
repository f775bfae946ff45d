//! The end of the process: the rings' files are removed, tapes finished, and metrics written for the
//! last time.
//!
//! What is left of a ring tells that its process was killed.

use super::{lock, tape};
use crate::error::Error;
use crate::guard;

/// Registers the handler. Called once, with the process's lock held.
pub(super) fn register() -> Result<(), Error> {
    // SAFETY: the handler is a function of this library, which is never unloaded (PyTorch keeps
    // pointers into it).
    match unsafe { libc::atexit(at_exit) } {
        0 => Ok(()),
        _ => Err(Error::runtime("atexit failed: out of host memory")),
    }
}

extern "C" fn at_exit() {
    guard::answer((), || {
        finish();
        Ok(())
    });
}

/// Leaves the rings' files where they are at the end of a process that writes no tape, and returns how many there are:
/// of a device that recorded nothing, none.
pub(crate) fn keep_rings() -> usize {
    let guard = lock();
    let untaped = guard.iter().filter(|process| process.tape_path.is_none());
    let recordings = untaped.flat_map(|process| &process.recordings);
    recordings.filter(|known| known.ring.sequence() > 0 && known.ring.keep()).count()
}

/// What is to be done at the end. Doing it twice does nothing more.
pub(crate) fn finish() {
    // The rings first: finishing a tape takes its time, and another thread may end the process
    // meanwhile.
    let mut is_on_tape = false;
    if let Some(process) = &*lock() {
        process.recordings.iter().for_each(|recording| recording.ring.remove());
        is_on_tape = process.tape_path.is_some();
    }
    if is_on_tape && let Err(error) = tape::stop() {
        // The tape's thread warned when it happened.
        tracing::debug!("{}", error.message);
    }
    let metrics = lock().as_mut().and_then(|process| process.metrics.take());
    if let Some(metrics) = metrics {
        metrics.finish();
    }
}
