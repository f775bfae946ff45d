//! Memory over time as a trace for Perfetto (<https://ui.perfetto.dev>), in its protobuf format.
//!
//! A trace is a sequence of packets, written one by one. Each device is a process with tracks: a counter for each kind
//! of bytes, with a sample where it changes; slices for steps, phases, named ranges and module calls; instants for
//! errors of memory, snapshots and lost records.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use hashbrown::HashMap;
use prost::Message;
use trace_format::{Commit, Event, Record, State, StateError, StringId};

use super::ExportError;
use super::clock::Clock;
use super::spans::{SpanChange, SpanRow};
use crate::snapshot::Stacks;
use crate::tape::Device;

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
    Spans(SpanRow),
    Events,
}

impl Track {
    fn name(self) -> String {
        match self {
            Self::Spans(SpanRow::Steps) => "steps".to_owned(),
            Self::Spans(SpanRow::Phases) => "phases".to_owned(),
            Self::Spans(SpanRow::Ranges) => "ranges".to_owned(),
            Self::Spans(SpanRow::Modules(thread)) => format!("modules, thread {}", thread.0),
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
    /// How many slices of each row are open.
    open: HashMap<SpanRow, usize>,
    clock: Clock,
}

impl<'t, W: Write> Trace<'t, W> {
    fn new(out: &'t mut W, stacks: &'t Stacks, device: &'t Device) -> Self {
        let process = (u64::from(device.id.0) + 1) << 32;
        let (tracks, open) = (HashMap::new(), HashMap::new());
        let clock = Clock::new(device);
        Self { out, stacks, device, buffer: Vec::new(), process, tracks, open, clock }
    }

    fn write(mut self, name: &str) -> io::Result<()> {
        self.describe(name)?;
        let invalid = |error: StateError| io::Error::new(io::ErrorKind::InvalidData, error);
        let device = self.device;
        let mut state = State::from_base(&device.base).map_err(invalid)?;
        let mut shown = [u64::MAX; COUNTERS.len()];
        self.count(&state, &mut shown)?;
        for (at, record) in device.records.iter().enumerate() {
            state.apply(record).map_err(invalid)?;
            self.clock.go_to(at, record);
            self.count(&state, &mut shown)?;
            self.mark(record)?;
        }
        let open: Vec<_> = self.open.iter().map(|(row, slices)| (*row, *slices)).collect();
        for (row, slices) in open {
            for _ in 0..slices {
                self.end(row)?;
            }
        }
        Ok(())
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
            Event::Mark { kind, name } => {
                SpanChange::of(kind, name, record.thread).try_for_each(|change| match change {
                    SpanChange::Begin(row, name) => self.begin(row, name),
                    SpanChange::End(row) => self.end(row),
                    SpanChange::Instant(name) => self.instant(self.stacks.text(name).to_owned()),
                })
            }
            Event::Oom { requested_bytes, .. } => {
                self.instant(format!("out of memory: {requested_bytes} bytes requested"))
            }
            Event::Snapshot { .. } => self.instant("snapshot".to_owned()),
            Event::Lost { .. } => self.instant("records lost".to_owned()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, row: SpanRow, name: StringId) -> io::Result<()> {
        let uuid = self.uuid(Track::Spans(row))?;
        *self.open.entry(row).or_default() += 1;
        let text = row.text(self.stacks, name).to_owned();
        self.event(SLICE_BEGIN, uuid, Some(text), None)
    }

    fn end(&mut self, row: SpanRow) -> io::Result<()> {
        let open = self.open.entry(row).or_default();
        if *open == 0 {
            return Ok(());
        }
        *open -= 1;
        let uuid = self.uuid(Track::Spans(row))?;
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
        let timestamp = Some(self.clock.now_ns);
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
