//! Allocators of host memory, measured as the peers are: how far from them an allocator of GPU memory is.
//!
//! Each is the global allocator of a program of its own (`src/bin`).

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Live blocks among which one is freed and another allocated.
const LIVE: usize = 1_000;
/// Operations before any is timed.
const WARM_UP: usize = 2_000;
/// As `kThreadsFactor` in `cpp/measure.h`.
const THREADS_FACTOR: usize = 10;
/// As many sizes as `cpp/operation.h` makes, and of the same seed.
const STEPS: usize = 1 << 16;
const SEED: u64 = 1;

/// The measured operations; the names are those of `cpp/peers.cpp`. A size of 0 is mixed sizes; those
/// with threads are left out, since some allocators take longer for them than everything else together.
const OPERATIONS: [(&str, usize, usize); 7] = [
    ("pair 512 B", 512, 1),
    ("pair 64 KiB", 64 << 10, 1),
    ("pair 4 MiB", 4 << 20, 1),
    ("pair 64 MiB", 64 << 20, 1),
    ("mixed 1000 live", 0, 1),
    ("threads 2, 1 device, 4 MiB", 4 << 20, 2),
    ("threads 4, 1 device, 4 MiB", 4 << 20, 4),
];

/// Measures the program's global allocator: `PROGRAM ROUNDS COUNT [ONLY]...`, as `peers.cpp`.
///
/// # Panics
/// Where the arguments are not numbers.
pub fn main(subject: &str) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<usize>().ok());
    let (Some(rounds), Some(count)) = (number(0), number(1)) else {
        panic!("usage: scale-{subject} ROUNDS COUNT [ONLY]...");
    };
    let only = &arguments[2..];
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part));
    for _ in 0..rounds {
        for (name, size_bytes, threads) in OPERATIONS {
            if is_wanted(name) {
                println!("{name}\t{subject}\t{:.3}", measure(size_bytes, threads, count));
            }
        }
    }
}

/// Wall nanoseconds for each operation of all threads together, from when all of them are ready.
fn measure(size_bytes: usize, threads: usize, count: usize) -> f64 {
    let count = if threads > 1 { count * THREADS_FACTOR } else { count };
    let barrier = Barrier::new(threads);
    let work = |number: usize| {
        let mut work = Work::new(size_bytes, SEED + number as u64);
        work.run(WARM_UP);
        barrier.wait();
        let begin = Instant::now();
        work.run(count);
        (begin, Instant::now())
    };
    let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let spawn = |number| scope.spawn(move || work(number));
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread's times")).collect()
    });
    let begin = spans.iter().map(|span| span.0).min().expect("a thread");
    let end = spans.iter().map(|span| span.1).max().expect("a thread");
    (end - begin).as_nanos() as f64 / (count * threads) as f64
}

/// One thread's memory and what it does with it.
struct Work {
    size_bytes: usize,
    steps: Vec<(usize, usize)>,
    next: usize,
    live: Vec<Vec<u8>>,
}

impl Work {
    fn new(size_bytes: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut step = |_| {
            let magnitude = 1 << random.below(24);
            let size_bytes = (magnitude + random.below(magnitude)) as usize;
            (random.below(LIVE as u64) as usize, size_bytes)
        };
        let is_mixed = size_bytes == 0;
        let steps: Vec<_> = (0..if is_mixed { STEPS } else { 0 }).map(&mut step).collect();
        let live = steps.iter().take(LIVE).map(|step| Vec::with_capacity(step.1)).collect();
        Self { size_bytes, steps, next: 0, live }
    }

    fn run(&mut self, count: usize) {
        if self.size_bytes > 0 {
            for _ in 0..count {
                drop(black_box(Vec::<u8>::with_capacity(black_box(self.size_bytes))));
            }
            return;
        }
        for _ in 0..count {
            let (slot, size_bytes) = self.steps[self.next % STEPS];
            self.next += 1;
            self.live[slot] = Vec::new();
            self.live[slot] = black_box(Vec::with_capacity(size_bytes));
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}
