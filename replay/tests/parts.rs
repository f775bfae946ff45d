//! A tape with a size limit, read as one run from its newest part, and part by part.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use allocator::heap::{Heap, PoolChoice, Request};
use events::Recorder;
use recorder::{RingOptions, RingRecorder, SystemClock, TapeRecorder, TapeSource, TapeSummary};
use replay::import::RunLimits;
use replay::tape::{Device, Tape};
use settings::Config;
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{
    Addr, DeviceId, DeviceMeta, Event, Frame, MarkKind, Meta, StackId, State, Stream,
};

/// Records with steps that are named until a part was dropped, with at most `max_bytes` on disk.
fn record(path: &Path, max_bytes: u64, is_enough: impl Fn(&Tape) -> bool) -> TapeSummary {
    let folder = path.parent().expect("a folder").to_owned();
    let options =
        RingOptions { dir: folder, device: DeviceId(0), slots: 1 << 16, has_pages: false };
    let recorder = RingRecorder::new(&options, SystemClock::new()).expect("memory for a ring");
    let ring = Arc::clone(recorder.ring());
    let device = SimDevice::new(SimConfig::with_capacity(2 << 30));
    let heap = Heap::new(device, Config::default(), recorder).expect("a simulated device");
    let heap = Arc::new(SharedHeap::new(heap));
    let meta = Meta { pid: Some(7), start_time_ns: Some(1), ..Meta::default() };
    let clock = SystemClock::new();
    let tape = TapeRecorder::start_limited(path, meta, clock, Some(max_bytes)).expect("a tape");
    let (of_base, base_of) = (Arc::clone(&ring), Arc::clone(&heap));
    let base = Box::new(move || {
        let heap = base_of.lock().ok()?;
        Some((heap.base_state(), of_base.sequence()))
    });
    tape.add(TapeSource { ring: Arc::clone(&ring), base, device: DeviceMeta::default() });
    let mut live: Vec<Addr> = Vec::new();
    for step in 0_u64.. {
        let name = ring.intern(&format!("step {step}"));
        let stack = ring.intern_stack(&[Frame { name, filename: name, line: step as u32 }]);
        let mut heap = heap.lock().expect("no call panicked");
        heap.recorder_mut().record(stack, Event::Mark { kind: MarkKind::Step, name });
        for one in 0..50 {
            let requested_bytes = 1 + (step * 7919 + one * 104_729) % 300_000;
            let pool = PoolChoice::ByScope;
            let request = Request { requested_bytes, stream: Stream(0), pool, stack };
            live.push(heap.malloc(&request).expect("memory"));
            if live.len() > 100 {
                let at = (step * 31 + one) as usize % live.len();
                heap.free(live.swap_remove(at), StackId::NONE).expect("a live block");
            }
        }
        drop(heap);
        if step % 100 == 99 {
            assert!(tape.flush());
            if is_enough(&open(path)) {
                break;
            }
        }
    }
    tape.stop().expect("a disk with room")
}

fn open(path: &Path) -> Tape {
    Tape::open(path, &RunLimits::default()).expect("a tape")
}

fn only(tape: &Tape) -> &Device {
    assert_eq!(tape.devices.len(), 1);
    &tape.devices[0]
}

/// Bytes of blocks and of segments after the records, none of which contradicts the state before it.
fn end(tape: &Tape) -> (u64, u64) {
    let device = only(tape);
    let mut state = State::from_base(&device.base).expect("a state");
    device.records.iter().for_each(|record| state.apply(record).expect("no contradiction"));
    (state.allocated_bytes(), state.reserved_bytes())
}

/// The steps with the line of their stack's frame.
fn steps(tape: &Tape) -> Vec<(String, u32)> {
    let marks = only(tape).records.iter().filter_map(|record| match record.event {
        Event::Mark { name, .. } => {
            let frames = tape.stacks.frame_ids_of(record.stack);
            let frame = tape.stacks.frame(*frames.first().expect("a frame"));
            assert_eq!(tape.text(frame.name), tape.text(name));
            Some((tape.text(name).to_owned(), frame.line))
        }
        _ => None,
    });
    marks.collect()
}

#[test]
fn the_newest_part_is_read_with_the_one_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, older) = (folder.path().join("run.vtape"), folder.path().join("run.vtape.1"));
    let summary = record(&path, 1 << 20, |tape| tape.meta.dropped_records > 0);

    // A folder has one run of them.
    let found = replay::ranks::find(&[folder.path().to_owned()]).expect("a folder");
    assert_eq!(found.files, std::slice::from_ref(&path));
    let both = open(&path);
    let alone = open(&older);
    assert_eq!((only(&both).lost, only(&both).left_out, both.meta.part), (0, 0, None));
    let records = only(&both).records.len();
    assert_eq!(both.meta.dropped_records + records as u64, summary.records);
    assert_eq!(only(&both).records[..only(&alone).records.len()], only(&alone).records);
    assert_eq!(only(&both).base, only(&alone).base);
    let steps_of_both = steps(&both);
    let last = steps_of_both.last().expect("steps").1;
    let first = last + 1 - steps_of_both.len() as u32;
    let expected = (first..=last).map(|step| (format!("step {step}"), step));
    assert_eq!(steps_of_both, expected.collect::<Vec<_>>());
    let state = end(&both);

    let moved = folder.path().join("older.vtape");
    fs::rename(&older, &moved).expect("a file");
    let newest = open(&path);
    assert_eq!(newest.meta.part, alone.meta.part.map(|part| part + 1));
    assert_eq!(only(&newest).records.len() + only(&alone).records.len(), records);
    assert_eq!(end(&newest), state);

    // A file of that name that does not end where the newest part begins is not an earlier part.
    fs::copy(&path, &older).expect("a file");
    assert_eq!(only(&open(&path)), only(&newest));
    let bytes = fs::read(&moved).expect("a file");
    fs::write(&older, &bytes[..bytes.len() / 2]).expect("a file");
    assert_eq!(only(&open(&path)), only(&newest));
}
