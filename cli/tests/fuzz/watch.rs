//! The bounds that every command line is held to: its time, and the memory of the process.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds that a command line may take.
const SECONDS_MAX: u64 = if cfg!(debug_assertions) { 60 } else { 10 };
/// Resident memory that the process may have.
const RESIDENT_MAX_BYTES: u64 = 1 << 30;
/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(20);

/// What runs now.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Option<(String, Instant)>>>);

impl Watch {
    /// Begins to watch. Work cannot be stopped from outside it, so that the process ends where a bound is passed.
    pub(crate) fn start() -> Self {
        let watch = Self::default();
        let seen = watch.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(EVERY);
                let resident_bytes = resident_bytes();
                let now = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((what, since)) = now.as_ref() else { continue };
                let taken = since.elapsed();
                if taken.as_secs() >= SECONDS_MAX || resident_bytes > RESIDENT_MAX_BYTES {
                    let mib = resident_bytes >> 20;
                    println!(
                        "FOUND: {what}: {taken:?} and {mib} MiB; the bounds are {SECONDS_MAX} s and 1024 MiB"
                    );
                    std::process::exit(101);
                }
            }
        });
        watch
    }

    /// This runs from now on.
    pub(crate) fn begin(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((what, Instant::now()));
    }

    /// Whether nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// It is done.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Resident memory of this process now.
fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
