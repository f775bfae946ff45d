//! How long a thread waits for a heap that more threads use than there are cores, beside a plain mutex.
//!
//! `taskset -c 0,1 cargo run --release -p benches --bin contention [THREADS [SECONDS [ROUNDS]]]`: threads allocate and
//! free on one heap without a pause, first behind the heap's own lock, then behind `std::sync::Mutex`, in turns. An
//! operation that takes more than [`WAIT`] waited: the table has percentiles of those waits, of each kind the median
//! over the rounds, and the time of an operation over all threads. One core runs one thread at a time, so the scheduler
//! is part of every number: compare the two kinds, in one run.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use allocator::heap::{Heap, PoolChoice, Request};
use benches::quartiles;
use events::Off;
use recorder::AnyRecorder;
use settings::Config;
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{Addr, StackId, Stream};

const SIZE_BYTES: u64 = 4 << 20;

/// From here on an operation counts as a wait. An operation that gets the lock at once takes a hundredth of it.
const WAIT: Duration = Duration::from_micros(5);

type PlainHeap = Heap<SimDevice, AnyRecorder>;

/// One heap for all threads.
trait Shared: Sync {
    fn malloc(&self, request: &Request) -> Addr;
    fn free(&self, addr: Addr);
}

impl Shared for SharedHeap<SimDevice, AnyRecorder> {
    fn malloc(&self, request: &Request) -> Addr {
        self.malloc(request).expect("80 GiB are enough")
    }

    fn free(&self, addr: Addr) {
        self.free(addr, StackId::NONE).expect("the address is live");
    }
}

impl Shared for Mutex<PlainHeap> {
    fn malloc(&self, request: &Request) -> Addr {
        self.lock().expect("no panic").malloc(request).expect("80 GiB are enough")
    }

    fn free(&self, addr: Addr) {
        self.lock().expect("no panic").free(addr, StackId::NONE).expect("the address is live");
    }
}

fn heap() -> PlainHeap {
    let config = Config { search_after_flush: true, ..Config::default() };
    let device = SimDevice::new(SimConfig::default());
    Heap::new(device, config, AnyRecorder::Off(Off)).expect("the simulated device answers")
}

/// The measurements of one round.
struct Round {
    /// Wall time of an operation, over those of all threads.
    operation_ns: f64,
    /// Share of the operations that the thread with the fewest made; an even share is 1 over the threads.
    least_share: f64,
    /// The waits, shortest first.
    waits: Vec<Duration>,
}

impl Round {
    fn percentile(&self, share: f64) -> Duration {
        let at = (self.waits.len() as f64 * share) as usize;
        self.waits.get(at.min(self.waits.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// Milliseconds and nanoseconds, in the order of [`COLUMNS`].
    fn numbers(&self) -> [f64; 7] {
        let ms = |share| self.percentile(share).as_secs_f64() * 1e3;
        let count = self.waits.len() as f64;
        [self.operation_ns, self.least_share, count, ms(0.5), ms(0.99), ms(0.999), ms(1.0)]
    }
}

const COLUMNS: [&str; 7] =
    ["ns/op", "least share", "waits", "p50 ms", "p99 ms", "p99.9 ms", "max ms"];

/// Lets `threads` threads use the heap for a while.
fn hammer(heap: &impl Shared, threads: usize, time: Duration) -> Round {
    let (barrier, is_over) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let work = |stream| {
        let request = Request {
            requested_bytes: SIZE_BYTES,
            stream,
            pool: PoolChoice::ByScope,
            stack: StackId::NONE,
        };
        heap.free(heap.malloc(&request));
        let (mut operations, mut waits) = (0_u64, Vec::new());
        barrier.wait();
        let mut before = Instant::now();
        let mut note = |waits: &mut Vec<Duration>| {
            let now = Instant::now();
            let took = now - before;
            if took >= WAIT {
                waits.push(took);
            }
            before = now;
        };
        while !is_over.load(Ordering::Relaxed) {
            let addr = heap.malloc(&request);
            note(&mut waits);
            heap.free(black_box(addr));
            note(&mut waits);
            operations += 2;
        }
        (operations, waits)
    };
    let (took, done) = thread::scope(|scope| {
        let workers: Vec<_> =
            (1..=threads as u64).map(|stream| scope.spawn(move || work(Stream(stream)))).collect();
        barrier.wait();
        let begin = Instant::now();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        let done: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (begin.elapsed(), done)
    });
    let done: Vec<_> = done.into_iter().map(|one| one.expect("a worker's result")).collect();
    let total: u64 = done.iter().map(|(operations, _)| operations).sum();
    let least = done.iter().map(|(operations, _)| *operations).min().unwrap_or(0);
    let mut waits: Vec<_> = done.into_iter().flat_map(|(_, waits)| waits).collect();
    waits.sort_unstable();
    Round {
        operation_ns: took.as_nanos() as f64 / total as f64,
        least_share: least as f64 / total as f64,
        waits,
    }
}

fn main() -> ExitCode {
    let arguments: Result<Vec<u64>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let Ok(arguments) = arguments else {
        eprintln!("usage: contention [THREADS [SECONDS [ROUNDS]]]");
        return ExitCode::from(2);
    };
    let number = |at: usize, usual| arguments.get(at).copied().unwrap_or(usual).max(1);
    let (threads, seconds, rounds) = (number(0, 4), number(1, 2), number(2, 7));
    let (ours, plain) = (SharedHeap::new(heap()), Mutex::new(heap()));
    let time = Duration::from_secs(seconds);
    let mut kinds = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        kinds[0].push(hammer(&ours, threads as usize, time).numbers());
        kinds[1].push(hammer(&plain, threads as usize, time).numbers());
    }
    let medians: [[f64; 7]; 2] = kinds.map(|kind| {
        std::array::from_fn(|column| {
            quartiles(kind.iter().map(|row: &[f64; 7]| row[column]).collect())[1]
        })
    });
    let ratios: [f64; 7] = std::array::from_fn(|column| medians[0][column] / medians[1][column]);
    print!("{:<12}", format!("{threads} threads"));
    for column in COLUMNS {
        print!("{column:>13}");
    }
    println!();
    for (name, row) in [("heap's lock", medians[0]), ("std Mutex", medians[1]), ("ratio", ratios)] {
        print!("{name:<12}");
        for number in row {
            print!("{number:>13.3}");
        }
        println!();
    }
    ExitCode::SUCCESS
}
