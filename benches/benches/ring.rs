//! The flight recorder alone: one event in, and all events out.

use std::hint::black_box;

use allocator::record::{RING_DIR, Recorder, RingReader};
use benches::{ring_recorder, training_records};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use trace_format::DeviceId;

const EVENTS: usize = 100_000;
const SEED: u64 = 2;

fn record(criterion: &mut Criterion) {
    let records = training_records(SEED, EVENTS);
    let mut recorder = ring_recorder(DeviceId(0));
    let mut next = records.iter().cycle();
    let mut count = 0;
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(1));
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            let record = next.next().expect("a cycle");
            recorder.record(record.stack, black_box(record.event));
            count += 1;
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
        println!("ring/read_100k skipped: no room for a ring's file in {RING_DIR}");
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

criterion_group!(ring, record, read);
criterion_main!(ring);
