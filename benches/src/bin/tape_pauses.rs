//! How long an allocation waits for a tape's base states: `tape_pauses BLOCKS [none|whole|slices|off]...`
//!
//! A heap with so many live blocks allocates and frees about a million records a second, on a tape that takes a base
//! state every million records. `off` has no tape, `none` a tape without bases after the first, `whole` copies the
//! state under one hold of the heap's lock, `slices` as the library does.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allocator::heap::{Heap, PoolChoice, Request};
use recorder::{
    AnyRecorder, PER_HOLD, RingOptions, RingRecorder, SystemClock, TapeRecorder, TapeSource,
    base_in_slices,
};
use settings::Config;
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{BaseState, DeviceId, DeviceMeta, Meta, PoolId, StackId, Stream};

const RUN: Duration = Duration::from_secs(15);
const RECORDS_PER_SECOND: f64 = 1e6;

type Shared = Arc<SharedHeap<SimDevice, AnyRecorder>>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let blocks = arguments.next().and_then(|blocks| blocks.parse().ok()).unwrap_or(1_000_000);
    let mut ways: Vec<_> = arguments.collect();
    if ways.is_empty() {
        ways = ["off", "none", "whole", "slices"].map(str::to_owned).to_vec();
    }
    println!("{blocks} live blocks; times of one allocation or free");
    for way in ways {
        measure(blocks, &way);
    }
}

fn request(requested_bytes: u64) -> Request {
    let pool = PoolChoice::Exactly(PoolId::DEFAULT);
    Request { requested_bytes, stream: Stream(0), pool, stack: StackId::NONE }
}

fn measure(blocks: usize, way: &str) {
    let folder = std::env::temp_dir().join(format!("vramtape-pauses-{}", process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let options =
        RingOptions { dir: folder.clone(), device: DeviceId(0), slots: 1 << 20, has_pages: false };
    let recorder = RingRecorder::new(&options, SystemClock::new()).expect("a ring");
    let device = SimDevice::new(SimConfig::with_capacity(1 << 40));
    let heap = Heap::new(device, Config::default(), AnyRecorder::Ring(recorder)).expect("a heap");
    let heap: Shared = Arc::new(SharedHeap::new(heap));
    let mut live: Vec<_> = (0..blocks)
        .map(|n| heap.malloc(&request(512 + n as u64 % 7 * 512)).expect("memory"))
        .collect();
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let path = folder.join("run.vtape");
    let tape = (way != "off").then(|| {
        let tape = TapeRecorder::start(&path, Meta::default(), SystemClock::new()).expect("a tape");
        tape.add(source(&heap, way, &counts));
        tape
    });
    let (mut times, mut longest) = (vec![0_u64; 1 << 16], [Duration::ZERO; 5]);
    let (start, mut calls) = (Instant::now(), 0_u64);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while start.elapsed() < RUN {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = random as usize % live.len();
        let before = Instant::now();
        heap.free(live[at], StackId::NONE).expect("its own");
        let between = Instant::now();
        live[at] = heap.malloc(&request(512 + random % 7 * 512)).expect("memory");
        for elapsed in [between - before, between.elapsed()] {
            calls += 1;
            let last = times.len() - 1;
            times[(elapsed.as_nanos() as usize / 100).min(last)] += 1;
            if let Some(at) = longest.iter().position(|other| elapsed > *other) {
                longest[at..].rotate_right(1);
                longest[at] = elapsed;
            }
        }
        let due = Duration::from_secs_f64(calls as f64 / RECORDS_PER_SECOND);
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
    }
    let quantile = |part: f64| {
        let mut left = (calls as f64 * part) as u64;
        let at = times.iter().position(|count| {
            let is_there = *count >= left;
            left = left.saturating_sub(*count);
            is_there
        });
        at.unwrap_or_default() as f64 / 10.0
    };
    let lost = tape.map_or(0, |tape| tape.stop().expect("a tape").lost);
    println!(
        "{way:>7}: p50 {} us, p99.9 {} us, p99.999 {} us, longest {longest:.0?}; {calls} calls, {} bases, longest hold \
         {} us, {lost} records lost",
        quantile(0.5),
        quantile(0.999),
        quantile(0.99999),
        counts[0].load(Ordering::Relaxed),
        counts[1].load(Ordering::Relaxed) / 1_000,
    );
    let _ = std::fs::remove_dir_all(&folder);
}

fn source(heap: &Shared, way: &str, counts: &Arc<[AtomicU64; 2]>) -> TapeSource {
    let ring = Arc::clone(heap.lock().expect("whole").recorder().ring().expect("a ring"));
    let (heap, counts, of_heap) = (Arc::clone(heap), Arc::clone(counts), Arc::clone(&ring));
    let (only_first, per_hold) =
        (way == "none", if way == "slices" { PER_HOLD } else { usize::MAX });
    let is_whole = way == "whole";
    let base = move || -> Option<(BaseState, u64)> {
        if counts[0].fetch_add(1, Ordering::Relaxed) > 0 && only_first {
            return None;
        }
        let held = |start: Instant| {
            counts[1].fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        };
        if is_whole {
            let heap = heap.lock().ok()?;
            let start = Instant::now();
            let base = (heap.base_state(), of_heap.sequence());
            held(start);
            return Some(base);
        }
        base_in_slices(per_hold, &of_heap, &mut |work| {
            let heap = heap.lock().ok()?;
            let start = Instant::now();
            work(&heap);
            held(start);
            Some(())
        })
    };
    TapeSource { ring, base: Box::new(base), device: DeviceMeta::default() }
}
