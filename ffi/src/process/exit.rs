//! The end of the process: the rings' files are removed and tapes finished.
//!
//! A ring whose file remains belongs to a process that was killed.

use std::env;
use std::sync::{Mutex, MutexGuard, PoisonError};

use trace_format::{EndKind, Meta, ProgramEnd};

use super::recording::Recording;
use super::{lock, program, tape};
use crate::error::Error;
use crate::guard;
use crate::log;

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

/// Held while the process's tapes are finished, so that it does not end in the middle of that.
pub(super) fn finishing() -> MutexGuard<'static, ()> {
    static FINISHING: Mutex<()> = Mutex::new(());
    FINISHING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the rings' files where they are at the end of a process that writes no tape, and returns how many there are:
/// of a device that recorded nothing, none.
pub(crate) fn keep_rings() -> usize {
    let guard = lock();
    let Some(process) = guard.as_ref().filter(|process| process.tape_path.is_none()) else {
        return 0;
    };
    let end = process.program.end();
    let keep = |known: &&Recording| {
        known.ring.sequence() > 0 && {
            known.describe(Meta { end: Some(end.clone()), ..process.meta() });
            known.ring.keep()
        }
    };
    process.recordings.iter().filter(keep).count()
}

/// Finishes rings and tapes at the end. A second call does nothing.
pub(crate) fn finish() {
    let _finishing = finishing();
    // The rings first: finishing a tape takes its time, and another thread may end the process
    // meanwhile.
    remove_rings();
    if let Some(end) = end_of_tapes()
        && let Err(error) = tape::finish(&end)
    {
        log::warn_at_end(&error.message);
    }
}

/// The same at a signal that ends the process. A ring that has no tape stays.
pub(super) fn finish_at_signal(name: &str) {
    let _finishing = finishing();
    let end = program::ended(EndKind::Signal, name);
    let paths = tape::paths();
    let run = env::var_os("VRAMTAPE_RUN");
    let is_quiet = run.as_ref().is_some_and(|run| run == "quiet");
    if end_of_tapes().is_none() {
        describe_rings(&end);
        if !is_quiet && has_ring_file() {
            log::warn_at_end(&format!(
                "{name}: no tape was written; `vramtape recover {} -o run.vtape` makes one of the last events",
                std::process::id()
            ));
        }
    } else {
        match tape::finish(&end) {
            Ok(()) => {
                remove_rings();
                // The launcher's own last line does not come.
                if run.is_some() && !is_quiet {
                    for path in &paths {
                        log::say_at_end(&format!("{name}: the tape is {}", path.display()));
                    }
                }
            }
            Err(error) => log::warn_at_end(&error.message),
        }
    }
}

/// The record of the end at `exit` for tapes; `None` where none is written.
fn end_of_tapes() -> Option<ProgramEnd> {
    let process = lock();
    let process = process.as_ref()?;
    process.tape_path.is_some().then(|| process.program.end())
}

/// Puts the end into rings that stay.
fn describe_rings(end: &ProgramEnd) {
    if let Some(process) = &*lock() {
        for known in &process.recordings {
            known.describe(Meta { end: Some(end.clone()), ..process.meta() });
        }
    }
}

fn has_ring_file() -> bool {
    let process = lock();
    let mut recordings = process.iter().flat_map(|process| &process.recordings);
    recordings.any(|recording| recording.ring.path().is_some())
}

fn remove_rings() {
    if let Some(process) = &*lock() {
        process.recordings.iter().for_each(|recording| recording.ring.remove());
    }
}
