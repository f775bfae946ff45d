//! Memory over time as a trace for Perfetto (<https://ui.perfetto.dev>), in its protobuf format.
//!
//! A trace is a sequence of packets, written one by one. Each device is a process with tracks: a counter for each kind
//! of bytes, with a sample where it changes; slices for steps, phases, named ranges and module calls; instants for
//! errors of memory, snapshots and lost records.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use hashbrown::HashMap;
use prost::Message;
use trace_format::{Commit, Event, MarkKind, Record, State, StateError, StringId, ThreadId};

use super::ExportError;
use crate::modules;
use crate::snapshot::Stacks;
use crate::tape::Device;

/// Time of a record where the tape has no clock.
const RECORD_NS: u64 = 1000;
const BUFFER_BYTES: usize = 1 << 18;

/// `TracePacket` in `protos/perfetto/trace/trace_packet.proto`; only fields that are written.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// `track_event/track_event.proto`.
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

/// `track_event/track_descriptor.proto`.
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

/// `track_event/process_descriptor.proto`.
#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

/// `track_event/counter_descriptor.proto`.
#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    unit: Option<i32>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
const UNIT_SIZE_BYTES: i32 = 3;

const COUNTERS: [&str; 3] = ["allocated", "active", "reserved"];

/// Tracks of a device besides its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Track {
    Steps,
    Phases,
    Ranges,
    Modules(ThreadId),
    Events,
}

impl Track {
    fn name(self) -> String {
        match self {
            Self::Steps => "steps".to_owned(),
            Self::Phases => "phases".to_owned(),
            Self::Ranges => "ranges".to_owned(),
            Self::Modules(thread) => format!("modules, thread {}", thread.0),
            Self::Events => "events".to_owned(),
        }
    }
}

/// Writes the devices' memory and marks to `path`, where the file appears when it is complete.
///
/// # Errors
/// When the file cannot be written, or a record contradicts those before it.
pub fn write_perfetto(
    path: &Path,
    name: &str,
    stacks: &Stacks,
    devices: &[&Device],
) -> Result<(), ExportError> {
    let write = || -> io::Result<()> {
        let (out, commit) = Commit::begin(path)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        for device in devices {
            Trace::new(&mut out, stacks, device).write(name)?;
        }
        out.flush()?;
        drop(out);
        commit.finish()
    };
    write().map_err(|source| ExportError { path: path.to_owned(), source })
}

/// The packets of one device.
struct Trace<'t, W> {
    out: &'t mut W,
    stacks: &'t Stacks,
    device: &'t Device,
    buffer: Vec<u8>,
    /// The number of the device's first track, its process.
    process: u64,
    tracks: HashMap<Track, u64>,
    /// Open slices of each track, by name.
    open: HashMap<Track, Vec<StringId>>,
    now_ns: u64,
}

impl<'t, W: Write> Trace<'t, W> {
    fn new(out: &'t mut W, stacks: &'t Stacks, device: &'t Device) -> Self {
        let process = (u64::from(device.id.0) + 1) << 32;
        let (tracks, open) = (HashMap::new(), HashMap::new());
        Self { out, stacks, device, buffer: Vec::new(), process, tracks, open, now_ns: 0 }
    }

    fn write(mut self, name: &str) -> io::Result<()> {
        self.describe(name)?;
        let invalid = |error: StateError| io::Error::new(io::ErrorKind::InvalidData, error);
        let device = self.device;
        let mut state = State::from_segments(&device.base.segments).map_err(invalid)?;
        let has_clock = device.records.iter().any(|record| record.time_ns > 0);
        let first_ns = if has_clock { device.base.time_ns } else { 0 };
        self.now_ns = if first_ns > 0 { first_ns } else { self.time(0, has_clock) };
        let mut shown = [u64::MAX; COUNTERS.len()];
        self.count(&state, &mut shown)?;
        for (at, record) in device.records.iter().enumerate() {
            state.apply(record).map_err(invalid)?;
            // A clock that goes back stands still.
            self.now_ns = self.now_ns.max(self.time(at, has_clock));
            self.count(&state, &mut shown)?;
            self.mark(record)?;
        }
        let open: Vec<_> = self.open.iter().map(|(track, names)| (*track, names.len())).collect();
        for (track, slices) in open {
            for _ in 0..slices {
                self.end(track)?;
            }
        }
        Ok(())
    }

    fn time(&self, record: usize, has_clock: bool) -> u64 {
        match self.device.records.get(record) {
            Some(record) if has_clock => record.time_ns,
            _ => record as u64 * RECORD_NS,
        }
    }

    fn describe(&mut self, name: &str) -> io::Result<()> {
        let pid = Some(i32::from(self.device.id.0) + 1);
        let process_name = Some(format!("{name}, device {}", self.device.id));
        let process = Some(ProcessDescriptor { pid, process_name });
        let uuid = Some(self.process);
        self.descriptor(TrackDescriptor { uuid, process, ..TrackDescriptor::default() })?;
        for (place, name) in (1..).zip(COUNTERS) {
            let counter = Some(CounterDescriptor { unit: Some(UNIT_SIZE_BYTES) });
            self.track(self.process + place, name.to_owned(), counter)?;
        }
        Ok(())
    }

    fn track(
        &mut self,
        uuid: u64,
        name: String,
        counter: Option<CounterDescriptor>,
    ) -> io::Result<()> {
        let (uuid, name, parent_uuid) = (Some(uuid), Some(name), Some(self.process));
        self.descriptor(TrackDescriptor { uuid, name, process: None, parent_uuid, counter })
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) -> io::Result<()> {
        self.packet(Packet { track_descriptor: Some(descriptor), ..Packet::default() })
    }

    fn count(&mut self, state: &State, shown: &mut [u64; COUNTERS.len()]) -> io::Result<()> {
        let bytes = [state.allocated_bytes(), state.active_bytes(), state.reserved_bytes()];
        for (place, (bytes, shown)) in (1..).zip(bytes.into_iter().zip(shown)) {
            if bytes != *shown {
                let value = Some(bytes.cast_signed());
                self.event(COUNTER, self.process + place, None, value)?;
                *shown = bytes;
            }
        }
        Ok(())
    }

    fn mark(&mut self, record: &Record) -> io::Result<()> {
        match record.event {
            Event::Mark { kind, name } => self.named(kind, name, record.thread),
            Event::Oom { requested_bytes, .. } => {
                self.instant(format!("out of memory: {requested_bytes} bytes requested"))
            }
            Event::Snapshot { .. } => self.instant("snapshot".to_owned()),
            Event::Lost { .. } => self.instant("records lost".to_owned()),
            _ => Ok(()),
        }
    }

    fn named(&mut self, kind: MarkKind, name: StringId, thread: ThreadId) -> io::Result<()> {
        match kind {
            MarkKind::Step => {
                // A phase belongs to the step in which it began.
                self.end(Track::Phases)?;
                self.end(Track::Steps)?;
                self.begin(Track::Steps, name)
            }
            MarkKind::Phase => {
                self.end(Track::Phases)?;
                self.begin(Track::Phases, name)
            }
            MarkKind::RangeBegin => self.begin(Track::Ranges, name),
            MarkKind::RangeEnd => self.end(Track::Ranges),
            MarkKind::ModuleBegin => self.begin(Track::Modules(thread), name),
            MarkKind::ModuleEnd => self.end(Track::Modules(thread)),
            MarkKind::Instant => self.instant(self.stacks.text(name).to_owned()),
            MarkKind::ModuleBackward | MarkKind::ModuleOwner => Ok(()),
        }
    }

    fn begin(&mut self, track: Track, name: StringId) -> io::Result<()> {
        let uuid = self.uuid(track)?;
        self.open.entry(track).or_default().push(name);
        let text = match track {
            Track::Modules(_) => modules::label(self.stacks, name),
            _ => self.stacks.text(name),
        };
        self.event(SLICE_BEGIN, uuid, Some(text.to_owned()), None)
    }

    /// Ends the track's innermost slice, if one is open: a tape may begin within slices.
    fn end(&mut self, track: Track) -> io::Result<()> {
        if self.open.entry(track).or_default().pop().is_none() {
            return Ok(());
        }
        let uuid = self.uuid(track)?;
        self.event(SLICE_END, uuid, None, None)
    }

    fn instant(&mut self, name: String) -> io::Result<()> {
        let uuid = self.uuid(Track::Events)?;
        self.event(INSTANT, uuid, Some(name), None)
    }

    /// The number of a track, which is described when it is used first.
    fn uuid(&mut self, track: Track) -> io::Result<u64> {
        if let Some(uuid) = self.tracks.get(&track) {
            return Ok(*uuid);
        }
        let uuid = self.process + (COUNTERS.len() + 1 + self.tracks.len()) as u64;
        self.tracks.insert(track, uuid);
        self.track(uuid, track.name(), None)?;
        Ok(uuid)
    }

    fn event(
        &mut self,
        kind: i32,
        track: u64,
        name: Option<String>,
        counter_value: Option<i64>,
    ) -> io::Result<()> {
        let (kind, track_uuid) = (Some(kind), Some(track));
        let track_event = Some(TrackEvent { kind, track_uuid, name, counter_value });
        let timestamp = Some(self.now_ns);
        self.packet(Packet { timestamp, track_event, ..Packet::default() })
    }

    /// Writes one element of `Trace.packet`, the field 1 of a trace.
    fn packet(&mut self, mut packet: Packet) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(u32::from(self.device.id.0) + 1);
        self.buffer.clear();
        prost::encoding::message::encode(1, &packet, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }
}
