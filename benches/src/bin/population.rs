//! The cost of many pools and streams in a live heap that records into a ring.
//!
//! `cargo run --release -p benches --bin population [POOLS [STREAMS]]` prints the time of a pool's cycle (create, open,
//! allocate, free, close, release) at first and after so many pools, and the time and memory of a stream that allocated
//! once, while its segment is cached and after the cache was emptied.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use benches::{Recording, Subject};
use trace_format::{DeviceId, PoolId, ScopeFilter, StackId, Stream};

const SIZE_BYTES: u64 = 4096;

/// Cycles whose mean is printed.
const CYCLES: u64 = 1_000;

fn cycle(subject: &Subject, number: u64) {
    let pool = PoolId(0, number + 1);
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

/// Microseconds of a cycle, each with a new pool from `first` on.
fn cycle_us(subject: &Subject, first: u64) -> f64 {
    let begin = Instant::now();
    (first..first + CYCLES).for_each(|number| cycle(subject, number));
    begin.elapsed().as_secs_f64() * 1e6 / CYCLES as f64
}

/// Bytes of this process in memory.
fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}

fn main() -> ExitCode {
    let arguments: Result<Vec<u64>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let Ok(arguments) = arguments else {
        eprintln!("usage: population [POOLS [STREAMS]]");
        return ExitCode::from(2);
    };
    let pools = arguments.first().copied().unwrap_or(38_000);
    let streams = arguments.get(1).copied().unwrap_or(20_000).max(1);

    let subject = Subject::new(Recording::Ring, DeviceId(0));
    println!("pool cycle, at first: {:.2} us", cycle_us(&subject, 0));
    (CYCLES..pools).for_each(|number| cycle(&subject, number));
    println!("pool cycle, after {pools} pools: {:.2} us", cycle_us(&subject, pools));

    let subject = Subject::new(Recording::Ring, DeviceId(1));
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
    ExitCode::SUCCESS
}
