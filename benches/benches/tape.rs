//! The tape: writing and reading 100,000 events in memory.

use benches::training_records;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trace_format::{DeviceId, Item, Meta, Reader, Record, Writer};

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

criterion_group!(benches, tape);
criterion_main!(benches);
