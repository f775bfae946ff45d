//! One device followed: its memory, how fast it changes, and what happened last.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use recorder::{Followed, RingError, RingFollower, RingReader};
use trace_format::{BlockStatus, Event, HostReading, MarkKind, Record, State};

use super::frame::{DeviceFrame, EventFrame};
use super::held::{pools, stacks};
use crate::bytes::show;

/// A screen shows as many as fit.
const LAST_EVENTS: usize = 16;
/// Every moment that a program marks is followed by the statistics of pinned host memory, if it has any.
const MOMENTS: usize = 8;

/// A device that is followed.
pub(super) struct Device {
    follower: RingFollower,
    memory: Memory,
    is_known: bool,
    lost: u64,
    rate: Rate,
}

/// The memory as the records describe it.
#[derive(Default)]
struct Memory {
    state: State,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    records: u64,
    last_events: VecDeque<EventFrame>,
    step: Option<trace_format::StringId>,
    /// The names of the newest moments, oldest first: one may have the statistics of pinned host memory.
    moments: VecDeque<trace_format::StringId>,
    host: Option<HostReading>,
}

/// Records in a second, from one frame to the next.
struct Rate {
    since: Instant,
    records: u64,
}

impl Device {
    /// Begins to follow a ring. The records still in it give the last events.
    pub(super) fn open(path: &Path) -> Result<Self, RingError> {
        let mut follower = RingFollower::open(path)?;
        let mut memory = Memory::default();
        follower.reader().poll(|record| memory.remember(&record));
        let rate = Rate { since: Instant::now(), records: 0 };
        Ok(Self { follower, memory, is_known: false, lost: 0, rate })
    }

    /// Takes in what was recorded since the last call.
    pub(super) fn poll(&mut self) {
        let Self { follower, memory, is_known, lost, .. } = self;
        let polled = follower.poll(|followed| {
            match followed {
                Followed::State(base, _) => {
                    if let Ok(state) = State::from_base(&base) {
                        (memory.state, *is_known) = (state, true);
                        memory.note_peaks();
                    }
                }
                Followed::Record(record) => memory.take(&record),
                Followed::Lost(count) => {
                    *lost += count;
                    memory.records += count;
                }
            }
            Ok::<(), RingError>(())
        });
        // The ring turned over while its tables were read: the next call tries again.
        self.is_known &= polled.is_ok();
    }

    /// An error if its ring cannot be read any more.
    pub(super) fn check(&mut self) -> Result<(), RingError> {
        self.follower.reader().check()
    }

    /// Whether its process lives.
    pub(super) fn is_live(&self) -> bool {
        self.follower.is_live()
    }

    /// The frame to show.
    pub(super) fn frame(&mut self) -> DeviceFrame {
        let events_per_second = self.rate.next(self.memory.records);
        let segments = if self.is_known { self.memory.state.segments() } else { Vec::new() };
        let reader = self.follower.reader();
        let info = reader.info();
        let (name, limit_bytes) = described(reader);
        let state = &self.memory.state;
        let pools = pools(&segments);
        let moments = std::mem::take(&mut self.memory.moments);
        let read = |name| reader.string(name).and_then(HostReading::of_mark);
        self.memory.host = moments.into_iter().rev().find_map(read).or(self.memory.host);
        let mut frame = DeviceFrame {
            host_memory: self.memory.host,
            device: info.device.0,
            name,
            is_known: self.is_known,
            limit_bytes,
            events_per_second,
            lost: self.lost,
            lost_by_tape: info.lost_by_tape,
            missing_blocks: info.missing_blocks,
            missing_segments: info.missing_segments,
            missing_pools: info.missing_pools,
            step: self.memory.step.and_then(|name| reader.string(name).map(str::to_owned)),
            last_events: self.memory.last_events.iter().cloned().collect(),
            ..DeviceFrame::default()
        };
        if self.is_known {
            frame.reserved_bytes = state.reserved_bytes();
            frame.allocated_bytes = state.allocated_bytes();
            frame.active_bytes = state.active_bytes();
            frame.waste_bytes = frame.reserved_bytes - frame.active_bytes;
            frame.largest_free_bytes =
                pools.iter().map(|pool| pool.largest_free_bytes).max().unwrap_or(0);
            frame.to_oom_bytes =
                limit_bytes.map(|limit| limit.saturating_sub(frame.reserved_bytes));
            frame.peak_allocated_bytes = self.memory.peak_allocated_bytes;
            frame.peak_reserved_bytes = self.memory.peak_reserved_bytes;
            let blocks = segments.iter().flat_map(|segment| &segment.blocks);
            frame.live_blocks =
                blocks.filter(|block| block.status == BlockStatus::Allocated).count() as u64;
            frame.pools = pools;
            frame.stacks = stacks(&segments, reader);
        }
        frame
    }
}

impl Memory {
    fn take(&mut self, record: &Record) {
        // A record may contradict a state that lacks entries which did not fit the ring; it is counted all the same.
        let _ = self.state.apply(record);
        self.records += 1;
        self.note_peaks();
        self.remember(record);
    }

    fn note_peaks(&mut self) {
        self.peak_allocated_bytes = self.peak_allocated_bytes.max(self.state.allocated_bytes());
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.state.reserved_bytes());
    }

    fn remember(&mut self, record: &Record) {
        match record.event {
            Event::Mark { kind: MarkKind::Step, name } => self.step = Some(name),
            Event::Mark { kind: MarkKind::Instant, name } => {
                if self.moments.len() == MOMENTS {
                    self.moments.pop_front();
                }
                self.moments.push_back(name);
            }
            _ => {}
        }
        let Some(what) = describe(&record.event) else { return };
        if self.last_events.len() == LAST_EVENTS {
            self.last_events.pop_front();
        }
        self.last_events.push_back(EventFrame { time_ns: record.time_ns, what });
    }
}

impl Rate {
    fn next(&mut self, records: u64) -> f64 {
        let (count, seconds) = (records - self.records, self.since.elapsed().as_secs_f64());
        (self.since, self.records) = (Instant::now(), records);
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}

/// The device's name, and what the process may have of its memory.
fn described(reader: &mut RingReader) -> (String, Option<u64>) {
    let device = reader.meta().and_then(|meta| meta.devices.first());
    let Some(device) = device else { return <_>::default() };
    let fraction = device.memory_fraction.unwrap_or(1.0);
    let limit = device.capacity_bytes.or(device.total_bytes);
    (device.name.clone(), limit.map(|bytes| (bytes as f64 * fraction) as u64))
}

/// A change of segments, or its reason, in words; none for other events.
fn describe(event: &Event) -> Option<String> {
    Some(match *event {
        Event::SegmentAlloc { size_bytes, .. } => {
            format!("segment of {} allocated", show(size_bytes))
        }
        Event::SegmentFree { size_bytes, .. } => format!("segment of {} freed", show(size_bytes)),
        Event::SegmentMap { size_bytes, .. } => format!("{} mapped", show(size_bytes)),
        Event::SegmentUnmap { size_bytes, .. } => format!("{} unmapped", show(size_bytes)),
        Event::DriverRefused { size_bytes } => format!("the device refused {}", show(size_bytes)),
        Event::EmptyCache { .. } => "the cache was emptied".to_owned(),
        Event::Oom { requested_bytes, device_free_bytes, .. } => format!(
            "OUT OF MEMORY: {} asked for, {} free on the device",
            show(requested_bytes),
            show(device_free_bytes)
        ),
        _ => return None,
    })
}
