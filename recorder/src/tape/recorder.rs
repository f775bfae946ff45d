//! A tape of the running process: its thread, and how to start and stop it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, RecvError, Sender, bounded, unbounded};
use trace_format::{Meta, ProgramEnd};

use super::drainer::Drainer;
use super::outcome::{TapeError, TapeFailure, TapeSummary};
use super::requests::Request;
use super::ring_source::{RingSource, TapeSource};
use super::rotation::Parts;
use super::signals;
use super::tape_file::TapeFile;
use crate::clock::Clock;

/// Records between two base states of a device: a reader that starts anywhere follows at most as many.
const RECORDS_PER_BASE: u64 = 1_000_000;

/// A tape that is being written, of one or more devices.
///
/// A thread reads the rings and writes; recording does not notice. If the tape cannot be written on (a full disk), a
/// warning says so, once, and the process goes on without it.
#[derive(Debug)]
pub struct TapeRecorder {
    path: PathBuf,
    /// `None` once it has ended.
    worker: Option<Worker>,
    /// Why the tape ended early.
    failure: Arc<OnceLock<TapeFailure>>,
    /// The process of the thread: a forked child has a copy of this, but no thread.
    pid: u32,
}

/// The tape's thread.
#[derive(Debug)]
struct Worker {
    thread: JoinHandle<Result<TapeSummary, TapeError>>,
    requests: Sender<Request>,
}

/// Everything recorded up to its request, on its way into the file.
#[derive(Debug)]
pub struct Flush {
    flushed: Receiver<()>,
    failure: Arc<OnceLock<TapeFailure>>,
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
        let failure = Arc::new(OnceLock::new());
        let (requests, received) = unbounded();
        let (started, starts) = bounded(1);
        let work = {
            let failure = Arc::clone(&failure);
            move || {
                signals::block();
                let parts = Parts::begin(file, meta, max_bytes)?;
                let drainer = Drainer { parts, sources: Vec::new(), failure, clock };
                // The receiver is gone only if the caller panicked.
                let _ = started.send(());
                drainer.run_to_end(received)
            }
        };
        let builder = thread::Builder::new().name("vramtape-tape".to_owned());
        let thread = builder.spawn(work).map_err(TapeError::Thread)?;
        let (worker, pid) = (Some(Worker { thread, requests }), std::process::id());
        let mut recorder = Self { path, worker, failure, pid };
        match starts.recv() {
            Ok(()) => Ok(recorder),
            // The thread has ended, and says why.
            Err(RecvError) => recorder.finish(None).and(Err(recorder.panicked())),
        }
    }

    /// Adds a ring. If nothing was recorded in it yet, all of it will be on the tape; else what comes after the base
    /// state that its owner gives.
    pub fn add(&self, source: TapeSource) {
        self.add_with_bases(source, RECORDS_PER_BASE);
    }

    /// The same, with another distance between base states.
    pub(super) fn add_with_bases(&self, source: TapeSource, records_per_base: u64) {
        self.send(Request::Add(Box::new(RingSource::new(source, records_per_base))));
    }

    /// Sends a request, unless this is a forked child: another thread may have held the channel's locks at the fork.
    fn send(&self, request: Request) {
        if let Some(worker) = self.worker.as_ref().filter(|_| self.pid == std::process::id()) {
            // A thread that has ended takes no requests.
            let _ = worker.requests.send(request);
        }
    }

    /// Waits until everything recorded until now is in the file, and says whether it is. Not to be called under a
    /// heap's lock, which the drainer may be waiting for.
    pub fn flush(&self) -> bool {
        self.request_flush().wait().is_ok()
    }

    /// Asks for everything recorded until now to be in the file, without waiting for it.
    pub fn request_flush(&self) -> Flush {
        let (done, flushed) = bounded(1);
        self.send(Request::Flush(done));
        Flush { flushed, failure: Arc::clone(&self.failure) }
    }

    /// Whether the tape is still being written.
    pub fn is_recording(&self) -> bool {
        self.pid == std::process::id()
            && self.failure.get().is_none()
            && self.worker.as_ref().is_some_and(|worker| !worker.thread.is_finished())
    }

    /// Why and when the tape ended, if it did so before it was [stopped](Self::stop).
    pub fn failure(&self) -> Option<TapeFailure> {
        self.failure.get().cloned()
    }

    /// Writes everything recorded until now, how the program ended, and the index; see [`stop`](Self::stop).
    ///
    /// # Errors
    /// As for [`stop`](Self::stop).
    pub fn stop_at_end(mut self, end: ProgramEnd) -> Result<TapeSummary, TapeError> {
        self.finish(Some(end))
    }

    /// Writes everything recorded until now, and the index. Not to be called under a heap's lock, which the drainer
    /// may be waiting for.
    ///
    /// # Errors
    /// Where the tape could not be written, now or before.
    pub fn stop(mut self) -> Result<TapeSummary, TapeError> {
        self.finish(None)
    }

    fn finish(&mut self, end: Option<ProgramEnd>) -> Result<TapeSummary, TapeError> {
        let worker = self.worker.take().ok_or(TapeError::Forked)?;
        if self.pid != std::process::id() {
            // There is no such thread here, not even one to detach from.
            std::mem::forget(worker);
            return Err(TapeError::Forked);
        }
        let Worker { thread, requests } = worker;
        // A thread that has ended takes no requests.
        let _ = requests.send(Request::Stop(end));
        match thread.join() {
            Ok(finished) => finished,
            Err(_) => Err(self.panicked()),
        }
    }

    fn panicked(&self) -> TapeError {
        TapeError::Panicked { path: self.path.clone() }
    }
}

impl Flush {
    /// Waits for it. Not to be called under a heap's lock, which the drainer may be waiting for.
    ///
    /// # Errors
    /// Where the tape is not written any more, with the reason if it failed.
    pub fn wait(self) -> Result<(), Option<TapeFailure>> {
        self.flushed.recv().map_err(|RecvError| self.failure.get().cloned())
    }
}

impl Drop for TapeRecorder {
    fn drop(&mut self) {
        if self.worker.is_some() {
            // A failure was a warning on the drainer's thread already.
            let _ = self.finish(None);
        }
    }
}
