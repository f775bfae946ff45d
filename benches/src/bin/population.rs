//! The cost of many pools and streams in a live heap that records into a ring.
//!
//! `cargo run --release -p benches --bin population [POOLS [STREAMS]]` prints the time and memory of
//! a stream that allocated once, while its segment is cached and after the cache was emptied. Then the time of a pool's
//! cycle (create, begin, allocate, free, end, release, empty cache: the pool ends) after so many cycles, and beside so
//! many live pools, each with a cached segment.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use benches::{Recording, Subject};
use trace_format::{DeviceId, PoolId, ScopeFilter, StackId, Stream};

const SIZE_BYTES: u64 = 4096;

/// Cycles whose mean is printed.
const CYCLES: u64 = 1_000;

/// The most live pools, and streams: the device has room for a segment of each, and for a cycle's beside them.
const MAX: u64 = 40_000;

/// Makes a pool that is released and lives on for its segment.
fn begin_life(subject: &Subject, pool: PoolId) {
    {
        let mut heap = subject.heap.lock().expect("no panic");
        heap.create_pool(pool, None).expect("a new pool");
        heap.begin_pool(pool, ScopeFilter::Thread, Arc::new(|_| true)).expect("a closed pool");
    }
    let addr = subject.malloc(SIZE_BYTES, Stream(0));
    subject.free(addr);
    let mut heap = subject.heap.lock().expect("no panic");
    heap.end_pool(pool).expect("an open pool");
    heap.release_pool(pool).expect("a pool with users");
    heap.release_pool(pool).expect("a pool with a user");
}

/// A whole life, as `torch.cuda.MemPool` makes it.
fn cycle(subject: &Subject, pool: PoolId) {
    begin_life(subject, pool);
    let mut heap = subject.heap.lock().expect("no panic");
    heap.empty_cache(pool, StackId::NONE).expect("the device answers");
}

/// Microseconds of each `life`, of pools from number `first` on.
fn mean_us(subject: &Subject, first: u64, count: u64, life: impl Fn(&Subject, PoolId)) -> f64 {
    let begin = Instant::now();
    (first..first + count).for_each(|number| life(subject, PoolId(0, number + 1)));
    begin.elapsed().as_secs_f64() * 1e6 / count as f64
}

/// Cycles one after another, each with a new pool.
fn print_cycles(pools: u64) {
    let subject = Subject::new(Recording::Ring, DeviceId(1));
    let cycle_us = |first| mean_us(&subject, first, CYCLES, cycle);
    println!("pool cycle, at first: {:.2} us", cycle_us(0));
    let before_bytes = resident_bytes();
    mean_us(&subject, CYCLES, pools, cycle);
    let bytes = (resident_bytes() - before_bytes) / pools as f64;
    let us = cycle_us(CYCLES + pools);
    println!("pool cycle, after {pools} pools that ended: {us:.2} us; each left {bytes:.0} bytes");
}

/// Cycles beside pools that live.
fn print_live(pools: u64) {
    let subject = Subject::new(Recording::Ring, DeviceId(2));
    let mut live = 0;
    for wanted in [1_000, 10_000, MAX].map(|wanted| wanted.min(pools)) {
        if wanted > live {
            let begin_us = mean_us(&subject, live, wanted - live, begin_life);
            live = wanted;
            let cycle_us = mean_us(&subject, 2 * MAX * live, CYCLES, cycle);
            println!(
                "pool cycle, beside {live} live pools: {cycle_us:.2} us; each of these took {begin_us:.2} us"
            );
        }
    }
}

/// Bytes of this process in memory.
fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}

/// Streams that allocate once. Comes first: memory that an earlier heap gave back would be used again, unseen.
fn print_streams(streams: u64) {
    let subject = Subject::new(Recording::Ring, DeviceId(0));
    subject.free(subject.malloc(SIZE_BYTES, Stream(0)));
    let (begin, before_bytes) = (Instant::now(), resident_bytes());
    for stream in 1..=streams {
        subject.free(subject.malloc(SIZE_BYTES, Stream(stream)));
    }
    let per_stream = |value: f64| value / streams as f64;
    println!(
        "stream with a cached segment: {:.2} us, {:.0} bytes",
        per_stream(begin.elapsed().as_secs_f64() * 1e6),
        per_stream(resident_bytes() - before_bytes)
    );
    let flushed = subject.heap.lock().map(|mut heap| {
        heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("the device answers");
    });
    flushed.expect("no panic");
    println!("stream without memory: {:.0} bytes", per_stream(resident_bytes() - before_bytes));
}

fn usage() -> ExitCode {
    eprintln!("usage: population [POOLS [STREAMS]], each from 1 to {MAX}");
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let arguments: Result<Vec<u64>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let Ok(arguments) = arguments else {
        return usage();
    };
    let pools = arguments.first().copied().unwrap_or(MAX);
    let streams = arguments.get(1).copied().unwrap_or(MAX);
    if [pools, streams].iter().any(|count| !(1..=MAX).contains(count)) {
        return usage();
    }
    print_streams(streams);
    print_cycles(pools);
    print_live(pools);
    ExitCode::SUCCESS
}
