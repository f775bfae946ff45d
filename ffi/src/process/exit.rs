//! The end of the process: tapes are finished, and the rings' files removed.
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
        let is_on_tape = lock().as_ref().is_some_and(|process| process.tape_path.is_some());
        if is_on_tape && let Err(error) = tape::stop() {
            tracing::error!("{}", error.message);
        }
        if let Some(process) = &*lock() {
            process.recordings.iter().for_each(|recording| recording.ring.remove());
        }
        Ok(())
    });
}
