//! The records of a replay, at the times of the run it replays.

use events::{Off, Recorder};
use trace_format::{Event, Record, StackId, StringId, ThreadId};

/// A recorder that receives the record being replayed.
pub trait Witness: Recorder {
    /// The allocator's next events are caused by `record`.
    fn at(&mut self, record: &Record) {
        let _ = record;
    }
}

impl Witness for Off {}

/// Keeps the allocator's events with the time and thread of what caused them, and the run's marks between them.
///
/// Strings and stacks keep the numbers of the run. Changes of settings, whose text would be a new string, are kept
/// without it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    time_ns: u64,
    thread: ThreadId,
    /// The records so far.
    pub(crate) records: Vec<Record>,
}

impl Witness for Timeline {
    fn at(&mut self, record: &Record) {
        self.time_ns = record.time_ns;
        self.thread = record.thread;
        if matches!(record.event, Event::Mark { .. } | Event::Snapshot { .. }) {
            self.records.push(*record);
        }
    }
}

impl Recorder for Timeline {
    fn record(&mut self, stack: StackId, event: Event) {
        let Self { time_ns, thread, .. } = *self;
        self.records.push(Record { time_ns, thread, stack, event });
    }

    fn intern(&mut self, _text: &str) -> StringId {
        StringId::default()
    }
}
