//! Requests to the tape's thread.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use trace_format::ProgramEnd;

use super::ring_source::RingSource;

/// A request to the tape's thread.
#[derive(Debug)]
pub(super) enum Request {
    /// Write the records of this ring too.
    Add(Box<RingSource>),
    /// Put everything recorded until now into the file, and answer.
    Flush(Sender<()>),
    /// Write everything recorded until now and how the program ended, and end the tape.
    Stop(Option<ProgramEnd>),
}

/// The requests that the thread has received and not yet answered.
#[derive(Debug)]
pub(super) struct Inbox {
    requests: Receiver<Request>,
    /// The requests to flush. Dropping one means that the tape has ended.
    pub(super) flushes: Vec<Sender<()>>,
    /// Whether the tape is to end.
    pub(super) is_stopping: bool,
    /// How the program ended.
    pub(super) end: Option<ProgramEnd>,
}

impl Inbox {
    pub(super) fn new(requests: Receiver<Request>) -> Self {
        Self { requests, flushes: Vec::new(), is_stopping: false, end: None }
    }

    /// Waits for a request, for at most `pause`; takes all that are there, and returns the new rings.
    pub(super) fn take(&mut self, pause: Duration) -> Vec<RingSource> {
        let first = match self.requests.recv_timeout(pause) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            // The owner is gone.
            Err(RecvTimeoutError::Disconnected) => Some(Request::Stop(None)),
        };
        let mut new = Vec::new();
        for request in first.into_iter().chain(self.requests.try_iter()) {
            match request {
                Request::Add(source) => new.push(*source),
                Request::Flush(done) => self.flushes.push(done),
                Request::Stop(end) => (self.is_stopping, self.end) = (true, end),
            }
        }
        new
    }
}
