//! The sources of the metrics: the rings of all live processes, kept open between two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use allocator::stats::Stats;
use recorder::{RingInfo, RingReader, list_readable_rings};
use trace_format::{BlockStatus, Event, Meta, SegmentState};

use super::family::Label;
use crate::caller;

/// Records that are followed from a copy of the statistics on. A process that records more between two copies is at
/// work, and its next copy is less than a second away.
const FOLLOWED_MAX: u64 = 1 << 18;

/// No device has as many bytes; more is damage, and could not be summed up.
const BYTES_MAX: u64 = 1 << 44;

/// Characters of a label. Processes name themselves and their devices.
const LABEL_CHARS: usize = 128;

/// One device of one process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceReport {
    /// `pid`, `host` and, in a job, `rank`.
    pub(super) process: Vec<Label>,
    /// What the process says about itself besides: version, strategy, `compat`.
    pub(super) program: Vec<Label>,
    /// `gpu` and, where it is known, `UUID`.
    pub(super) device: Vec<Label>,
    /// `None` where nothing is known.
    pub(super) stats: Option<Stats>,
    /// Whether the allocator counts; else the statistics are what lies in its memory now.
    pub(super) is_counted: bool,
    /// The memory of the device.
    pub(super) memory_bytes: Option<u64>,
    pub(super) info: RingInfo,
}

/// The rings in a folder.
pub(super) struct RingTable {
    folder: PathBuf,
    rings: BTreeMap<PathBuf, Ring>,
    /// Rings that could not be opened at the last look.
    unreadable: BTreeSet<PathBuf>,
}

struct Ring {
    reader: RingReader,
    /// `None` until the process has written it.
    meta: Option<Meta>,
}

impl RingTable {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, rings: BTreeMap::new(), unreadable: BTreeSet::new() }
    }

    /// Every device that a live process uses, now.
    pub(super) fn devices(&mut self) -> Vec<DeviceReport> {
        self.look();
        let mut reports: Vec<_> = self.rings.values_mut().filter_map(Ring::report).collect();
        distinguish(&mut reports);
        reports
    }

    /// Opens new rings, and closes those of processes that have ended.
    fn look(&mut self) {
        let found = list_readable_rings(&self.folder).unwrap_or_else(|error| {
            caller::warn(&format!("cannot read {}: {error}", self.folder.display()));
            Vec::new()
        });
        self.rings.retain(|_, ring| ring.is_live());
        let mut unreadable = BTreeSet::new();
        for path in found {
            if self.rings.contains_key(&path) {
                continue;
            }
            match RingReader::open_readable(&path) {
                Ok(reader) => {
                    let ring = Ring { reader, meta: None };
                    if ring.is_live() {
                        self.rings.insert(path, ring);
                    }
                }
                // The first time it may be in the making, or going.
                Err(error) if self.unreadable.contains(&path) && exists(&path) => {
                    caller::warn(&error.to_string());
                    unreadable.insert(path);
                }
                Err(_) => drop(unreadable.insert(path)),
            }
        }
        self.unreadable = unreadable;
    }
}

impl Ring {
    fn is_live(&self) -> bool {
        self.reader.is_live() && !self.reader.is_removed() && self.reader.check().is_ok()
    }

    /// `None` while the process is still making it, and where it cannot be read any more.
    fn report(&mut self) -> Option<DeviceReport> {
        if self.meta.is_none() {
            self.meta = self.reader.description();
        }
        let info = self.reader.info();
        let counted = self.counted(&info);
        let is_counted = counted.is_some();
        let stats = counted.or_else(|| in_memory(&mut self.reader));
        self.reader.check().ok()?;
        let meta = self.meta.as_ref()?;
        let label = |name, value: &str| (name, value.chars().take(LABEL_CHARS).collect::<String>());
        let known = |name, value: Option<&str>| value.map(|value| label(name, value));
        let device = meta.devices.first();
        let process = [
            Some(label("pid", &info.pid.to_string())),
            known("host", meta.hostname.as_deref()),
            meta.rank.map(|rank| label("rank", &rank.to_string())),
        ];
        let program = [
            known("version", meta.producer.strip_prefix("vramtape ")),
            known("strategy", meta.strategy.as_deref()),
            known("compat", meta.compat.as_deref()),
        ];
        let gpu = [
            Some(label("gpu", &info.device.0.to_string())),
            known("UUID", device.and_then(|device| device.uuid.as_deref())),
        ];
        Some(DeviceReport {
            process: process.into_iter().flatten().collect(),
            program: program.into_iter().flatten().collect(),
            device: gpu.into_iter().flatten().collect(),
            stats,
            is_counted,
            memory_bytes: device.and_then(|device| device.total_bytes),
            info,
        })
    }

    /// The newest copy of the statistics, and what was recorded since.
    fn counted(&mut self, info: &RingInfo) -> Option<Stats> {
        let (values, next) = self.reader.statistics()?;
        let copied = Stats::from_values(&values);
        let is_plausible = values.iter().all(|value| (*value as i64).unsigned_abs() < 1 << 62);
        if !is_plausible || info.written.saturating_sub(next) > FOLLOWED_MAX {
            return Some(copied);
        }
        let (mut stats, mut is_whole) = (copied.clone(), true);
        self.reader.seek(next);
        let lost = self.reader.poll(|record| {
            is_whole &= bytes_of(&record.event) <= BYTES_MAX;
            if is_whole {
                stats.follow(&record.event);
            }
        });
        Some(if lost == 0 && is_whole { stats } else { copied })
    }
}

/// Distinguishes processes that have the same name for themselves and the same device: of two containers, each may
/// have a process 1. Their beginnings differ.
fn distinguish(reports: &mut [DeviceReport]) {
    let mut seen = BTreeSet::new();
    for report in reports {
        if !seen.insert((report.process.clone(), report.device.clone())) {
            let started = report.info.process_start_ticks;
            for (_, pid) in report.process.iter_mut().filter(|(name, _)| *name == "pid") {
                *pid = format!("{pid}-{started}");
            }
        }
    }
}

/// The memory by the ring's tables, for an allocator that counts nothing. `None` where they cannot be read.
fn in_memory(reader: &mut RingReader) -> Option<Stats> {
    if !reader.is_own() || !reader.info().is_complete() {
        return None;
    }
    let mut stats = Stats::default();
    reader.base_state().ok()?.0.segments.iter().for_each(|segment| add(&mut stats, segment));
    Some(stats)
}

fn add(stats: &mut Stats, segment: &SegmentState) {
    let is_small = !segment.is_large;
    stats.reserved_bytes.increase(is_small, segment.size_bytes as i64);
    if !segment.is_expandable {
        stats.segment.increase(is_small, 1);
    }
    for block in &segment.blocks {
        let (size, requested) = (block.size_bytes as i64, block.requested_bytes as i64);
        if block.status == BlockStatus::Allocated {
            stats.allocation.increase(is_small, 1);
            stats.allocated_bytes.increase(is_small, size);
        }
        if block.status != BlockStatus::Inactive {
            stats.active.increase(is_small, 1);
            stats.active_bytes.increase(is_small, size);
            stats.requested_bytes.increase(is_small, requested);
        } else if !segment.is_expandable && block.size_bytes < segment.size_bytes {
            stats.inactive_split.increase(is_small, 1);
            stats.inactive_split_bytes.increase(is_small, size);
        }
    }
}

/// The largest size in an event of memory.
fn bytes_of(event: &Event) -> u64 {
    match *event {
        Event::Alloc { size_bytes, requested_bytes, .. }
        | Event::Free { size_bytes, requested_bytes, .. }
        | Event::FreeCompleted { size_bytes, requested_bytes, .. } => {
            size_bytes.max(requested_bytes)
        }
        Event::SegmentAlloc { size_bytes, .. }
        | Event::SegmentFree { size_bytes, .. }
        | Event::SegmentMap { size_bytes, .. }
        | Event::SegmentUnmap { size_bytes, .. } => size_bytes,
        _ => 0,
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use allocator::heap::{Heap, PoolChoice, Request};
    use recorder::{AnyRecorder, RingOptions, RingRecorder, SystemClock};
    use settings::Config;
    use sim_device::{SimConfig, SimDevice};
    use tempfile::tempdir;
    use trace_format::{DeviceId, StackId, Stream};

    use super::super::render;
    use super::*;

    /// The ring of this process, which holds some memory.
    fn ring() -> (PathBuf, Vec<u8>) {
        let dir = tempdir().expect("a folder");
        let options = RingOptions {
            dir: dir.path().to_owned(),
            device: DeviceId(1),
            slots: 1 << 10,
            has_pages: false,
        };
        let recorder = RingRecorder::new(&options, SystemClock::new()).expect("a ring");
        recorder.ring().describe(&Meta::default());
        let path = recorder.ring().path().expect("it is a file");
        let device = SimDevice::new(SimConfig::with_capacity(1 << 30));
        let mut heap = Heap::new(device, Config::default(), AnyRecorder::Ring(recorder));
        let heap = heap.as_mut().expect("a device");
        for at in 0..200 {
            let (stream, pool, stack) = (Stream(at % 3), PoolChoice::ByScope, StackId::NONE);
            let request = Request { requested_bytes: 1000 << (at % 12), stream, pool, stack };
            let addr = heap.malloc(&request).expect("memory");
            if at % 2 == 0 {
                heap.free(addr, StackId::NONE).expect("it is held");
            }
        }
        let bytes = fs::read(&path).expect("it can be read");
        (PathBuf::from(path.file_name().expect("a name")), bytes)
    }

    /// A generator that gives the same numbers everywhere (xorshift64).
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Root's exporter reads the rings of other users, who can write anything into them.
    #[test]
    fn rings_with_any_content_are_served_or_left_out() {
        let (name, whole) = ring();
        let dir = tempdir().expect("a folder");
        let path = dir.path().join(name);
        let header_words = 512.min(whole.len() / 8);
        let (mut served, mut left_out) = (0, 0);
        for seed in 1..=400_u64 {
            let mut dice = seed;
            let mut bytes = whole.clone();
            for _ in 0..=next(&mut dice) % 4 {
                let words =
                    if next(&mut dice).is_multiple_of(2) { header_words } else { bytes.len() / 8 };
                let at = next(&mut dice) as usize % words * 8;
                let old = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
                let random = next(&mut dice);
                let values =
                    [0, 1, u64::MAX, i64::MAX as u64, 1 << 44, random, old ^ 1 << (random % 64)];
                let new = values[next(&mut dice) as usize % values.len()];
                bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
            }
            fs::write(&path, &bytes).expect("it can be written");
            let owner = File::open(&path).expect("it is there");
            owner.lock().expect("a ring without a lock is of a dead process");
            let mut table = RingTable::new(dir.path().to_owned());
            for _ in 0..2 {
                let reports = table.devices();
                *if reports.is_empty() { &mut left_out } else { &mut served } += 1;
                let text = render::text(&render::families(&reports));
                assert!(!text.contains("NaN") && !text.contains("Inf"), "seed {seed}: {text}");
            }
        }
        assert!(served > 100 && left_out > 10, "served {served}, left out {left_out}");
    }
}
