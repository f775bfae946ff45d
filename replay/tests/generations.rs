//! Snapshots of every generation of PyTorch tell the same run.
//!
//! The files are written by `tests/python/snapshot/generations.py`, which names the source of each layout.

use std::path::{Path, PathBuf};

use replay::driver::Follow;
use replay::import::RunLimits;
use replay::run::{Addresses, DeviceTape, Options, run};
use replay::strategy::Choice;
use replay::tape::{Device, Tape};
use settings::Config;
use trace_format::{Event, MarkKind, State};

const MIB: u64 = 1 << 20;
/// The run's peaks: blocks of 512, 1024 and 4 MiB in segments of 2 and 20 MiB.
const PEAK_ALLOCATED: u64 = 4 * MIB + 1536;
const PEAK_RESERVED: u64 = 22 * MIB;

fn open(name: &str) -> Tape {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/snapshots");
    let path: PathBuf = folder.join(name);
    Tape::open(&path, &RunLimits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The most that a device's own records hold, allocated and reserved.
fn peaks(device: &Device) -> (u64, u64) {
    let mut state = State::from_base(&device.base).unwrap();
    let mut peaks = (state.allocated_bytes(), state.reserved_bytes());
    for record in &device.records {
        state.apply(record).unwrap();
        peaks.0 = peaks.0.max(state.allocated_bytes());
        peaks.1 = peaks.1.max(state.reserved_bytes());
    }
    peaks
}

fn replayed(tape: &Tape, device: &Device) -> u64 {
    let config = Config::parse(&tape.meta.alloc_conf, tape.compat()).unwrap().config;
    let options = Options {
        strategy: Choice::Native(config),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Recorded,
        follow: Follow::default(),
    };
    let text = |id| tape.text(id);
    let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
    run(device, &options, &mut |_| {}).unwrap().peak_reserved_bytes
}

fn count(device: &Device, is: impl Fn(&Event) -> bool) -> usize {
    device.records.iter().filter(|record| is(&record.event)).count()
}

fn says(tape: &Tape, what: &str) {
    let inferred = &tape.meta.inferred;
    assert!(inferred.iter().any(|note| note.contains(what)), "{what:?} in {inferred:#?}");
}

#[test]
fn every_generation_gives_the_same_run() {
    for name in [
        "2.0-history.pickle",
        "2.1-frames.pickle",
        "2.2-cpp.pickle",
        "2.4-user_defined.pickle",
        "2.7-two-devices.pickle",
        "2.7-two-devices.json",
        "2.9-expandable.pickle",
        "2.15-pools.pickle",
    ] {
        let tape = open(name);
        let device = &tape.devices[0];
        assert_eq!(peaks(device), (PEAK_ALLOCATED, PEAK_RESERVED), "{name}");
        assert_eq!(replayed(&tape, device), PEAK_RESERVED, "{name}");
        assert!(device.base.segments.is_empty(), "{name}: it is recorded from its start");
        let emptied = |event: &Event| matches!(event, Event::EmptyCache { inferred: true, .. });
        assert!(count(device, emptied) > 0, "{name}");
        says(&tape, "--no-empty-cache leaves them out");
        says(&tape, "--compat changes it");
        let alloc = device.records.iter().find(|r| matches!(r.event, Event::Alloc { .. })).unwrap();
        let frames: Vec<_> = tape.stacks.frames_of(alloc.stack).collect();
        assert_eq!((tape.text(frames[0].name), frames[1].line), ("forward", 31), "{name}");
    }
}

#[test]
fn fields_missing_from_a_generation_are_reported() {
    let segments = open("1.13-segments.pickle");
    assert_eq!(peaks(&segments.devices[0]), (1536, 2 * MIB));
    says(&segments, "holds no events");
    says(&segments, "holds no settings");
    says(&open("2.0-history.pickle"), "holds no settings");
    says(&open("2.1-frames.pickle"), "name no pool");
    // The first six events are gone: the large segment was given back, and is known from its blocks all the same.
    let overflow = open("2.8-overflow.pickle");
    assert_eq!(peaks(&overflow.devices[0]), (PEAK_ALLOCATED, PEAK_RESERVED));
    says(&overflow, "begins mid-run");
}

#[test]
fn marks_are_kept_however_they_were_written() {
    let named = |tape: &Tape, kind: MarkKind| {
        let mark = tape.devices[0].records.iter().find_map(|record| match record.event {
            Event::Mark { kind: found, name } if found == kind => Some(name),
            _ => None,
        });
        mark.map(|name| tape.text(name).to_owned())
    };
    let user = open("2.4-user_defined.pickle");
    assert_eq!(named(&user, MarkKind::Instant).as_deref(), Some("forward"));
    let ranges = open("2.7-two-devices.pickle");
    assert_eq!(named(&ranges, MarkKind::RangeBegin).as_deref(), Some("Optimizer.step#SGD.step"));
    assert_eq!(named(&ranges, MarkKind::RangeEnd).as_deref(), Some("Optimizer.step#SGD.step"));
    let annotated = open("2.15-pools.pickle");
    assert_eq!(named(&annotated, MarkKind::Instant).as_deref(), Some("weights of layer 1"));
    says(&annotated, "PyTorch's own (internal_metadata)");
}

#[test]
fn devices_pools_and_pages_are_distinguished() {
    let two = open("2.7-two-devices.pickle");
    assert_eq!(two.devices.iter().map(|device| device.id.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(peaks(&two.devices[1]), (512, 2 * MIB));
    assert_eq!(count(&two.devices[1], |event| matches!(event, Event::Oom { .. })), 1);
    // The pool's only segment is freed before the end: only its events show it.
    let pools = open("2.15-pools.pickle");
    let private = |event: &Event| matches!(event, Event::Alloc { pool, .. } if !pool.is_default());
    assert_eq!(count(&pools.devices[0], private), 1);
    let pages = open("2.9-expandable.pickle");
    assert_eq!(count(&pages.devices[0], |event| matches!(event, Event::SegmentMap { .. })), 2);
    says(&pages, "1 events of kinds that are not known here, such as \"teleport\"");
}
