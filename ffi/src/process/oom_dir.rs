//! The files of a process's first out of memory (`oom_dir` in `VRAMTAPE_CONF`): the tape. The Python package writes the
//! snapshot and the page beside it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, process};

use settings::TapePath;
use trace_format::DeviceId;

use super::{tape, with};
use crate::error::Error;

/// The process whose first out of memory was saved: a forked child is another one.
static SAVED_BY: AtomicU32 = AtomicU32::new(0);

/// The tape, until the Python package takes it.
static TAPE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the folder.
pub(crate) fn set(folder: &str) -> Result<(), Error> {
    let path = TapePath::of_oom(folder)
        .map_err(|(message, advice)| Error::value(format!("{message}: {advice}")))?;
    with(|process| {
        process.settings.oom_dir = Some(path);
        Ok(())
    })
}

/// Saves what the device's ring holds as a tape, if the settings want it and the process has not saved one yet, and
/// returns its path. A tape that cannot be written is a warning.
pub(crate) fn save(device: DeviceId) -> Option<PathBuf> {
    let path = with(|process| Ok(process.settings.oom_dir.clone())).ok().flatten()?;
    if SAVED_BY.swap(process::id(), Ordering::Relaxed) == process::id() {
        return None;
    }
    match write(&path, device) {
        Ok(path) => {
            *tape_lock() = Some(path.clone());
            Some(path)
        }
        Err(error) => {
            tracing::warn!("the out of memory is not saved: {}", error.message);
            None
        }
    }
}

/// The same, and the tape that no caller took before.
pub(crate) fn take(device: DeviceId) -> Option<PathBuf> {
    save(device);
    tape_lock().take()
}

fn write(path: &TapePath, device: DeviceId) -> Result<PathBuf, Error> {
    let path = tape::expand(path, device).map_err(Error::value)?;
    if let Some(folder) = Path::new(&path).parent() {
        fs::create_dir_all(folder).map_err(|error| {
            Error::value(format!("cannot make the folder {}: {error}", folder.display()))
        })?;
    }
    tape::save(device, &path)?;
    Ok(PathBuf::from(path))
}

fn tape_lock() -> MutexGuard<'static, Option<PathBuf>> {
    TAPE.lock().unwrap_or_else(PoisonError::into_inner)
}
