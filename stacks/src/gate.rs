//! Counts the threads that read the interpreter, so that its end can wait for them.
//!
//! A daemon thread may be in the middle of a walk when the main thread begins to finalize the interpreter. Python's
//! `atexit` functions run before that: ours closes the gate and waits until no thread is inside.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

/// Threads share a counter only if there are more of them than these.
const COUNTERS: usize = 64;

/// A walk takes microseconds, and a thread that waits for the interpreter gets it: only a thread that ended inside
/// stays longer.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Threads inside.
static INSIDE: [CachePadded<AtomicU32>; COUNTERS] =
    [const { CachePadded::new(AtomicU32::new(0)) }; COUNTERS];
static IS_CLOSED: AtomicBool = AtomicBool::new(false);
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is inside while this lives.
pub(crate) struct Inside(&'static AtomicU32);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Lets the calling thread in, unless the interpreter is ending.
#[inline]
pub(crate) fn enter() -> Option<Inside> {
    let counter = counter();
    // Sequentially consistent, like the closing: either it sees us inside or we see it closed.
    counter.fetch_add(1, Ordering::SeqCst);
    let inside = Inside(counter);
    (!IS_CLOSED.load(Ordering::SeqCst)).then_some(inside)
}

#[inline]
fn counter() -> &'static AtomicU32 {
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let mut number = NUMBER.get();
    if number == usize::MAX {
        number = THREADS.fetch_add(1, Ordering::Relaxed) % COUNTERS;
        NUMBER.set(number);
    }
    &INSIDE[number]
}

/// Lets no more threads in.
pub(crate) fn close() {
    IS_CLOSED.store(true, Ordering::SeqCst);
}

/// Waits until no thread is inside, for at most [`WAIT_MAX`].
pub(crate) fn wait_until_empty() {
    let start = Instant::now();
    let is_empty = || INSIDE.iter().all(|counter| counter.load(Ordering::SeqCst) == 0);
    while !is_empty() && start.elapsed() < WAIT_MAX {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Call in a forked child: the threads that were inside are not in this process.
pub fn after_fork_child() {
    for counter in &INSIDE {
        counter.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, as the gate is the process's and never opens again.
    #[test]
    fn closing_waits_for_those_inside_and_lets_no_other_in() {
        let inside = enter().expect("open at first");
        close();
        assert!(enter().is_none());
        let waiting = std::thread::spawn(wait_until_empty);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "one is inside");
        drop(inside);
        waiting.join().unwrap();
        let counted: u32 = INSIDE.iter().map(|counter| counter.load(Ordering::SeqCst)).sum();
        assert_eq!(counted, 0);
    }
}
