//! Tapes written beside a heap that goes on, read back and followed step by step.

mod crash;
mod model;
mod rotation;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::tempdir;
use trace_format::{
    DeviceId, EndKind, Event, Frame, Item, MarkKind, Meta, ProgramEnd, Reader, StackId, State,
};

use super::*;
use crate::SystemClock;
use crate::cast;
use crate::testing::{self, Process, in_forked_child};
use events::Recorder;
use model::SharedModel;

/// What reading a tape to its end showed.
#[derive(Debug, Default)]
struct Followed {
    state: State,
    records: u64,
    lost: u64,
    bases: u64,
    starts_with_base: bool,
    has_index: bool,
}

/// Reads a tape and applies every record: none may contradict the state, and every base state must be the state that
/// the records before it led to.
fn follow(path: &Path) -> Followed {
    let mut reader = Reader::open(path).unwrap();
    let mut seen = Followed::default();
    let mut is_known = true;
    let mut last_ns = 0;
    for item in reader.by_ref() {
        match item.unwrap() {
            Item::Meta(_) => {}
            Item::Base(_, base) => {
                let state = State::from_base(&base).unwrap();
                let is_first = seen.records == 0 && seen.bases == 0;
                assert!(
                    !is_known || is_first || state == seen.state,
                    "base {} differs",
                    seen.bases
                );
                seen.starts_with_base |= is_first;
                (seen.state, is_known) = (state, true);
                seen.bases += 1;
            }
            Item::Event(_, record) => {
                assert!(record.time_ns >= last_ns, "time runs backwards");
                last_ns = record.time_ns;
                if let Event::Lost { count } = record.event {
                    seen.lost += count;
                    is_known = false;
                } else {
                    assert!(is_known, "records between a loss and its base state");
                    seen.state.apply(&record).unwrap();
                    seen.records += 1;
                }
            }
        }
    }
    seen.has_index = reader.recovered().finished;
    seen
}

fn start_tape(path: &Path) -> TapeRecorder {
    TapeRecorder::start(path, Meta::default(), SystemClock::new()).unwrap()
}

#[test]
fn a_tape_from_the_start_holds_everything_and_starts_from_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 16);
    let tape = start_tape(&path);
    tape.add(model.source());
    model.run(20_000);
    let summary = tape.stop().unwrap();
    let seen = follow(&path);
    assert!(seen.has_index);
    assert_eq!((seen.starts_with_base, seen.lost, summary.lost), (false, 0, 0));
    assert_eq!((seen.records, summary.records), (model.recorded(), model.recorded()));
    assert_eq!(seen.state, model.state());
    assert_eq!(Reader::open(&path).unwrap().count(), cast::index(seen.records) + 1, "and the meta");
}

#[test]
fn a_tape_begun_in_full_flight_is_cut_exactly_at_its_base() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 16);
    model.run(5_000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                model.run(10);
            }
        });
        for _ in 0..20 {
            let tape = start_tape(&path);
            tape.add(model.source());
            std::thread::sleep(Duration::from_millis(3));
            tape.stop().unwrap();
            let seen = follow(&path);
            assert!(seen.starts_with_base && seen.lost == 0, "{seen:?}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_panic_of_the_tapes_thread_ends_the_tape_and_no_caller_waits() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 16);
    let tape = start_tape(&path);
    let base = Box::new(|| panic!("in the middle of a base state"));
    tape.add_with_bases(TapeSource { base, ..model.source() }, 500);
    model.run(2_000);
    assert!(!tape.flush());
    assert!(!tape.is_recording());
    let failure = tape.failure().unwrap();
    assert_eq!(failure.reason, "internal error in vramtape");
    model.run(100);
    assert!(!tape.flush());
    assert!(matches!(tape.stop(), Err(TapeError::Panicked { path: named }) if named == path));
    assert!(Reader::open(&path).unwrap().all(|item| item.is_ok()), "what was written is readable");
}

#[test]
fn a_tape_gets_a_base_state_again_and_again() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 16);
    let tape = start_tape(&path);
    let TapeSource { ring, base, device } = model.source();
    let busy = model.clone();
    let base = Box::new(move || {
        // The drainer has to wait for the heap's lock, and the heap goes on meanwhile.
        busy.run(20);
        base()
    });
    tape.add_with_bases(TapeSource { ring, base, device }, 500);
    for _ in 0..10 {
        model.run(1_000);
        assert!(tape.flush());
    }
    tape.stop().unwrap();
    let seen = follow(&path);
    assert!(seen.bases >= 10, "{seen:?}");
    assert_eq!((seen.records, seen.lost), (model.recorded(), 0));
    assert_eq!(seen.state, model.state());
}

#[test]
fn a_ring_that_laps_its_drainer_is_a_counted_loss_and_a_fresh_base() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 64);
    let tape = start_tape(&path);
    tape.add(model.source());
    while model.recorded() < 200_000 {
        model.run(1_000);
        std::thread::sleep(Duration::from_micros(100));
    }
    let summary = tape.stop().unwrap();
    let seen = follow(&path);
    assert!(seen.lost > 0 && seen.bases > 0, "{seen:?}");
    assert!(model.is_all(seen.records, seen.lost), "{seen:?}");
    assert_eq!((summary.records, summary.lost), (seen.records, seen.lost));
    assert_eq!(model.ring_info().lost_by_tape, seen.lost);
    assert_eq!(seen.state, model.state());
}

#[test]
fn a_growing_tape_can_be_read_and_says_that_it_is_not_finished() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 12);
    let tape = start_tape(&path);
    tape.add(model.source());
    model.run(100);
    let written = model.recorded();
    let mut seen = Followed::default();
    for _ in 0..1_000 {
        seen = follow(&path);
        if seen.records == written {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((seen.records, seen.has_index), (written, false));
    assert_eq!(seen.state, model.state());
    assert!(tape.is_recording());
    drop(tape);
    assert!(follow(&path).has_index, "dropped, it is finished too");
}

#[test]
fn flushed_records_are_in_the_file() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 12);
    let tape = start_tape(&path);
    tape.add(model.source());
    for _ in 0..20 {
        model.run(50);
        assert!(tape.flush());
        let seen = follow(&path);
        assert_eq!((seen.records, seen.state), (model.recorded(), model.state()));
    }
}

#[test]
fn strings_and_stacks_arrive_under_the_tapes_own_numbers() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 12);
    let ring = model.ring();
    let _unused = ring.intern("never on tape");
    let (name, filename) = (ring.intern("forward"), ring.intern("model.py"));
    let stack = ring.intern_stack(&[Frame { name, filename, line: 41 }]);
    let tape = start_tape(&path);
    tape.add(model.source());
    model.with(|model| {
        let event = Event::Mark { kind: MarkKind::Phase, name };
        model.recorder.record(stack, event);
        model.recorder.record(StackId(99), Event::ResetPeak);
    });
    tape.stop().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let records: Vec<_> = reader
        .by_ref()
        .filter_map(|item| match item.unwrap() {
            Item::Event(device, record) => Some((device, record)),
            _ => None,
        })
        .collect();
    let (tables, (device, mark)) = (reader.tables(), records[0]);
    let Event::Mark { name, .. } = mark.event else { panic!("{mark:?}") };
    assert_eq!((device, tables.string(name)), (DeviceId(3), Some("forward")));
    let frame = tables.frame(tables.stack(mark.stack).unwrap()[0]).unwrap();
    assert_eq!((frame.name, frame.filename, frame.line), ("forward", "model.py", 41));
    assert_eq!(records[1].1.stack, StackId::NONE, "a stack that was not interned");
    assert_eq!(reader.meta().devices[0].name, "a model");
}

#[test]
fn two_rings_share_a_tape() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let models = [1, 2].map(|device| SharedModel::on(dir.path(), 1 << 12, DeviceId(device)));
    let tape = start_tape(&path);
    for model in &models {
        tape.add(model.source());
        model.run(300);
    }
    tape.stop().unwrap();
    let mut states = [State::new(), State::new()];
    for item in Reader::open(&path).unwrap() {
        if let Item::Event(device, record) = item.unwrap() {
            states[usize::from(device.0) - 1].apply(&record).unwrap();
        }
    }
    assert_eq!(states, models.each_ref().map(SharedModel::state));
}

#[test]
fn a_path_where_another_tape_is_being_written_is_refused() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let tape = start_tape(&path);
    let error = TapeRecorder::start(&path, Meta::default(), SystemClock::new()).unwrap_err();
    assert!(matches!(&error, TapeError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("{pid}"), "{error}");
    tape.stop().unwrap();
    start_tape(&path).stop().unwrap();
}

#[test]
fn a_tape_that_cannot_be_written_says_where() {
    let path = Path::new("/nonexistent/run.vtape");
    let error = TapeRecorder::start(path, Meta::default(), SystemClock::new()).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/run.vtape"), "{error}");
}

#[test]
fn a_forked_child_can_neither_stop_its_parents_tape_nor_hang_on_it() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 12);
    let tape = start_tape(&path);
    tape.add(model.source());
    model.run(100);
    let mut tape = Some(tape);
    let status = in_forked_child(|| {
        model.ring().after_fork_child();
        let tape = tape.take().unwrap();
        !tape.is_recording() && matches!(tape.stop(), Err(TapeError::Forked))
    });
    assert_eq!(status, 0);
    model.run(100);
    tape.unwrap().stop().unwrap();
    let seen = follow(&path);
    assert_eq!((seen.records, seen.state), (model.recorded(), model.state()));
}

#[test]
fn a_saved_ring_starts_with_the_state_before_its_first_record() {
    for (slots, runs) in [(1 << 12, 300), (256, 3_000)] {
        let dir = tempdir().unwrap();
        let path = dir.path().join("saved.vtape");
        let model = SharedModel::new(dir.path(), slots);
        model.run(runs);
        let summary = model.save(&path);
        let seen = follow(&path);
        assert!(seen.has_index && seen.bases == 1, "{seen:?}");
        assert_eq!(seen.state, model.state());
        assert!(seen.records == model.recorded() || seen.records + 20 > slots as u64, "{seen:?}");
        assert!(model.is_all(seen.records, seen.lost), "{seen:?}");
        assert_eq!((summary.records, summary.lost), (seen.records, seen.lost));
    }
}

#[test]
fn a_ring_is_saved_while_it_turns() {
    let dir = tempdir().unwrap();
    let model = SharedModel::new(dir.path(), 1 << 10);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                model.run(10);
            }
        });
        for n in 0..20 {
            let path = dir.path().join(format!("{n}.vtape"));
            let summary = model.save(&path);
            let seen = follow(&path);
            assert_eq!((seen.records, seen.lost), (summary.records, summary.lost));
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// What a killed process leaves: its tape without the last bytes, and its ring, as copies without a lock.
fn killed(dir: &Path, tape: &Path, model: &SharedModel) -> (PathBuf, PathBuf) {
    let (torn, ring) = (dir.join("torn.vtape"), dir.join("dead.ring"));
    let whole = std::fs::read(tape).unwrap();
    std::fs::write(&torn, &whole[..whole.len() - 7]).unwrap();
    std::fs::copy(model.ring().path().unwrap(), &ring).unwrap();
    (torn, ring)
}

#[test]
fn a_torn_tape_goes_on_with_its_ring() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 13);
    let ring = model.ring();
    let tape = start_tape(&path);
    tape.add(model.source());
    for _ in 0..6 {
        model.run(3_000);
        model.with(|model| {
            let event = Event::Mark { kind: MarkKind::Step, name: ring.intern("step") };
            model.recorder.record(StackId::NONE, event);
        });
        assert!(tape.flush());
    }
    let (torn, dead) = killed(dir.path(), &path, &model);
    let before = follow(&torn);
    assert!(before.records < model.recorded(), "the last chunk is torn");
    let joined = dir.path().join("joined.vtape");
    let recovered = join_rings(&torn, &[dead], &joined).unwrap().remove(0);
    let seen = follow(&joined);
    assert!(seen.has_index);
    assert_eq!((seen.records, seen.lost), (model.recorded() + 6, 0), "with the marks");
    assert_eq!((recovered.records, recovered.lost), (seen.records, 0));
    assert_eq!(seen.state, model.state());
}

#[test]
fn a_ring_that_begins_behind_its_tape_is_a_counted_gap() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 10);
    let tape = start_tape(&path);
    tape.add(model.source());
    model.run(500);
    tape.stop().unwrap();
    model.run(9_000);
    let (torn, dead) = killed(dir.path(), &path, &model);
    let before = follow(&torn).records;
    let joined = dir.path().join("joined.vtape");
    let recovered = join_rings(&torn, &[dead], &joined).unwrap().remove(0);
    let seen = follow(&joined);
    assert!(before > 0 && seen.lost > 0 && seen.bases == 1, "{seen:?}");
    assert!(model.is_all(seen.records, seen.lost), "{seen:?}");
    assert_eq!((recovered.records, recovered.lost), (seen.records, seen.lost));
    assert_eq!(seen.state, model.state());
}

/// Not a test of its own: a process that records until it is killed.
#[test]
#[ignore = "run by other tests as a process to kill"]
fn process_that_writes_a_tape_until_killed() {
    let dir = testing::process_dir();
    let model = SharedModel::new(&dir, 1 << 16);
    let tape = start_tape(&dir.join("run.vtape"));
    tape.add_with_bases(model.source(), 10_000);
    loop {
        model.run(200);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_process_leaves_all_chunks_it_wrote() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let doomed = Process::start("tape::tests::process_that_writes_a_tape_until_killed", dir.path());
    doomed.until("wrote much", || {
        let is_there = std::fs::metadata(&path).is_ok_and(|file| file.len() > 50_000);
        (is_there && follow(&path).records > 0).then_some(())
    });
    let before = follow(&path);
    doomed.kill();
    let after = follow(&path);
    assert!(after.records >= before.records);
    assert!(!after.has_index);
    assert_eq!(after.lost, 0);
}

/// Not a test of its own: a process whose files may not grow.
#[test]
#[ignore = "run by other tests as a process"]
fn process_whose_disk_is_full() {
    let dir = testing::process_dir();
    let model = SharedModel::new(&dir, 1 << 16);
    let limit = Some(1 << 20);
    setrlimit(Resource::Fsize, Rlimit { current: limit, maximum: limit }).unwrap();
    let tape = start_tape(&dir.join("run.vtape"));
    tape.add(model.source());
    while tape.is_recording() {
        model.run(1_000);
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = model.recorded();
    model.run(1_000);
    assert!(model.recorded() > before, "the allocator goes on");
    assert!(!tape.flush());
    let failed = tape.failure().unwrap();
    let ring = model.source().ring;
    assert_eq!(ring.is_on_tape(), Some(false), "readers of the ring see that it has failed");
    let error = tape.stop().unwrap_err();
    assert_eq!(ring.is_on_tape(), Some(false));
    let TapeError::Ended { lost, time_ns, .. } = &error else { panic!("{error}") };
    assert_eq!(*time_ns, failed.time_ns);
    let seen = follow(&dir.join("run.vtape"));
    assert!(seen.records > 0 && seen.lost == *lost, "{seen:?}");
    assert_eq!(seen.records + lost, model.recorded(), "what came after the failure is counted");
    for part in
        ["run.vtape ended early, at 20", " UTC: File too large; ", &format!("{lost} records")]
    {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_full_disk_stops_the_tape_and_nothing_else() {
    let dir = tempdir().unwrap();
    let process = Process::start("tape::tests::process_whose_disk_is_full", dir.path());
    assert!(process.wait().success());
    let path = dir.path().join("run.vtape");
    let seen = follow(&path);
    assert!(seen.records > 0 && seen.has_index, "{seen:?}");
    let mut reader = Reader::open(&path).unwrap();
    reader.by_ref().for_each(|item| drop(item.unwrap()));
    let end = reader.meta().end.clone().unwrap();
    assert_eq!((end.kind, end.detail.as_str()), (EndKind::TapeFailed, "File too large"));
}

#[test]
fn the_end_of_the_program_is_the_last_thing_on_its_tape() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 12);
    let tape = start_tape(&path);
    tape.add(model.source());
    model.run(100);
    let detail = "SIGTERM".to_owned();
    let end = ProgramEnd { kind: EndKind::Signal, detail, ..ProgramEnd::default() };
    assert!(tape.flush());
    let ring = model.source().ring;
    assert_eq!(ring.is_on_tape(), Some(true));
    tape.stop_at_end(end.clone()).unwrap();
    assert_eq!(ring.is_on_tape(), None);
    assert_eq!(follow(&path).records, model.recorded());
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.meta().end, None);
    reader.by_ref().for_each(|item| drop(item.unwrap()));
    assert_eq!(reader.meta().end, Some(end));
    assert_eq!(reader.meta().devices[0].name, "a model");
}

/// Not a check but a figure: `cargo test --release -p allocator speed_of_a_tape -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn speed_of_a_tape() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.vtape");
    let model = SharedModel::new(dir.path(), 1 << 20);
    model.run(900_000);
    let start = Instant::now();
    let records = model.save(&path).records;
    report("saved", records, start.elapsed(), &path);

    let model = SharedModel::new(dir.path(), 1 << 20);
    let tape = start_tape(&path);
    tape.add(model.source());
    let start = Instant::now();
    (0..5_000).for_each(|_| model.run(1_000));
    println!("{} records made in {:?}", model.recorded(), start.elapsed());
    let summary = tape.stop().unwrap();
    report("on tape", summary.records, start.elapsed(), &path);
    println!("lost: {}", summary.lost);
}

fn report(what: &str, records: u64, elapsed: Duration, path: &Path) {
    let bytes = std::fs::metadata(path).unwrap().len();
    let each = |total: u128| total as f64 / records as f64;
    println!(
        "{what}: {records} records in {elapsed:?}, {:.1} ns and {:.1} bytes each",
        each(elapsed.as_nanos()),
        each(bytes.into())
    );
}
