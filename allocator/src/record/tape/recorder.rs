//! A tape of the running process: its thread, and how to start and stop it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use trace_format::{Meta, WriteCause, WriteError, Writer};

use super::signals;
use super::source::{Feed, TapeSource};
use crate::record::clock::Clock;

/// Records between two base states of a device: a reader that starts anywhere follows at most as many.
const RECORDS_PER_BASE: u64 = 1_000_000;

/// A reader of the growing tape sees records at most this much later, and a kill loses at most as many.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

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

#[derive(Debug, Default)]
struct Shared {
    is_stopping: AtomicBool,
    new_feeds: Mutex<Vec<Feed>>,
    /// Who waits for everything recorded until now to be in the file.
    flushes: Mutex<Vec<mpsc::Sender<()>>>,
}

/// What is on a finished tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeSummary {
    /// The file.
    pub path: PathBuf,
    /// Records on it.
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
    /// Another tape is being written there.
    #[error(
        "{} is being written by another process: put {{pid}} or {{rank}} into the tape path",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
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

impl TapeRecorder {
    /// Starts a tape at `path`, over whatever was there. Rings are [added](Self::add).
    ///
    /// # Errors
    /// Where the file cannot be written or is another process's tape in the making, or there is no thread to be had.
    pub fn start(path: &Path, meta: Meta, clock: impl Clock) -> Result<Self, TapeError> {
        let shared = Arc::new(Shared::default());
        let (started, starts) = mpsc::channel();
        let work = {
            let (path, shared) = (path.to_owned(), Arc::clone(&shared));
            move || {
                signals::block();
                let writer = open(&path, &meta)?;
                let drainer = Drainer { path, meta, writer, feeds: Vec::new(), shared, clock };
                // Nobody but a panicking caller would not listen.
                let _ = started.send(());
                Ok(drainer.run().inspect_err(|error| {
                    tracing::warn!(%error, "recording to the tape stops; the allocator goes on");
                })?)
            }
        };
        let builder = thread::Builder::new().name("vramtape-tape".to_owned());
        let thread = builder.spawn(work).map_err(TapeError::Thread)?;
        let (path, pid) = (path.to_owned(), std::process::id());
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
        self.shared.new_feeds().push(Feed::new(source, records_per_base));
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Waits until everything recorded until now is in the file, and says whether it is. Not to be called under a
    /// heap's lock, which the drainer may be waiting for.
    pub fn flush(&self) -> bool {
        let Some(thread) = self.thread.as_ref().filter(|_| self.is_recording()) else {
            return false;
        };
        let (done, flushed) = mpsc::channel();
        self.shared.flushes().push(done);
        thread.thread().unpark();
        loop {
            match flushed.recv_timeout(FLUSH_EVERY) {
                Ok(()) => return true,
                // Nobody answers who ended before the question came.
                Err(RecvTimeoutError::Timeout) if !thread.is_finished() => {}
                Err(_) => return false,
            }
        }
    }

    /// Whether the tape is still being written.
    pub fn is_recording(&self) -> bool {
        self.pid == std::process::id() && self.thread.as_ref().is_some_and(|t| !t.is_finished())
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

impl Drop for TapeRecorder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // A failure was a warning on the drainer's thread already.
            let _ = self.finish();
        }
    }
}

impl Shared {
    fn new_feeds(&self) -> MutexGuard<'_, Vec<Feed>> {
        self.new_feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flushes(&self) -> MutexGuard<'_, Vec<mpsc::Sender<()>>> {
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread works with.
struct Drainer<C> {
    path: PathBuf,
    meta: Meta,
    writer: Writer<File>,
    feeds: Vec<Feed>,
    shared: Arc<Shared>,
    clock: C,
}

impl<C: Clock> Drainer<C> {
    fn run(mut self) -> Result<TapeSummary, WriteError> {
        let mut flushed_at = Instant::now();
        loop {
            // Asked before draining, so that what was recorded before the stop is drained.
            let is_stopping = self.shared.is_stopping.load(Ordering::Acquire);
            let flushes = std::mem::take(&mut *self.shared.flushes());
            self.take_new_feeds()?;
            for feed in &mut self.feeds {
                feed.drain(&mut self.writer, self.clock.unix_ns())?;
            }
            if is_stopping {
                break;
            }
            if flushed_at.elapsed() >= FLUSH_EVERY || !flushes.is_empty() {
                self.writer.flush()?;
                flushed_at = Instant::now();
            }
            for done in flushes {
                // One who no longer listens needs no answer.
                let _ = done.send(());
            }
            thread::park_timeout(self.pause());
        }
        self.writer.finish()?;
        let sum = |count: fn(&Feed) -> u64| self.feeds.iter().map(count).sum();
        Ok(TapeSummary {
            path: self.path,
            records: sum(|feed| feed.records),
            lost: sum(|feed| feed.lost),
        })
    }

    fn take_new_feeds(&mut self) -> Result<(), WriteError> {
        let new = std::mem::take(&mut *self.shared.new_feeds());
        if new.is_empty() {
            return Ok(());
        }
        for feed in &new {
            self.meta.devices.retain(|device| device.id != feed.device().id);
            self.meta.devices.push(feed.device().clone());
        }
        self.feeds.extend(new);
        self.writer.meta(&self.meta)
    }

    /// A quarter of the time in which the fastest producer fills the smallest ring, within reason.
    fn pause(&self) -> Duration {
        const FASTEST_RECORD_NS: u64 = 20;
        let slots = self.feeds.iter().map(|feed| feed.ring().slots()).min().unwrap_or(u64::MAX);
        let quarter = Duration::from_nanos(slots.saturating_mul(FASTEST_RECORD_NS) / 4);
        quarter.clamp(Duration::from_micros(200), Duration::from_millis(10))
    }
}

/// Opens the tape in place, and locks it for as long as this process has it.
fn open(path: &Path, meta: &Meta) -> Result<Writer<File>, TapeError> {
    let name = path.display().to_string();
    let failed = |error| WriteError { name: name.clone(), cause: WriteCause::Io(error) };
    let mut options = OpenOptions::new();
    // Not truncated before it is ours.
    options.write(true).create(true).truncate(false);
    let file = options.open(path).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(TapeError::InUse { path: path.to_owned() });
        }
        // Some network file systems cannot lock.
        Err(error) => tracing::debug!(path = %path.display(), %error, "the tape is not locked"),
    }
    file.set_len(0).map_err(failed)?;
    Ok(Writer::new(file, name, meta)?)
}
