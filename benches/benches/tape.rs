//! The tape: writing and reading 100,000 events in memory, opening and streaming a million, and a ring's way to disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use benches::{ring_recorder, training_records};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use events::Recorder;
use recorder::{RingRecorder, SystemClock, TapeRecorder, TapeSource};
use trace_format::{BaseState, DeviceId, DeviceMeta, Item, Meta, Reader, Record, Writer};

const EVENTS: usize = 100_000;
const SEED: u64 = 3;
/// Far above what is written (DESIGN wants 15 without stacks): a tape must not fall back to raw records unnoticed.
const BYTES_PER_EVENT_MAX: usize = 32;

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "memory", &Meta::default()).expect("a writer");
    for record in records {
        writer.push(DeviceId(0), record).expect("a record");
    }
    writer.finish().expect("a whole tape")
}

fn tape(criterion: &mut Criterion) {
    let records = training_records(SEED, EVENTS);
    let bytes = write(&records);
    assert!(bytes.len() < EVENTS * BYTES_PER_EVENT_MAX, "{} bytes", bytes.len());
    println!("tape: {:.2} bytes per event", bytes.len() as f64 / EVENTS as f64);
    let mut group = criterion.benchmark_group("tape");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("write_100k", |bencher| {
        bencher.iter(|| assert_eq!(write(&records).len(), bytes.len()));
    });
    group.bench_function("read_100k", |bencher| {
        bencher.iter(|| {
            let mut reader = Reader::new(bytes.as_slice(), "memory").expect("a tape");
            let mut events = 0;
            for item in reader.by_ref() {
                if let Item::Event(_, record) = item.expect("an item") {
                    assert_eq!(record, records[events]);
                    events += 1;
                }
            }
            assert_eq!(events, EVENTS);
            assert!(reader.recovered().torn.is_none());
        });
    });
}

/// A million events, as a viewer meets them: until the first is there, and until the last is.
fn million(criterion: &mut Criterion) {
    const EVENTS: usize = 1_000_000;
    let tape = write(&training_records(SEED, EVENTS));
    let mut group = criterion.benchmark_group("tape");
    group.sample_size(10);
    group.bench_function("open_1m", |bencher| {
        bencher.iter(|| Reader::new(tape.as_slice(), "memory").expect("a tape").next());
    });
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("stream_1m", |bencher| {
        bencher.iter(|| {
            let reader = Reader::new(tape.as_slice(), "memory").expect("a tape");
            let events = reader.filter(|item| matches!(item, Ok(Item::Event(..)))).count();
            assert_eq!(events, EVENTS);
        });
    });
}

/// A full ring's records onto a tape on disk.
fn drain(criterion: &mut Criterion) {
    const EVENTS: usize = 900_000;
    let records = training_records(SEED, EVENTS);
    let path = tape_path("drain");
    let mut group = criterion.benchmark_group("tape");
    group.sample_size(10);
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("drain_900k", |bencher| {
        bencher.iter_custom(|times| {
            let once = || {
                let mut ring = ring_recorder(DeviceId(0));
                let tape = start_tape(&path, &ring);
                let start = Instant::now();
                put(&mut ring, &records);
                let recorded = start.elapsed();
                let summary = tape.stop().expect("a tape");
                assert_eq!((summary.records, summary.lost), (EVENTS as u64, 0));
                ring.ring().remove();
                start.elapsed().saturating_sub(recorded)
            };
            (0..times).map(|_| once()).sum()
        });
    });
    group.finish();
    sustained(&records, &path);
    let _ = fs::remove_file(&path);
}

/// Three million events a second for some seconds, and what of them is missing on the tape.
fn sustained(records: &[Record], path: &Path) {
    const PER_SECOND: f64 = 3e6;
    const BURST: usize = 3_000;
    let seconds = if cfg!(debug_assertions) { 0.2 } else { 5.0 };
    let mut ring = ring_recorder(DeviceId(0));
    let tape = start_tape(path, &ring);
    let start = Instant::now();
    let (mut count, mut late) = (0, Duration::ZERO);
    for burst in records.chunks(BURST).cycle() {
        put(&mut ring, burst);
        count += burst.len();
        let due = Duration::from_secs_f64(count as f64 / PER_SECOND);
        match due.checked_sub(start.elapsed()) {
            Some(early) => std::thread::sleep(early),
            None => late = late.max(start.elapsed().saturating_sub(due)),
        }
        if due.as_secs_f64() >= seconds {
            break;
        }
    }
    let recorded = start.elapsed();
    let summary = tape.stop().expect("a tape");
    let bytes = fs::metadata(path).map_or(0, |file| file.len());
    println!(
        "tape: {count} events in {recorded:.2?} ({:.2} M/s, at most {late:.0?} late), {} lost, \
         {:.2} bytes each, done {:.0?} later",
        count as f64 / recorded.as_secs_f64() / 1e6,
        summary.lost,
        bytes as f64 / summary.records as f64,
        start.elapsed().saturating_sub(recorded),
    );
    ring.ring().remove();
}

fn put(ring: &mut RingRecorder, records: &[Record]) {
    for record in records {
        ring.record(record.stack, record.event);
    }
}

fn tape_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("vramtape-bench-{name}-{}.vtape", process::id()))
}

/// A tape of the ring, whose heap is never asked for its state before the ring turns over.
fn start_tape(path: &Path, ring: &RingRecorder) -> TapeRecorder {
    let tape = TapeRecorder::start(path, Meta::default(), SystemClock::new()).expect("a tape");
    let (ring, shared) = (Arc::clone(ring.ring()), Arc::clone(ring.ring()));
    let base = Box::new(move || Some((BaseState::default(), shared.sequence())));
    tape.add(TapeSource { ring, base, device: DeviceMeta::default() });
    tape
}

criterion_group!(benches, tape, million, drain);
criterion_main!(benches);
