//! A run as a profile for the Firefox Profiler (<https://profiler.firefox.com>), in its processed format.
//!
//! Each device is a process with one thread. Counters have the allocated and the reserved bytes; allocation samples
//! have each block with the stack that allocated it, once more with negative bytes when it is freed.

mod markers;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CounterHandle, Frame, FrameFlags, FrameInfo, Marker,
    MarkerHandle, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval,
    StackHandle, ThreadHandle, Timestamp,
};
use hashbrown::HashMap;
use trace_format::{
    Addr, BlockStatus, Commit, Event, Record, StackId, State, StateError, StringId,
};

use self::markers::{Moment, OutOfMemory, Span};
use super::clock::Clock;
use super::spans::{SpanChange, SpanRow};
use super::{ExportError, NO_STACK};
use crate::holders::HolderFrame;
use crate::snapshot::Stacks;
use crate::tape::Device;

/// The profiler connects the samples of a counter by lines. A value is repeated before a change this long after it.
const HELD_NS: u64 = 1_000_000;

/// Writes the devices to `path`, where the file appears when it is complete; compressed if its name ends in `.gz`.
///
/// # Errors
/// When the file cannot be written, or a record contradicts those before it.
pub fn write_firefox(
    path: &Path,
    name: &str,
    stacks: &Stacks,
    devices: &[&Device],
) -> Result<(), ExportError> {
    let write = || -> io::Result<()> {
        let profile = profile(name, stacks, devices)?;
        let (out, commit) = Commit::begin(path)?;
        let mut out = BufWriter::new(out);
        if path.extension().is_some_and(|extension| extension == "gz") {
            let mut gzip = BufWriter::new(GzEncoder::new(&mut out, Compression::default()));
            serde_json::to_writer(&mut gzip, &profile)?;
            gzip.into_inner()?.finish()?;
        } else {
            serde_json::to_writer(&mut out, &profile)?;
        }
        out.flush()?;
        drop(out);
        commit.finish()
    };
    write().map_err(|source| ExportError { path: path.to_owned(), source })
}

fn profile(name: &str, stacks: &Stacks, devices: &[&Device]) -> io::Result<Profile> {
    let start_ns = devices.iter().map(|device| Clock::new(device).now_ns).min().unwrap_or(0);
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(start_ns as f64 / 1e6);
    let mut profile = Profile::new(name, start, SamplingInterval::from_millis(1));
    // Frames are texts: there are no symbols to look up.
    profile.set_symbolicated(true);
    let categories = Categories {
        own_code: profile.add_category("own code", CategoryColor::Blue),
        library: profile.add_category("libraries", CategoryColor::DarkGray),
        oom: profile.add_category("out of memory", CategoryColor::Red),
    };
    for device in devices {
        DeviceProfile::new(&mut profile, categories, stacks, device, (name, start_ns)).fill()?;
    }
    Ok(profile)
}

#[derive(Clone, Copy)]
struct Categories {
    own_code: CategoryHandle,
    library: CategoryHandle,
    oom: CategoryHandle,
}

/// A span that has begun.
struct OpenSpan {
    name: StringId,
    begin: Timestamp,
    allocated_bytes: u64,
}

/// A counter, and its newest sample.
struct Counted {
    counter: CounterHandle,
    bytes: u64,
    time_ns: u64,
}

/// One device in the profile.
struct DeviceProfile<'p> {
    profile: &'p mut Profile,
    categories: Categories,
    stacks: &'p Stacks,
    device: &'p Device,
    process: ProcessHandle,
    thread: ThreadHandle,
    counters: [Counted; 2],
    known: HashMap<StackId, Option<StackHandle>>,
    /// The stack that allocated each live block, and its size.
    live: HashMap<Addr, (StackId, u64)>,
    open: HashMap<SpanRow, Vec<OpenSpan>>,
    clock: Clock,
    /// Of the profile.
    start_ns: u64,
}

impl<'p> DeviceProfile<'p> {
    fn new(
        profile: &'p mut Profile,
        categories: Categories,
        stacks: &'p Stacks,
        device: &'p Device,
        (name, start_ns): (&str, u64),
    ) -> Self {
        let clock = Clock::new(device);
        let begin = Timestamp::from_nanos_since_reference(clock.now_ns - start_ns);
        let (title, number) = (format!("{name}, device {}", device.id), u32::from(device.id.0) + 1);
        let process = profile.add_process(&title, number, begin);
        let thread = profile.add_thread(process, number, begin, true);
        let counters = [
            ("allocated", "Bytes of the blocks that the program holds"),
            ("reserved", "Bytes that the allocator holds of the device"),
        ];
        let time_ns = clock.now_ns;
        let counters = counters.map(|(name, description)| {
            let counter = profile.add_counter(process, name, "Memory", description);
            profile.add_counter_sample(counter, begin, 0.0, 0);
            Counted { counter, bytes: 0, time_ns }
        });
        let (known, live, open) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self {
            profile,
            categories,
            stacks,
            device,
            process,
            thread,
            counters,
            known,
            live,
            open,
            clock,
            start_ns,
        }
    }

    fn fill(mut self) -> io::Result<()> {
        let invalid = |error: StateError| io::Error::new(io::ErrorKind::InvalidData, error);
        let device = self.device;
        let mut state = State::from_base(&device.base).map_err(invalid)?;
        for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
            if block.status == BlockStatus::Allocated {
                self.allocated(block.addr, block.stack, block.size_bytes);
            }
        }
        self.count(&state);
        for (at, record) in device.records.iter().enumerate() {
            state.apply(record).map_err(invalid)?;
            self.clock.go_to(at, record);
            self.count(&state);
            self.record(record, &state);
        }
        let open: Vec<_> = self.open.iter().map(|(row, spans)| (*row, spans.len())).collect();
        for (row, spans) in open {
            (0..spans).for_each(|_| self.end(row, &state));
        }
        // The last value is drawn up to the end.
        let now_ns = self.clock.now_ns;
        for counted in &mut self.counters {
            let end = Timestamp::from_nanos_since_reference(now_ns - self.start_ns);
            self.profile.add_counter_sample(counted.counter, end, 0.0, 0);
        }
        let end = self.now();
        self.profile.set_process_end_time(self.process, end);
        self.profile.set_thread_end_time(self.thread, end);
        Ok(())
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos_since_reference(self.clock.now_ns - self.start_ns)
    }

    fn count(&mut self, state: &State) {
        let now_ns = self.clock.now_ns;
        let at = |time_ns| Timestamp::from_nanos_since_reference(time_ns - self.start_ns);
        let bytes = [state.allocated_bytes(), state.reserved_bytes()];
        for (counted, bytes) in self.counters.iter_mut().zip(bytes) {
            if bytes == counted.bytes {
                continue;
            }
            if now_ns - counted.time_ns > HELD_NS {
                self.profile.add_counter_sample(counted.counter, at(now_ns - 1), 0.0, 0);
            }
            let delta = bytes.cast_signed() - counted.bytes.cast_signed();
            self.profile.add_counter_sample(counted.counter, at(now_ns), delta as f64, 1);
            (counted.bytes, counted.time_ns) = (bytes, now_ns);
        }
    }

    fn record(&mut self, record: &Record, state: &State) {
        match record.event {
            Event::Alloc { addr, size_bytes, .. } => {
                self.allocated(addr, record.stack, size_bytes);
            }
            Event::Free { addr, .. } => {
                if let Some((stack, size_bytes)) = self.live.remove(&addr) {
                    self.sample(addr, stack, -size_bytes.cast_signed());
                }
            }
            Event::Mark { kind, name } => {
                for change in SpanChange::of(kind, name, record.thread) {
                    match change {
                        SpanChange::Begin(row, name) => self.begin(row, name, state),
                        SpanChange::End(row) => self.end(row, state),
                        SpanChange::Instant(name) => self.moment("Mark", self.stacks.text(name)),
                    }
                }
            }
            Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool } => {
                let [stream, pool] = [stream.to_string(), pool.to_string()];
                let [stream, pool] = [stream, pool].map(|it| self.profile.intern_string(&it));
                let category = self.categories.oom;
                let [allocated, reserved] = [state.allocated_bytes(), state.reserved_bytes()];
                let bytes = [requested_bytes, size_bytes, device_free_bytes, allocated, reserved];
                let marker = self.marker(OutOfMemory { category, stream, pool, bytes });
                let stack = self.stack(record.stack);
                self.profile.set_marker_stack(self.thread, marker, stack);
            }
            Event::Snapshot { .. } => self.moment("Snapshot", ""),
            Event::Lost { count } => self.moment("Records lost", &count.to_string()),
            _ => {}
        }
    }

    fn allocated(&mut self, addr: Addr, stack: StackId, size_bytes: u64) {
        self.live.insert(addr, (stack, size_bytes));
        self.sample(addr, stack, size_bytes.cast_signed());
    }

    fn sample(&mut self, addr: Addr, stack: StackId, bytes: i64) {
        let (stack, now) = (self.stack(stack), self.now());
        self.profile.add_allocation_sample(self.thread, now, stack, addr.0, bytes);
    }

    fn stack(&mut self, id: StackId) -> Option<StackHandle> {
        if let Some(stack) = self.known.get(&id) {
            return *stack;
        }
        let frames = HolderFrame::of(self.stacks, self.stacks.frames_of(id));
        let mut texts: Vec<_> = frames.iter().rev().map(|it| (label(it), it.is_user())).collect();
        if texts.is_empty() {
            texts.push((NO_STACK.to_owned(), false));
        }
        let Categories { own_code, library, .. } = self.categories;
        let infos = texts.into_iter().map(|(text, is_user)| FrameInfo {
            frame: Frame::Label(self.profile.intern_string(&text)),
            category_pair: if is_user { own_code.into() } else { library.into() },
            flags: FrameFlags::empty(),
        });
        let infos: Vec<_> = infos.collect();
        let stack = self.profile.intern_stack_frames(self.thread, infos.into_iter());
        self.known.insert(id, stack);
        stack
    }

    fn begin(&mut self, row: SpanRow, name: StringId, state: &State) {
        let span = OpenSpan { name, begin: self.now(), allocated_bytes: state.allocated_bytes() };
        self.open.entry(row).or_default().push(span);
    }

    fn end(&mut self, row: SpanRow, state: &State) {
        let Some(span) = self.open.get_mut(&row).and_then(Vec::pop) else { return };
        let kind = match row {
            SpanRow::Steps => "Step".to_owned(),
            SpanRow::Phases => "Phase".to_owned(),
            SpanRow::Ranges => "Range".to_owned(),
            SpanRow::Modules(thread) => format!("Module, thread {}", thread.0),
        };
        let title = self.profile.intern_string(row.text(self.stacks, span.name));
        let row = self.profile.intern_string(&kind);
        let allocated_bytes = [span.allocated_bytes, state.allocated_bytes()];
        let timing = MarkerTiming::Interval(span.begin, self.now());
        self.profile.add_marker(self.thread, timing, Span { row, title, allocated_bytes });
    }

    fn moment(&mut self, kind: &str, title: &str) {
        let [kind, title] = [kind, title].map(|text| self.profile.intern_string(text));
        self.marker(Moment { kind, title });
    }

    fn marker(&mut self, marker: impl Marker) -> MarkerHandle {
        self.profile.add_marker(self.thread, MarkerTiming::Instant(self.now()), marker)
    }
}

/// `attention (model.py:41)`. The file's whole path: the profiler has no other place for it.
fn label(frame: &HolderFrame) -> String {
    match (frame.function.as_str(), frame.file.as_str(), frame.line) {
        (function, "", _) => function.to_owned(),
        (function, file, 0) => format!("{function} ({file})"),
        (function, file, line) => format!("{function} ({file}:{line})"),
    }
}
