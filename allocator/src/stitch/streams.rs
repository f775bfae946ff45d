//! How far the streams have come: which of their free pages may change hands.

use alloc::vec::Vec;

use events::Stream;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use device::EventId;

/// Streams that a request looks at, besides its own; a later request looks at others.
const SEEN: usize = 16;

/// The progress of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamProgress {
    pub(crate) stream: Stream,
    /// Frees up to this ticket are passed: all work before them is done.
    pub(crate) passed: u64,
    /// An event behind all work before a ticket.
    pub(crate) awaited: Option<(EventId, u64)>,
    /// What the tape that is replayed knows to be passed: the answer to events before this ticket.
    pub(crate) replayed: u64,
    runs: u32,
}

/// The streams that have runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    progress: Vec<StreamProgress>,
    places: HashMap<Stream, usize, FxBuildHasher>,
    /// The first of the streams that the next request looks at.
    next: usize,
}

impl Streams {
    /// Adds a run to its stream. Nothing that a new stream did is outstanding.
    pub(super) fn add_run(&mut self, stream: Stream, now: u64) {
        let new = StreamProgress { stream, passed: now, awaited: None, replayed: 0, runs: 0 };
        let place = *self.places.entry(stream).or_insert_with(|| {
            self.progress.push(new);
            self.progress.len() - 1
        });
        self.progress[place].runs += 1;
    }

    /// Takes a run off its stream. The awaited event of a stream without runs stays until it is dropped.
    pub(super) fn remove_run(&mut self, stream: Stream) {
        self.of(stream).expect("a run has a stream").runs -= 1;
    }

    /// The progress of a stream, if it has runs.
    pub(crate) fn of(&mut self, stream: Stream) -> Option<&mut StreamProgress> {
        self.places.get(&stream).map(|place| &mut self.progress[*place])
    }

    /// The last ticket whose earlier work on a stream is known to be done.
    pub(crate) fn passed(&self, stream: Stream) -> u64 {
        self.places.get(&stream).map_or(0, |place| self.progress[*place].passed)
    }

    /// All streams that have runs.
    pub(crate) fn all(&self) -> Vec<Stream> {
        let used = self.progress.iter().filter(|progress| progress.runs > 0);
        used.map(|progress| progress.stream).collect()
    }

    /// The streams that a request of this one looks at: its own first. Few at once, so that a miss does not take longer
    /// with many streams.
    pub(crate) fn seen_by(&self, own: Stream) -> impl Iterator<Item = Stream> {
        let count = self.progress.len().min(SEEN);
        let places = (0..count).map(|step| (self.next + step) % self.progress.len());
        let others = places.map(|place| self.progress[place]).filter(|progress| progress.runs > 0);
        let others = others.map(|progress| progress.stream).filter(move |stream| *stream != own);
        core::iter::once(own).chain(others)
    }

    /// The next request looks at other streams.
    pub(crate) fn turn(&mut self) {
        self.next = (self.next + SEEN) % self.progress.len().max(1);
    }

    /// The events that are awaited, which are not from here on.
    pub(crate) fn take_awaited(&mut self) -> impl Iterator<Item = EventId> {
        self.progress
            .iter_mut()
            .filter_map(|progress| progress.awaited.take())
            .map(|(event, _)| event)
    }
}
