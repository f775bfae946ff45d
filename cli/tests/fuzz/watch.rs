//! The bounds that every command line is held to: its time, and the memory of the process.

use std::fs;
use std::process::Child;
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
pub(crate) struct Watch(Arc<Mutex<Option<(String, Since)>>>);

/// When something began. Of a machine that others share, a process may get a small part: the shorter time counts.
struct Since {
    begun: Instant,
    processor_time: Duration,
}

impl Since {
    fn now(process: &str) -> Self {
        Self { begun: Instant::now(), processor_time: processor_time(process) }
    }

    fn elapsed(&self, process: &str) -> Duration {
        let on_processors = processor_time(process).saturating_sub(self.processor_time);
        self.begun.elapsed().min(on_processors)
    }
}

impl Watch {
    /// Begins to watch. Work cannot be stopped from outside it, so that the process ends where a bound is passed.
    pub(crate) fn start() -> Self {
        let watch = Self::default();
        let seen = watch.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(EVERY);
                let resident_bytes = resident_bytes("self");
                let now = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((what, since)) = now.as_ref() else { continue };
                if let Some(bound) = passed(since.elapsed("self"), resident_bytes) {
                    println!("FOUND: {what}: {bound}");
                    std::process::exit(101);
                }
            }
        });
        watch
    }

    /// This runs from now on.
    pub(crate) fn begin(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((what, Since::now("self")));
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

/// Waits for the end of a process, which comes at a bound at the latest: that bound.
pub(crate) fn passes_a_bound(child: &mut Child) -> Option<String> {
    let process = child.id().to_string();
    let since = Since::now(&process);
    while child.try_wait().unwrap().is_none() {
        if let Some(bound) = passed(since.elapsed(&process), resident_bytes(&process)) {
            child.kill().unwrap();
            return Some(bound);
        }
        thread::sleep(EVERY / 10);
    }
    None
}

/// The bounds, where one is passed.
fn passed(taken: Duration, resident_bytes: u64) -> Option<String> {
    let is_passed = taken.as_secs() >= SECONDS_MAX || resident_bytes > RESIDENT_MAX_BYTES;
    let mib = resident_bytes >> 20;
    is_passed
        .then(|| format!("{taken:?} and {mib} MiB; the bounds are {SECONDS_MAX} s and 1024 MiB"))
}

/// Resident memory of a process now.
fn resident_bytes(process: &str) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// What a process spent on processors so far, all threads, where the kernel counts a hundred ticks a second.
fn processor_time(process: &str) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>);
    Duration::from_millis(10 * ticks.sum::<u64>())
}
