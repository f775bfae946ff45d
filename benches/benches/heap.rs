//! One thread: an allocation and its free, alone and among a thousand live blocks.

use std::hint::black_box;

use benches::{Random, Recording, Setup, Subject, mixed_sizes};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trace_format::{DeviceId, Stream};

const DEVICE: DeviceId = DeviceId(0);
const STREAM: Stream = Stream(0);

/// An allocation and its free, of a size that the cache holds.
fn pairs(criterion: &mut Criterion) {
    for setup in Setup::ALL {
        let mut group = criterion.benchmark_group(format!("pair/{}", setup.name()));
        for (name, size) in
            [("512B", 512), ("64KiB", 64 << 10), ("4MiB", 4 << 20), ("64MiB", 64 << 20)]
        {
            let subject = setup.subject(DEVICE);
            let addr = subject.malloc(size, STREAM);
            subject.free(addr);
            let segments = subject.device_allocs();
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let again = subject.malloc(black_box(size), STREAM);
                    assert_eq!(again, addr, "the cached block serves");
                    subject.free(again);
                });
            });
            subject.expect_idle(segments);
        }
    }
}

/// A free and an allocation of another size, at random among 1,000 live blocks.
fn mixed(criterion: &mut Criterion) {
    const LIVE: usize = 1_000;
    const SEED: u64 = 1;
    for recording in Recording::ALL {
        let subject = Subject::new(recording, DEVICE);
        let sizes = mixed_sizes(SEED, 1 << 16);
        let mut live: Vec<_> =
            sizes[..LIVE].iter().map(|size| subject.malloc(*size, STREAM)).collect();
        let mut random = Random::new(SEED);
        let mut next = sizes.iter().cycle();
        let mut group = criterion.benchmark_group("mixed");
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("1000live/{}", recording.name()), |bencher| {
            bencher.iter(|| {
                let slot = random.below(LIVE as u64) as usize;
                subject.free(live[slot]);
                live[slot] = subject.malloc(*next.next().expect("a cycle"), STREAM);
            });
        });
        group.finish();
        assert_eq!(subject.heap.lock().expect("no panic").allocations(), LIVE);
        for addr in live {
            subject.free(addr);
        }
        subject.heap.lock().expect("no panic").check().expect("the heap is consistent");
    }
}

criterion_group!(heap, pairs, mixed);
criterion_main!(heap);
