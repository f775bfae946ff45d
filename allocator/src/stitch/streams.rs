//! How far other streams have come: which of their free pages may change hands.

use events::Stream;

use super::Stitch;
use device::EventId;

/// The progress of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamProgress {
    pub(crate) stream: Stream,
    /// Frees up to this ticket are passed: all work before them is done.
    pub(crate) passed: u64,
    /// An event behind all work before a ticket.
    pub(crate) awaited: Option<(EventId, u64)>,
}

impl Stitch {
    /// The last ticket whose earlier work on a stream is known to be done.
    pub(crate) fn passed(&self, stream: Stream) -> u64 {
        let known = self.progress.iter().find(|progress| progress.stream == stream);
        known.map_or(0, |progress| progress.passed)
    }

    /// The progress of a stream, to change.
    pub(crate) fn progress_of(&mut self, stream: Stream) -> &mut StreamProgress {
        let known = self.progress.iter().position(|progress| progress.stream == stream);
        let at = known.unwrap_or_else(|| {
            self.progress.push(StreamProgress { stream, passed: 0, awaited: None });
            self.progress.len() - 1
        });
        &mut self.progress[at]
    }
}
