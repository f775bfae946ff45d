//! The flight recorder alone: one event in, and all events out.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use benches::{ring_recorder, training_records};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use events::{BlockSlot, Recorder};
use recorder::{Clock, RingReader, SystemClock, ring_dir};
use trace_format::{Addr, DeviceId, Event, PoolId, StackId, Stream};

const EVENTS: usize = 100_000;
const SEED: u64 = 2;

/// The lower bound of a record: reading the time, and writing as many words as a record has.
fn floor(criterion: &mut Criterion) {
    let clock = SystemClock::new();
    let words: Vec<AtomicU64> = (0..4 << 20).map(|_| AtomicU64::new(1)).collect();
    let slots = words.as_chunks::<4>().0;
    let mut next = 0;
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(1));
    group.bench_function("floor", |bencher| {
        bencher.iter(|| {
            let ticks = clock.ticks();
            let slot = &slots[next & (slots.len() - 1)];
            for word in slot {
                word.store(black_box(ticks), Ordering::Relaxed);
            }
            next += 1;
        });
    });
}

/// Allocations and frees of a thousand blocks, as a heap records them.
fn record(criterion: &mut Criterion) {
    const LIVE: u64 = 1_000;
    let mut recorder = ring_recorder(DeviceId(0));
    let (mut next, mut count) = (0, 0);
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(2));
    group.bench_function("alloc_and_free", |bencher| {
        bencher.iter(|| {
            let place = next % LIVE;
            let (addr, size_bytes) = (Addr(black_box(place) << 20), black_box(4_096));
            let (requested_bytes, stack) = (size_bytes - 96, StackId::NONE);
            let (stream, pool) = (Stream(black_box(0)), PoolId::DEFAULT);
            let alloc = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
            recorder.record_block(BlockSlot(place as u32), stack, alloc, &());
            let free = Event::Free { addr, requested_bytes, size_bytes, pending: false };
            recorder.record_block(BlockSlot(place as u32), stack, free, &());
            next += 1;
            count += 2;
        });
    });
    assert!(recorder.ring().sequence() >= count, "every event is in the ring");
    recorder.ring().remove();
}

fn read(criterion: &mut Criterion) {
    let records = training_records(SEED, EVENTS);
    let mut recorder = ring_recorder(DeviceId(0));
    for record in &records {
        recorder.record(record.stack, record.event);
    }
    let Some(path) = recorder.ring().path() else {
        println!(
            "ring/read_100k skipped: no room for a ring's file in {}",
            ring_dir(None).display()
        );
        return;
    };
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("read_100k", |bencher| {
        bencher.iter_batched(
            || RingReader::open(&path).expect("a ring"),
            |mut reader| {
                let mut at = 0;
                let lost = reader.poll(|record| {
                    assert_eq!(record.event, records[at].event, "what went in comes out");
                    at += 1;
                });
                assert_eq!((at, lost), (EVENTS, 0));
            },
            BatchSize::PerIteration,
        );
    });
    recorder.ring().remove();
}

criterion_group!(ring, floor, record, read);
criterion_main!(ring);
