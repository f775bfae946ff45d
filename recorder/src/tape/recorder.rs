//! A tape of the running process: its thread, and how to start and stop it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trace_format::{Meta, ProgramEnd, WriteCause, WriteError, utc};

use super::drainer::Drainer;
use super::ring_source::{RingSource, TapeSource};
use super::rotation::Parts;
use super::signals;
use super::tape_file::TapeFile;
use crate::clock::Clock;

/// Records between two base states of a device: a reader that starts anywhere follows at most as many.
const RECORDS_PER_BASE: u64 = 1_000_000;

/// A reader of the growing tape sees records at most this much later, and a kill loses at most as many.
pub(super) const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A tape that is being written, of one or more devices.
///
/// A thread reads the rings and writes; recording does not notice. If the tape cannot be written on (a full disk), a
/// warning says so, once, and the process goes on without it.
#[derive(Debug)]
pub struct TapeRecorder {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<TapeSummary, TapeError>>>,
    /// Whose thread it is: a forked child has a copy of this, but no thread.
    pid: u32,
}

/// What the thread and its owner share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) is_stopping: AtomicBool,
    /// Whether the tape cannot be written any more.
    pub(super) has_failed: AtomicBool,
    /// Whether its thread has ended.
    has_ended: AtomicBool,
    failure: Mutex<Option<TapeFailure>>,
    /// What the tape is to say about the end of its program.
    end: Mutex<Option<ProgramEnd>>,
    new_sources: Mutex<Vec<RingSource>>,
    /// Who waits for everything recorded until now to be in the file.
    flushes: Mutex<Vec<mpsc::Sender<()>>>,
}

/// Everything recorded up to its request, on its way into the file.
#[derive(Debug)]
pub struct Flush {
    flushed: mpsc::Receiver<()>,
    shared: Arc<Shared>,
}

/// Why and when a tape ended before its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeFailure {
    /// The system's words, or ours.
    pub reason: String,
    /// When, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
}

/// What is on a finished tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeSummary {
    /// The file.
    pub path: PathBuf,
    /// Records on it, those included that are gone with parts of it ([`TapeRecorder::start_limited`]).
    pub records: u64,
    /// Records that are not, because they were overwritten before they could be read.
    pub lost: u64,
}

/// Why a tape could not be started or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The state of memory leaves no room for records.
    #[error(
        "{}: a state of memory takes {base_bytes} bytes of a tape that may have {max_bytes}; \
         set tape_max in VRAMTAPE_CONF higher",
        path.display()
    )]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// What the state takes.
        base_bytes: u64,
        /// What the tape may have.
        max_bytes: u64,
    },
    /// The tape ended before its program.
    #[error(
        "{} ended early, at {}: {}; {lost} records after that are not on it",
        path.display(),
        utc(*time_ns),
        cause.reason()
    )]
    Ended {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: Box<TapeError>,
        /// When, in nanoseconds since the Unix epoch.
        time_ns: u64,
        /// Records that are missing on it, those included that were overwritten before.
        lost: u64,
    },
    /// Another tape is being written there.
    #[error(
        "{} is being written by another process: put {{pid}} or {{rank}} into the tape path",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Something else is there, which a tape does not replace.
    #[error(
        "cannot write a tape to {}: {reason}, and a tape replaces only a tape of this user or an empty file; name \
         another path (`vramtape run -o`, or tape: in VRAMTAPE_CONF), or remove it",
        path.display()
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// The drainer's thread could not be started.
    #[error("cannot start the tape's thread: {0}")]
    Thread(io::Error),
    /// The drainer's thread panicked, which is a mistake of ours.
    #[error("the tape's thread panicked; {} is readable up to there", path.display())]
    Panicked {
        /// The file.
        path: PathBuf,
    },
    /// This process was forked from the one that records.
    #[error("this process was forked from the one that writes the tape; stop it there")]
    Forked,
}

impl TapeError {
    /// Why a tape could not be written, without its name.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Write(WriteError { cause: WriteCause::Io(error), .. }) => {
                // Without the number behind it.
                let text = error.to_string();
                text.split(" (os error").next().unwrap_or_default().to_owned()
            }
            Self::Write(error) => error.cause.to_string(),
            other => other.to_string(),
        }
    }

    /// What to do about it, where the reason does not say it.
    pub(super) fn way_out(&self) -> &'static str {
        match self {
            Self::Write(WriteError { cause: WriteCause::Io(_), .. }) => {
                ". Make room there, write it to another disk (`vramtape run -o`, or tape: in VRAMTAPE_CONF), or limit \
                 its size (tape_max:2GiB)"
            }
            _ => "",
        }
    }
}

impl TapeRecorder {
    /// Starts a tape at `path`, in place of the tape that is there. Rings are [added](Self::add).
    ///
    /// # Errors
    /// As for [`TapeFile::replace`], and where no thread can be started.
    pub fn start(path: &Path, meta: Meta, clock: impl Clock) -> Result<Self, TapeError> {
        Self::start_limited(path, meta, clock, None)
    }

    /// The same, with at most `max_bytes` on disk. At half of that the file gets the name `PATH.1`, in place of the
    /// one before it, and another begins at `path` with the state of memory: the newest records are kept, and each
    /// part replays by itself.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_limited(
        path: &Path,
        meta: Meta,
        clock: impl Clock,
        max_bytes: Option<u64>,
    ) -> Result<Self, TapeError> {
        Self::start_in(TapeFile::replace(path)?, meta, clock, max_bytes)
    }

    /// The same in a file that is open already.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_in(
        file: TapeFile,
        meta: Meta,
        clock: impl Clock,
        max_bytes: Option<u64>,
    ) -> Result<Self, TapeError> {
        let path = file.path().to_owned();
        let shared = Arc::new(Shared::default());
        let (started, starts) = mpsc::channel();
        let work = {
            let shared = Arc::clone(&shared);
            move || {
                signals::block();
                let _ended = Ended(Arc::clone(&shared));
                let parts = Parts::begin(file, meta, max_bytes)?;
                let drainer = Drainer { parts, sources: Vec::new(), shared, clock };
                // The receiver is gone only if the caller panicked.
                let _ = started.send(());
                drainer.run_to_end()
            }
        };
        let builder = thread::Builder::new().name("vramtape-tape".to_owned());
        let thread = builder.spawn(work).map_err(TapeError::Thread)?;
        let pid = std::process::id();
        let mut recorder = Self { path, shared, thread: Some(thread), pid };
        match starts.recv() {
            Ok(()) => Ok(recorder),
            // The thread has ended, and says why.
            Err(mpsc::RecvError) => recorder.finish().and(Err(recorder.panicked())),
        }
    }

    /// Adds a ring. If nothing was recorded in it yet, all of it will be on the tape; else what comes after the base
    /// state that its owner gives.
    pub fn add(&self, source: TapeSource) {
        self.add_with_bases(source, RECORDS_PER_BASE);
    }

    /// The same, with another distance between base states.
    pub(super) fn add_with_bases(&self, source: TapeSource, records_per_base: u64) {
        self.shared.new_sources().push(RingSource::new(source, records_per_base));
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Waits until everything recorded until now is in the file, and says whether it is. Not to be called under a
    /// heap's lock, which the drainer may be waiting for.
    pub fn flush(&self) -> bool {
        self.request_flush().wait().is_ok()
    }

    /// Asks for everything recorded until now to be in the file, without waiting for it.
    pub fn request_flush(&self) -> Flush {
        let (done, flushed) = mpsc::channel();
        if let Some(thread) = self.thread.as_ref().filter(|_| self.is_recording()) {
            self.shared.flushes().push(done);
            thread.thread().unpark();
        }
        Flush { flushed, shared: Arc::clone(&self.shared) }
    }

    /// Whether the tape is still being written.
    pub fn is_recording(&self) -> bool {
        self.pid == std::process::id()
            && !self.shared.has_failed.load(Ordering::Acquire)
            && self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Why and when the tape ended, if it did so before it was [stopped](Self::stop).
    pub fn failure(&self) -> Option<TapeFailure> {
        self.shared.failure().clone()
    }

    /// Writes everything recorded until now, how the program ended, and the index; see [`stop`](Self::stop).
    ///
    /// # Errors
    /// As for [`stop`](Self::stop).
    pub fn stop_at_end(mut self, end: ProgramEnd) -> Result<TapeSummary, TapeError> {
        *self.shared.end() = Some(end);
        self.finish()
    }

    /// Writes everything recorded until now, and the index. Not to be called under a heap's lock, which the drainer
    /// may be waiting for.
    ///
    /// # Errors
    /// Where the tape could not be written, now or before.
    pub fn stop(mut self) -> Result<TapeSummary, TapeError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<TapeSummary, TapeError> {
        let thread = self.thread.take().ok_or(TapeError::Forked)?;
        if self.pid != std::process::id() {
            // There is no such thread here, not even one to detach from.
            std::mem::forget(thread);
            return Err(TapeError::Forked);
        }
        self.shared.is_stopping.store(true, Ordering::Release);
        thread.thread().unpark();
        match thread.join() {
            Ok(finished) => finished,
            Err(_) => Err(self.panicked()),
        }
    }

    fn panicked(&self) -> TapeError {
        TapeError::Panicked { path: self.path.clone() }
    }
}

/// Says that the thread has ended, also by a panic.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.flushes().clear();
    }
}

impl Flush {
    /// Waits for it. Not to be called under a heap's lock, which the drainer may be waiting for.
    ///
    /// # Errors
    /// Where the tape is not written any more, with the reason if it failed.
    pub fn wait(self) -> Result<(), Option<TapeFailure>> {
        loop {
            match self.flushed.recv_timeout(FLUSH_EVERY) {
                Ok(()) => return Ok(()),
                // A thread that ended before the request does not answer.
                Err(RecvTimeoutError::Timeout) if !self.shared.is_over() => {}
                Err(_) => return Err(self.shared.failure().clone()),
            }
        }
    }
}

impl Drop for TapeRecorder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // A failure was a warning on the drainer's thread already.
            let _ = self.finish();
        }
    }
}

impl Shared {
    /// Whether nothing is written any more.
    fn is_over(&self) -> bool {
        self.has_failed.load(Ordering::Acquire) || self.has_ended.load(Ordering::Acquire)
    }

    pub(super) fn new_sources(&self) -> MutexGuard<'_, Vec<RingSource>> {
        self.new_sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) -> MutexGuard<'_, Option<ProgramEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failure(&self) -> MutexGuard<'_, Option<TapeFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn flushes(&self) -> MutexGuard<'_, Vec<mpsc::Sender<()>>> {
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
