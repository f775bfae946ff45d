//! The steps of an allocation, each as alone as the allocator's interface lets it be; `ring.rs` has the recorder's.
//! Beside `pair/off/512B` of `heap.rs` they say where the time goes.

use std::hint::black_box;

use allocator::size;
use benches::{Random, Recording, Subject, mixed_sizes};
use criterion::{Criterion, criterion_group, criterion_main};
use settings::{Compat, Config};
use trace_format::{Addr, DeviceId, Stream};

const DEVICE: DeviceId = DeviceId(0);
const STREAM: Stream = Stream(0);
const SEED: u64 = 4;

/// 4,096 requests of all magnitudes in turn.
fn rounding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step/round");
    for (name, settings, expected) in
        [("default", "", 1 << 20), ("divisions", "roundup_power2_divisions:4", 1 << 20)]
    {
        let config = Config::parse(settings, Compat::default()).expect("settings").config;
        assert_eq!(size::round((1 << 20) - 7, &config), expected);
        let sizes = mixed_sizes(SEED, 4096);
        let mut next = sizes.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| size::round(black_box(*next.next().expect("a cycle")), &config));
        });
    }
}

/// The heap's lock, without contention.
fn lock(criterion: &mut Criterion) {
    let subject = Subject::new(Recording::Off, DEVICE);
    criterion.bench_function("step/lock", |bencher| {
        bencher.iter(|| drop(black_box(subject.heap.lock().expect("no panic"))));
    });
    subject.expect_idle(0);
}

/// From an address to its block, among live blocks that are segments of their own.
fn address(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step/address");
    for live in [1, 2_000] {
        const SIZE_BYTES: u64 = 20 << 20;
        let subject = Subject::new(Recording::Off, DEVICE);
        let addrs: Vec<Addr> = (0..live).map(|_| subject.malloc(SIZE_BYTES, STREAM)).collect();
        let mut random = Random::new(SEED);
        let heap = subject.heap.lock().expect("no panic");
        group.bench_function(format!("{live}live"), |bencher| {
            bencher.iter(|| {
                let addr = addrs[random.below(live) as usize];
                let (base, size_bytes) = heap.base_allocation(addr).expect("a live block");
                assert_eq!((base, size_bytes), (addr, SIZE_BYTES));
            });
        });
        drop(heap);
        for addr in addrs {
            subject.free(addr);
        }
        subject.expect_idle(live as i64);
    }
}

/// The best fit among free blocks of other sizes, each kept from its neighbours by a live one: an allocation and its
/// free, of which the search is what grows.
fn best_fit(criterion: &mut Criterion) {
    const STEP_BYTES: u64 = 512;
    let mut group = criterion.benchmark_group("step/best_fit");
    for free in [1, 10, 100, 1_000] {
        let subject = Subject::new(Recording::Off, DEVICE);
        let sizes: Vec<u64> = (1..=free).map(|n| n * STEP_BYTES).collect();
        let mut kept = Vec::new();
        let holes: Vec<Addr> = sizes
            .iter()
            .map(|size_bytes| {
                let hole = subject.malloc(*size_bytes, STREAM);
                kept.push(subject.malloc(STEP_BYTES, STREAM));
                hole
            })
            .collect();
        for addr in holes {
            subject.free(addr);
        }
        // The rest of a segment may be as large as a hole, and come before it.
        let best = sizes.iter().map(|size_bytes| {
            let addr = subject.malloc(*size_bytes, STREAM);
            subject.free(addr);
            addr
        });
        let best: Vec<Addr> = best.collect();
        let segments = subject.heap.lock().expect("no panic").stats().num_device_alloc;
        let mut random = Random::new(SEED);
        group.bench_function(format!("{free}free"), |bencher| {
            bencher.iter(|| {
                let at = random.below(free) as usize;
                let addr = subject.malloc(sizes[at], STREAM);
                assert_eq!(addr, best[at], "the same block every time");
                subject.free(addr);
            });
        });
        for addr in kept {
            subject.free(addr);
        }
        subject.expect_idle(segments);
    }
}

criterion_group!(steps, rounding, lock, address, best_fit);
criterion_main!(steps);
