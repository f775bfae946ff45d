//! The ring as a whole: its order, its loss, its readers, and its file after the worst.

mod hostile;
mod pages;
mod statistics;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};
use trace_format::{Addr, DeviceId, Event, MarkKind, PoolId, Record, StackId, Stream};

use super::*;
use crate::cast;
use crate::clock::SystemClock;
use crate::clock::manual::ManualClock;
use crate::testing::{self, Process, in_forked_child, in_forked_child_while};
use crate::{RingReader, RingRecorder};
use events::{BlockSlot, Recorder};

fn options(dir: &Path, slots: usize) -> RingOptions {
    RingOptions { dir: dir.to_owned(), device: DeviceId(3), slots, has_pages: false }
}

fn ring(slots: usize) -> (TempDir, RingRecorder<ManualClock>) {
    let dir = tempdir().unwrap();
    let recorder = RingRecorder::new(&options(dir.path(), slots), ManualClock::default()).unwrap();
    (dir, recorder)
}

fn removed_from(dir: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    remove_dead_rings(dir, &mut removed).unwrap();
    removed
}

fn reader(recorder: &RingRecorder<impl crate::Clock>) -> RingReader {
    RingReader::open(&recorder.ring().path().expect("a file")).unwrap()
}

/// Every field follows from `n`, so that a torn record gives itself away.
fn alloc(n: u64) -> Event {
    Event::Alloc {
        addr: Addr(n << 9),
        requested_bytes: n * 3,
        size_bytes: (n * 5) << 9,
        stream: Stream(n % 5),
        pool: PoolId(0, n % 3),
    }
}

/// The same with numbers that fit no slot.
fn wide(n: u64) -> Event {
    Event::Alloc {
        addr: Addr(n),
        requested_bytes: u64::MAX - n,
        size_bytes: u64::MAX - 2 * n,
        stream: Stream(u64::MAX - 3 * n),
        pool: PoolId(u64::MAX - 4 * n, u64::MAX - 5 * n),
    }
}

fn events(records: &[Record]) -> Vec<Event> {
    records.iter().map(|record| record.event).collect()
}

fn poll(reader: &mut RingReader) -> (Vec<Record>, u64) {
    let mut records = Vec::new();
    let lost = reader.poll(|record| records.push(record));
    (records, lost)
}

fn addrs(records: &[Record]) -> Vec<u64> {
    let number = |record: &Record| match record.event {
        Event::Alloc { addr, .. } => addr.0 >> 9,
        event => panic!("no alloc: {event:?}"),
    };
    records.iter().map(number).collect()
}

#[test]
fn a_reader_of_the_file_sees_what_was_recorded_and_by_whom() {
    let (_dir, mut recorder) = ring(64);
    let name = recorder.intern("optimizer");
    recorder.record(StackId(9), alloc(1));
    recorder.record(StackId::NONE, Event::Mark { kind: MarkKind::Phase, name });
    let mut reader = reader(&recorder);
    let (records, lost) = poll(&mut reader);
    assert_eq!((records.len(), lost), (2, 0));
    assert_eq!(records[0].event, alloc(1));
    assert_eq!(records[0].stack, StackId(9));
    assert_eq!(
        records[0].thread.0,
        rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
    );
    assert!(records[0].time_ns < records[1].time_ns);
    assert_eq!(reader.string(name), Some("optimizer"));
    assert_eq!(reader.string(trace_format::StringId(9)), None);
    let info = reader.info();
    assert_eq!((info.pid, info.device, info.slots), (std::process::id(), DeviceId(3), 64));
    assert_eq!(info.written, 2);
    assert!(info.process_start_ticks > 0);
}

#[test]
fn stacks_reach_readers_of_the_file_and_of_the_process() {
    let (_dir, recorder) = ring(64);
    let ring = recorder.ring();
    let mut reader = reader(&recorder);
    let frame = |name, line| {
        let (name, filename) = (ring.intern(name), ring.intern("model.py"));
        trace_format::Frame { name, filename, line }
    };
    let stack = [frame("forward", 41), frame("step", 7)];
    let id = ring.intern_stack(&stack);
    assert_eq!(ring.intern_stack(&stack), id);
    assert_ne!(ring.intern_stack(&stack[..1]), id);
    assert_eq!(ring.stack(id).as_deref(), Some(&stack[..]));
    assert_eq!(reader.stack(id).as_deref(), Some(&stack[..]));
    assert_eq!(reader.string(stack[0].filename), Some("model.py"));
    assert_eq!(reader.stack(StackId::NONE), Some(vec![]));
    assert_eq!(reader.stack(StackId(99)), None);
}

#[test]
fn the_file_is_for_its_user_only_and_goes_with_the_recorder() {
    use std::os::unix::fs::MetadataExt;
    let (_dir, recorder) = ring(64);
    let path = recorder.ring().path().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    drop(recorder);
    assert!(!path.exists());
}

#[test]
fn a_full_ring_keeps_the_newest_and_counts_the_rest() {
    let (_dir, mut recorder) = ring(64);
    let mut reader = reader(&recorder);
    (0..10).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    assert_eq!(poll(&mut reader).0.len(), 10);
    (10..200).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let (records, lost) = poll(&mut reader);
    assert_eq!(addrs(&records), (137..200).collect::<Vec<_>>(), "the next one's slot is not read");
    assert_eq!(lost, 127);
    assert_eq!(poll(&mut reader), (vec![], 0));
}

#[test]
fn an_event_too_wide_for_a_slot_arrives_whole_or_is_counted_as_lost() {
    let (_dir, mut recorder) = ring(64);
    let mut live = reader(&recorder);
    recorder.record(StackId(u32::MAX), wide(1));
    recorder.record(StackId::NONE, alloc(1));
    let (records, lost) = poll(&mut live);
    assert_eq!((events(&records), lost), (vec![wide(1), alloc(1)], 0));
    assert_eq!(records[0].stack, StackId(u32::MAX));
    assert_eq!(records[0].thread, records[1].thread);
    // Overwrite just the slot before the event's own.
    (0..61).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let (records, lost) = poll(&mut reader(&recorder));
    assert_eq!((records[0].event, records.len(), lost), (Event::Lost { count: 1 }, 63, 2));
}

#[test]
fn more_contexts_than_the_ring_numbers_are_no_loss() {
    let (_dir, mut recorder) = ring(1 << 14);
    let on_stream = |n| Event::RecordStream { addr: Addr(n), stream: Stream(n) };
    (0..2_000).for_each(|n| recorder.record(StackId::NONE, on_stream(n)));
    let (records, lost) = poll(&mut reader(&recorder));
    assert_eq!((events(&records), lost), ((0..2_000).map(on_stream).collect(), 0));
    assert!(recorder.ring().sequence() > 2_000);
}

proptest::proptest! {
    #[test]
    fn every_event_comes_out_as_it_went_in(
        events in proptest::collection::vec((super::pack::tests::events(), proptest::prelude::any::<u32>()), 1..20)
    ) {
        let (_dir, mut recorder) = ring(64);
        for (event, stack) in &events {
            recorder.record(StackId(*stack), *event);
        }
        let (records, lost) = poll(&mut reader(&recorder));
        let seen = records.iter().map(|record| (record.event, record.stack.0));
        // As text, so that a fraction that is not a number equals itself.
        proptest::prop_assert_eq!(format!("{:?}", seen.collect::<Vec<_>>()), format!("{events:?}"));
        proptest::prop_assert_eq!(lost, 0);
    }
}

fn segment(recorder: &mut RingRecorder<ManualClock>) {
    let (addr, size_bytes, is_large) = (Addr(0), 1 << 40, true);
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    let event = Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large };
    recorder.record(StackId::NONE, event);
}

fn live(reader: &mut RingReader) -> Vec<(u64, u64)> {
    let (base, next) = reader.base_state().unwrap();
    assert_eq!(next, reader.info().written);
    let blocks = base.segments.iter().flat_map(|segment| &segment.blocks);
    let live = blocks.filter(|block| block.status != trace_format::BlockStatus::Inactive);
    live.map(|block| (block.addr.0 >> 9, block.requested_bytes)).collect()
}

#[test]
fn a_live_block_outlives_its_record_in_the_ring() {
    let (_dir, mut recorder) = ring(64);
    let mut reader = reader(&recorder);
    segment(&mut recorder);
    let place = |n: u64| BlockSlot(cast::low_half(n));
    recorder.record_block(place(3), StackId(5), small(3), &());
    for n in 4..1_000 {
        recorder.record_block(place(4), StackId::NONE, small(n), &());
        let Event::Alloc { addr, requested_bytes, size_bytes, .. } = small(n) else { panic!() };
        let free = Event::Free { addr, requested_bytes, size_bytes, pending: n % 2 == 0 };
        recorder.record_block(place(4), StackId::NONE, free, &());
        if n % 2 == 0 {
            assert_eq!(live(&mut reader), [(3, 3), (n, n)], "its free is pending");
            let completed = Event::FreeCompleted { addr, requested_bytes, size_bytes };
            recorder.record_block(place(4), StackId::NONE, completed, &());
        }
    }
    assert_eq!(live(&mut reader), [(3, 3)]);
    assert_eq!(reader.base_state().unwrap().0.segments[0].blocks[1].stack, StackId(5));
}

/// A block of 512 bytes.
fn small(n: u64) -> Event {
    let (addr, requested_bytes, size_bytes) = (Addr(n << 9), n, 512);
    Event::Alloc { addr, requested_bytes, size_bytes, stream: Stream(0), pool: PoolId::DEFAULT }
}

#[test]
fn a_process_that_died_before_it_entered_its_last_record_is_not_missed() {
    let (_dir, mut recorder) = ring(64);
    segment(&mut recorder);
    recorder.record_block(BlockSlot(0), StackId::NONE, small(1), &());
    recorder.record(StackId::NONE, small(2));
    assert_eq!(live(&mut reader(&recorder)), [(1, 1), (2, 2)]);
}

#[test]
fn blocks_that_the_table_has_no_room_for_are_counted() {
    let (_dir, mut recorder) = ring(64);
    let reader = reader(&recorder);
    segment(&mut recorder);
    let beyond = BlockSlot(u32::MAX);
    recorder.record_block(beyond, StackId::NONE, small(1), &());
    recorder.record_block(BlockSlot(1), StackId::NONE, wide(1 << 9), &());
    assert_eq!((reader.info().missing_blocks, reader.info().is_complete()), (2, false));
    let free = |event| match event {
        Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
            Event::Free { addr, requested_bytes, size_bytes, pending: false }
        }
        event => panic!("{event:?}"),
    };
    recorder.record_block(beyond, StackId::NONE, free(small(1)), &());
    recorder.record_block(BlockSlot(1), StackId::NONE, free(wide(1 << 9)), &());
    assert!(reader.info().is_complete());
}

const SECOND_NS: u64 = 1_000_000_000;

/// A recorder, its clock, and a reader that is at the end of what was recorded.
fn timed(slots: usize) -> (TempDir, RingRecorder<ManualClock>, ManualClock, RingReader) {
    let dir = tempdir().unwrap();
    let clock = ManualClock::default();
    clock.pass(1_700_000_000 * SECOND_NS);
    let recorder = RingRecorder::new(&options(dir.path(), slots), clock.clone()).unwrap();
    let reader = reader(&recorder);
    (dir, recorder, clock, reader)
}

/// The time of the last record, which must be that of the clock now.
fn expect_now(reader: &mut RingReader, clock: &ManualClock, within_ns: u64) -> u64 {
    let time_ns = poll(reader).0.last().expect("a record").time_ns;
    let now_ns = crate::Clock::unix_ns(clock);
    assert!(now_ns.abs_diff(time_ns) <= within_ns, "{time_ns}, and it is {now_ns}");
    time_ns
}

#[test]
fn time_is_right_after_any_pause() {
    let (_dir, mut recorder, clock, mut reader) = timed(64);
    let mut late_reader = RingReader::open(&recorder.ring().path().unwrap()).unwrap();
    for pause_s in [0, 1, 3, 400, 86_400 * 365] {
        clock.pass(pause_s * SECOND_NS);
        recorder.record(StackId::NONE, alloc(1));
        expect_now(&mut reader, &clock, 100);
    }
    expect_now(&mut late_reader, &clock, 100);
}

#[test]
fn time_is_right_where_no_moment_is_left_in_the_ring() {
    let (_dir, mut recorder, clock, _) = timed(64);
    clock.pass(100 * SECOND_NS);
    (0..200).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let before = crate::Clock::unix_ns(&clock);
    clock.pass(5_000 * SECOND_NS);
    (0..10).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let mut reader = reader(&recorder);
    let (records, _) = poll(&mut reader);
    assert!(before.abs_diff(records[0].time_ns) < 300, "the oldest is from before the pause");
    recorder.record(StackId::NONE, alloc(1));
    expect_now(&mut reader, &clock, 100);
}

#[test]
fn time_is_right_a_second_or_two_after_a_suspend_and_never_runs_backwards() {
    let (_dir, mut recorder, clock, mut reader) = timed(1 << 10);
    let mut last_ns = 0;
    for hour in 0..5 {
        for tenth in 0..40 {
            clock.pass(SECOND_NS / 10);
            recorder.record(StackId::NONE, alloc(tenth));
            let within_ns = if tenth < 22 { u64::MAX } else { 1_000 };
            let time_ns = expect_now(&mut reader, &clock, within_ns);
            assert!(time_ns >= last_ns, "time runs backwards");
            last_ns = time_ns;
        }
        clock.suspend(3_600 * SECOND_NS);
        if hour % 2 == 0 {
            clock.set_ticks(0);
            recorder.record(StackId::NONE, alloc(1));
            last_ns = expect_now(&mut reader, &clock, 1_000);
        }
    }
}

#[test]
fn readers_beside_a_writer_in_full_flight_see_whole_records_in_order() {
    const RECORDS: u64 = 400_000;
    let (_dir, mut recorder) = ring(256);
    let mut readers = [reader(&recorder), reader(&recorder)];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in &mut readers {
            scope.spawn(|| {
                let (mut next, mut seen, mut lost) = (0, 0, 0);
                loop {
                    let is_last = done.load(Ordering::Acquire);
                    lost += reader.poll(|record| {
                        let Event::Alloc { addr, .. } = record.event else {
                            panic!("{:?}", record.event)
                        };
                        let n = addr.0 >> 9;
                        assert_eq!(record.event, alloc(n), "a torn record");
                        assert!(n >= next, "record {n} after record {next}");
                        next = n + 1;
                        seen += 1;
                    });
                    if is_last {
                        break;
                    }
                }
                assert_eq!(seen + lost, RECORDS);
            });
        }
        (0..RECORDS).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
        done.store(true, Ordering::Release);
    });
}

#[test]
fn without_room_for_a_file_the_ring_is_kept_in_memory() {
    let nowhere = Path::new("/nonexistent/vramtape");
    let mut recorder = RingRecorder::new(&options(nowhere, 64), ManualClock::default()).unwrap();
    assert_eq!(recorder.ring().path(), None);
    recorder.record(StackId::NONE, alloc(1));
    assert_eq!(recorder.ring().sequence(), 1);
}

#[test]
fn a_ring_larger_than_its_file_system_leaves_it_untouched() {
    let dir = tempdir().unwrap();
    let error = RingFile::create(dir.path(), DeviceId(0), 1 << 60).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn files_that_are_not_rings_are_refused_by_name() {
    let dir = tempdir().unwrap();
    let (_ring_dir, recorder) = ring(64);
    let whole = std::fs::read(recorder.ring().path().unwrap()).unwrap();
    let mut other_magic = whole.clone();
    other_magic[0] ^= 1;
    let mut other_version = whole.clone();
    other_version[8] = 99;
    let mut many_slots = whole.clone();
    many_slots[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut odd_slots = whole.clone();
    odd_slots[40..48].copy_from_slice(&63_u64.to_le_bytes());
    let mut no_process = whole.clone();
    no_process[16..24].copy_from_slice(&(1_u64 << 32).to_le_bytes());
    let short = whole[..8_192].to_vec();
    let no_ring = [vec![], b"ring".to_vec(), short];
    let cases = [other_magic, other_version, many_slots, odd_slots, no_process];
    for (n, bytes) in no_ring.iter().chain(&cases).enumerate() {
        let path = dir.path().join(format!("{n}.ring"));
        std::fs::write(&path, bytes).unwrap();
        let error = RingReader::open_named(&path).expect_err("refused").to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn damage_is_loss_and_neither_panics_nor_hangs() {
    let (dir, mut recorder) = ring(64);
    let name = recorder.intern("optimizer");
    (0..10).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let mut young = std::fs::read(recorder.ring().path().unwrap()).unwrap();
    (10..100).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let mut old = std::fs::read(recorder.ring().path().unwrap()).unwrap();
    let path = dir.path().join("damaged.ring");
    let poll_damaged = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let mut reader = RingReader::open_named(&path).unwrap();
        let mut records = 0;
        let lost = reader.poll(|_| {
            records += 1;
            assert!(records <= 64, "more than there are slots");
        });
        let _ = reader.string(name);
        let _ = reader.base_state();
        // Damage can make a slot one that is no event.
        let seen = lost.saturating_add(records + 8);
        assert!(seen >= reader.info().written.min(64), "{records} and {lost}");
    };
    let mut random = 0x5eed_u64;
    for bytes in [&mut young, &mut old] {
        for _ in 0..20 {
            poll_damaged(bytes);
            for _ in 0..10 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Header, slots and the start of the text log, but for what `open` checks.
                let at = 128 + (random >> 33) as usize % (4_096 + 64 * 32);
                bytes[at] ^= 1 << (random >> 60 & 7);
            }
        }
        let head = 8 * layout::HeaderField::Head as usize;
        bytes[head..head + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        poll_damaged(bytes);
    }
}

/// Not a test of its own: a process whose files may not be as large as a ring.
#[test]
#[ignore = "run by other tests as a process"]
fn process_that_may_not_make_large_files() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Some(1 << 20);
    setrlimit(Resource::Fsize, Rlimit { current: limit, maximum: limit }).unwrap();
    let options = options(&testing::process_dir(), 64);
    let mut recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
    recorder.record(StackId::NONE, alloc(1));
    assert_eq!((recorder.ring().path(), recorder.ring().sequence()), (None, 1));
}

#[test]
fn a_limit_on_file_sizes_does_not_kill_the_process() {
    let dir = tempdir().unwrap();
    let name = "ring::tests::process_that_may_not_make_large_files";
    assert!(Process::start(name, dir.path()).wait().success());
    assert_eq!(list_rings(dir.path()).unwrap(), Vec::<PathBuf>::new());
}

/// Not a test of its own: what the crash tests run in another process, until it is killed.
#[test]
#[ignore = "run by other tests as a process to kill"]
fn process_that_records_until_killed() {
    let dir = testing::process_dir();
    let mut recorder = RingRecorder::new(&options(&dir, 1 << 10), SystemClock::new()).unwrap();
    recorder.intern("doomed");
    for n in 0.. {
        recorder.record(StackId::NONE, alloc(n));
        if n % 1_000 == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

fn ring_of(process: &Process, dir: &Path) -> RingReader {
    process.until("made a ring", || {
        let reader = RingReader::open(list_rings(dir).unwrap().first()?).ok()?;
        (reader.info().written > 5_000).then_some(reader)
    })
}

#[test]
fn a_killed_process_leaves_its_last_events() {
    let dir = tempdir().unwrap();
    let doomed = Process::start("ring::tests::process_that_records_until_killed", dir.path());
    let mut live = ring_of(&doomed, dir.path());
    assert!(live.is_live());
    let (records, _) = poll(&mut live);
    assert!(!records.is_empty(), "live, from another process");
    assert_eq!(removed_from(dir.path()), Vec::<PathBuf>::new());

    let pid = doomed.kill();
    let path = list_rings(dir.path()).unwrap().remove(0);
    let mut dead = RingReader::open(&path).unwrap();
    assert!(!dead.is_live());
    assert_eq!(dead.info().pid, pid);
    assert_eq!(dead.string(trace_format::StringId(1)), Some("doomed"));
    let (records, lost) = poll(&mut dead);
    let first = addrs(&records)[0];
    assert_eq!(addrs(&records), (first..first + records.len() as u64).collect::<Vec<_>>());
    let written = dead.info().written;
    // Moments take slots too.
    assert!((1_000..1_024).contains(&records.len()), "nearly all: {}", records.len());
    assert!((written - 20..=written).contains(&(lost + records.len() as u64)));
    let now_ns = crate::Clock::unix_ns(&SystemClock::new());
    let age_ns = now_ns.abs_diff(records[records.len() - 1].time_ns);
    assert!(age_ns < 60_000_000_000, "the last record is {age_ns} ns old");

    assert!(path.exists());
    assert_eq!(removed_from(dir.path()), std::slice::from_ref(&path));
    assert!(!path.exists());
}

#[test]
fn a_forked_child_writes_nothing_and_waits_for_nothing() {
    let (_dir, mut recorder) = ring(64);
    recorder.record(StackId::NONE, alloc(1));
    let ring = Arc::clone(recorder.ring());
    // As when another thread of the parent was at it when the fork happened.
    let file = ring.file.lock().unwrap();
    let status = in_forked_child(|| {
        ring.after_fork_child();
        recorder.record(StackId::NONE, alloc(2));
        let name = recorder.intern("child");
        ring.remove();
        name == trace_format::StringId(0) && ring.path().is_none()
    });
    drop(file);
    assert_eq!(status, 0);
    let mut reader = reader(&recorder);
    assert_eq!(addrs(&poll(&mut reader).0), [1]);
    assert_eq!(reader.string(trace_format::StringId(1)), None);
}

#[test]
fn a_forked_child_does_not_keep_its_parents_ring_alive() {
    let (_dir, recorder) = ring(64);
    let reader = reader(&recorder);
    let ring = recorder.ring();
    let (mut wait, mut go_on) = io::pipe().unwrap();
    let status = in_forked_child_while(
        || {
            ring.after_fork_child();
            io::Read::read(&mut wait, &mut [0]).is_ok()
        },
        || {
            assert!(reader.is_live());
            // As the parent's death would do it.
            *ring.file.lock().unwrap() = None;
            // The child above, and processes that other tests just forked, need a moment to let go.
            let deadline = Instant::now() + Duration::from_secs(10);
            while reader.is_live() {
                assert!(Instant::now() < deadline, "the ring still counts as live");
                std::thread::sleep(Duration::from_millis(1));
            }
            io::Write::write_all(&mut go_on, &[1]).unwrap();
        },
    );
    assert_eq!(status, 0);
}

/// Not a check but a figure: `cargo test --release -p allocator cost_of_a_record -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn cost_of_a_record() {
    const BATCH: u64 = 20_000;
    let options = options(&ring_dir(None), 1 << 20);
    let mut recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
    let mut batches: Vec<f64> = (0..1_000)
        .map(|batch| {
            let start = Instant::now();
            for n in 0..BATCH {
                recorder.record(StackId::NONE, std::hint::black_box(alloc(batch * BATCH + n)));
            }
            start.elapsed().as_nanos() as f64 / BATCH as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    // Others use the machine too: the fastest batch is the cost, the median what it was here and now.
    let (fastest, median) = (batches[0], batches[batches.len() / 2]);
    println!("record: {fastest:.1} ns, median {median:.1} ns, {:?}", recorder.ring().path());
}
