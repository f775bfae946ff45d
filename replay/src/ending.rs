//! How a run ended, and whether its numbers are therefore lower bounds.
//!
//! A run that died out of memory never asked for the rest of what it needs, and a program that handled a refused
//! request would have gone on differently had the request been served. So every answer about such a run is a lower
//! bound. The same holds where the process was killed or the tape could not be written any more. The reason is one
//! sentence ([`Ending::at_least`]), and every verb prints it.

use std::fmt;

use allocator::stats::ByteSize;
use serde::Serialize;
use trace_format::{BlockStatus, EndKind, Event, Source};

use crate::tape::{Device, Tape};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The program ended by itself.
    Complete,
    /// Its last request of any size was refused, or the exception that ended it was `torch.OutOfMemoryError`.
    OutOfMemory,
    /// Another exception ended it.
    Exception,
    /// A signal ended it, and the recorder still closed the tape.
    Signal,
    /// The process was killed, or still runs: the tape ends in the middle.
    Killed,
    /// The program went on: the tape could not be written any more.
    TapeFailed,
    /// The program went on: recording was stopped.
    RecordingStopped,
    /// The tape does not have it: another tool's file, or an older version's tape.
    Unknown,
}

/// A request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Number of the device.
    pub device: u16,
    /// Number of the record on the device, from 0.
    pub record: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes that the program held at that moment, as it asked for them.
    pub live_bytes: u64,
}

/// How a run ended, as far as its tape shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// How.
    pub kind: Kind,
    /// The exception, the name of the signal or the error of the tape, where it is known.
    pub detail: String,
    /// The refused request that ended the run.
    pub refusal: Option<Refusal>,
    /// Refused requests after which the program went on.
    pub handled_refusals: u64,
    /// Whether the file ends in the middle of a chunk.
    pub is_torn: bool,
    /// Whether the process is known to be dead, and not only the tape to be without an end.
    #[serde(skip)]
    pub is_seen_killed: bool,
}

impl Ending {
    /// How the run of a tape ended.
    pub fn of(tape: &Tape) -> Self {
        let meta = &tape.meta;
        let refusals = tape.devices.iter().map(Refusals::of);
        let refusals = refusals.reduce(Refusals::with).unwrap_or(Refusals {
            count: 0,
            last: None,
            is_final: false,
        });
        let end = meta.end.as_ref();
        let kind = match end.map(|end| end.kind) {
            Some(EndKind::OutOfMemory) => Kind::OutOfMemory,
            // An exception of another type may have an out of memory as its cause, a program may catch one and exit,
            // and a tape is often saved by its handler.
            _ if refusals.is_final => Kind::OutOfMemory,
            Some(EndKind::Exit) => Kind::Complete,
            Some(EndKind::Exception) => Kind::Exception,
            Some(EndKind::Signal) => Kind::Signal,
            Some(EndKind::TapeFailed) => Kind::TapeFailed,
            Some(EndKind::RecordingStopped) => Kind::RecordingStopped,
            Some(EndKind::Killed) => Kind::Killed,
            None if meta.source == Source::Recorded && !tape.recovery.finished => Kind::Killed,
            Some(EndKind::Unknown) | None => Kind::Unknown,
        };
        let is_dead = kind == Kind::OutOfMemory;
        Self {
            kind,
            detail: end.map_or(String::new(), |end| end.detail.clone()),
            refusal: refusals.last.filter(|_| is_dead),
            handled_refusals: refusals.count - u64::from(is_dead && refusals.last.is_some()),
            is_torn: tape.recovery.torn.is_some() && !tape.recovery.finished,
            is_seen_killed: end.is_some_and(|end| end.kind == EndKind::Killed),
        }
    }

    /// Whether the program might have asked for more than the tape has.
    pub fn is_lower_bound(&self) -> bool {
        let is_cut = match self.kind {
            Kind::OutOfMemory
            | Kind::Exception
            | Kind::Signal
            | Kind::Killed
            | Kind::TapeFailed => true,
            Kind::Complete | Kind::RecordingStopped | Kind::Unknown => false,
        };
        is_cut || self.handled_refusals > 0 || self.is_torn
    }

    /// Why the numbers of this run are lower bounds; `None` where they are not.
    pub fn at_least(&self) -> Option<String> {
        self.is_lower_bound().then(|| {
            format!("at least: {}; later requests of the program are unknown", self.reason())
        })
    }

    /// The reason in a few words.
    pub fn reason(&self) -> String {
        let detail = match self.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        match (self.kind, self.refusal) {
            (Kind::OutOfMemory, Some(refusal)) => {
                format!("the run died out of memory ({refusal})")
            }
            (Kind::OutOfMemory, None) => format!("the run died out of memory{detail}"),
            (Kind::Exception, _) => format!("an exception ended the run{detail}"),
            (Kind::Signal, _) => format!("a signal ended the run{detail}"),
            (Kind::Killed, _) if self.is_seen_killed => "the run was killed".to_owned(),
            (Kind::Killed, _) => "the run was killed, or it still goes on".to_owned(),
            (Kind::TapeFailed, _) => format!("the tape ended before the run{detail}"),
            _ if self.handled_refusals > 0 => {
                let plural = if self.handled_refusals == 1 { "" } else { "s" };
                format!(
                    "the program went on after {} refused request{plural}",
                    self.handled_refusals
                )
            }
            _ => "the end of the file is damaged".to_owned(),
        }
    }
}

/// The end in words, as `vramtape info` prints it.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Complete => "complete",
            Kind::OutOfMemory => "out of memory",
            Kind::Exception => "exception",
            Kind::Signal => "signal",
            Kind::Killed if self.is_seen_killed => "killed",
            Kind::Killed => "killed, or still running: the tape has no end",
            Kind::TapeFailed => "the tape could not be written any more",
            Kind::RecordingStopped => "recording stopped, the program went on",
            Kind::Unknown => "not known: the file does not have it",
        })?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if let Some(refusal) = self.refusal {
            write!(f, "; {refusal}")?;
        }
        match self.handled_refusals {
            0 => Ok(()),
            1 => write!(f, "; 1 refused request before, after which the program went on"),
            count => {
                write!(f, "; {count} refused requests before, after which the program went on")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, record, requested_bytes, live_bytes } = *self;
        let (asked, live) = (ByteSize(requested_bytes), ByteSize(live_bytes));
        write!(f, "{asked} refused with {live} live, at record {record} of device {device}")
    }
}

/// The refused requests of a device.
#[derive(Clone, Copy, Debug)]
struct Refusals {
    count: u64,
    last: Option<Refusal>,
    /// Whether the program asked for less after the last one than was refused: it did not go on.
    is_final: bool,
}

impl Refusals {
    fn of(device: &Device) -> Self {
        let mut found = Self { count: 0, last: None, is_final: false };
        let blocks = device.base.segments.iter().flat_map(|segment| &segment.blocks);
        let blocks = blocks.filter(|block| block.status == BlockStatus::Allocated);
        let mut live_bytes: u64 = blocks.map(|block| block.requested_bytes).sum();
        let mut asked_since: u64 = 0;
        for (record, at) in device.records.iter().zip(0..) {
            match record.event {
                Event::Alloc { requested_bytes, .. } => {
                    live_bytes = live_bytes.saturating_add(requested_bytes);
                    asked_since = asked_since.saturating_add(requested_bytes);
                }
                Event::Free { requested_bytes, .. } => {
                    live_bytes = live_bytes.saturating_sub(requested_bytes);
                }
                Event::Oom { requested_bytes, .. } => {
                    let device = device.id.0;
                    found.count += 1;
                    found.last = Some(Refusal { device, record: at, requested_bytes, live_bytes });
                    asked_since = 0;
                }
                _ => {}
            }
        }
        found.is_final = found.last.is_some_and(|last| asked_since < last.requested_bytes);
        found
    }

    /// Those of two devices; the last is one that ended the run, if either has such.
    fn with(self, other: Self) -> Self {
        let last = if other.is_final && !self.is_final || self.last.is_none() {
            other.last
        } else {
            self.last
        };
        let is_final = self.is_final || other.is_final;
        Self { count: self.count + other.count, last, is_final }
    }
}

#[cfg(test)]
mod tests {
    use trace_format::{
        Addr, DeviceId, Meta, PoolId, ProgramEnd, Record, Recovery, StackId, Stream, ThreadId, Torn,
    };

    use super::*;

    fn record(event: Event) -> Record {
        Record { time_ns: 0, thread: ThreadId(1), stack: StackId::NONE, event }
    }

    fn alloc(at: u64, requested_bytes: u64) -> Record {
        let (stream, pool) = (Stream(0), PoolId::DEFAULT);
        let size_bytes = requested_bytes;
        record(Event::Alloc { addr: Addr(at), requested_bytes, size_bytes, stream, pool })
    }

    fn free(at: u64, requested_bytes: u64) -> Record {
        let size_bytes = requested_bytes;
        record(Event::Free { addr: Addr(at), requested_bytes, size_bytes, pending: false })
    }

    fn oom(requested_bytes: u64) -> Record {
        let (stream, pool) = (Stream(0), PoolId::DEFAULT);
        let size_bytes = requested_bytes;
        record(Event::Oom { requested_bytes, size_bytes, device_free_bytes: 0, stream, pool })
    }

    /// A finished tape of our own recorder, with a device for each list of records.
    fn tape(end: Option<EndKind>, devices: &[&[Record]]) -> Tape {
        let device = |(id, records): (usize, &&[Record])| Device {
            id: DeviceId(id as u16),
            records: records.to_vec(),
            ..Device::default()
        };
        let end = end.map(|kind| ProgramEnd { kind, ..ProgramEnd::default() });
        Tape {
            meta: Meta { end, ..Meta::default() },
            devices: devices.iter().enumerate().map(device).collect(),
            recovery: Recovery { finished: true, ..Recovery::default() },
            ..Tape::default()
        }
    }

    #[test]
    fn a_run_whose_last_request_was_refused_died_of_it_whatever_the_tape_says_or_leaves_out() {
        // The exception's handler prints a small tensor, and the interpreter frees what there was.
        let records = [alloc(1, 900), oom(200), alloc(2, 8), free(1, 900), free(2, 8)];
        let refusal = Refusal { device: 0, record: 1, requested_bytes: 200, live_bytes: 900 };
        for end in [
            None,
            Some(EndKind::Exit),
            Some(EndKind::OutOfMemory),
            Some(EndKind::Exception),
            Some(EndKind::RecordingStopped),
        ] {
            let ending = Ending::of(&tape(end, &[&records]));
            assert_eq!(
                (ending.kind, ending.refusal),
                (Kind::OutOfMemory, Some(refusal)),
                "{end:?}"
            );
            assert_eq!(ending.handled_refusals, 0);
            assert!(ending.is_lower_bound());
        }
        let sentence = Ending::of(&tape(None, &[&records])).at_least().unwrap();
        assert_eq!(
            sentence,
            "at least: the run died out of memory (200 bytes refused with 900 bytes live, at record 1 of device 0); \
             later requests of the program are unknown"
        );
    }

    #[test]
    fn a_run_that_went_on_after_its_refusals_handled_them_and_is_a_lower_bound_too() {
        let records = [oom(200), oom(200), alloc(1, 100), alloc(2, 100), free(1, 100)];
        let ending = Ending::of(&tape(Some(EndKind::Exit), &[&records]));
        assert_eq!((ending.kind, ending.handled_refusals), (Kind::Complete, 2));
        assert!(ending.is_lower_bound());
        assert_eq!(
            ending.to_string(),
            "complete; 2 refused requests before, after which the program went on"
        );
        let ending = Ending::of(&tape(None, &[&records]));
        assert_eq!((ending.kind, ending.handled_refusals), (Kind::Unknown, 2));
        assert!(ending.at_least().unwrap().contains("went on after 2 refused requests"));
        let dead = Ending::of(&tape(Some(EndKind::OutOfMemory), &[&records]));
        assert_eq!(
            (dead.handled_refusals, dead.refusal.unwrap().record),
            (1, 1),
            "tape knows more"
        );
    }

    #[test]
    fn one_dead_device_is_the_end_of_the_run() {
        let ending = Ending::of(&tape(
            None,
            &[&[alloc(1, 5)], &[alloc(1, 900), oom(200)], &[oom(1), alloc(1, 9)]],
        ));
        assert_eq!((ending.kind, ending.handled_refusals), (Kind::OutOfMemory, 1));
        assert_eq!(ending.refusal.unwrap().device, 1);
    }

    #[test]
    fn every_cut_has_its_own_reason_and_a_complete_run_has_none() {
        let records = [alloc(1, 5)];
        let of = |end| Ending::of(&tape(end, &[&records]));
        for (end, reason) in [
            (EndKind::OutOfMemory, "died out of memory"),
            (EndKind::Exception, "an exception"),
            (EndKind::Signal, "a signal"),
            (EndKind::TapeFailed, "the tape ended before the run"),
        ] {
            let sentence = of(Some(end)).at_least().expect("a lower bound");
            assert!(sentence.contains(reason), "{sentence}");
        }
        for end in
            [None, Some(EndKind::Exit), Some(EndKind::RecordingStopped), Some(EndKind::Unknown)]
        {
            assert_eq!(of(end).at_least(), None, "{end:?}");
        }
    }

    #[test]
    fn a_tape_is_cut_where_it_is_not_finished_or_made_of_a_dead_ring() {
        let mut cut = tape(None, &[&[alloc(1, 5)]]);
        cut.recovery.finished = false;
        assert_eq!(Ending::of(&cut).kind, Kind::Killed);
        cut.recovery.torn = Some(Torn { offset_bytes: 64, lost_bytes: 3, lost: None });
        assert!(Ending::of(&cut).is_torn);
        let mut of_ring = tape(None, &[&[alloc(1, 5)]]);
        of_ring.meta.end = Some(ProgramEnd { kind: EndKind::Killed, ..ProgramEnd::default() });
        assert_eq!(Ending::of(&of_ring).kind, Kind::Killed);
        assert_eq!(Ending::of(&of_ring).to_string(), "killed");
        let mut imported = tape(None, &[&[alloc(1, 5)]]);
        imported.meta.source = Source::Imported;
        assert_eq!(Ending::of(&imported).kind, Kind::Unknown);
        assert!(!Ending::of(&imported).is_lower_bound());
    }
}
