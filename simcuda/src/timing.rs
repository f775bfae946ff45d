//! The time that is spent in this library's entry points, counted on request: the scoreboard of dry runs reads it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::abi::{Out, driver};

static IS_ON: AtomicBool = AtomicBool::new(false);
static SPENT_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether an entry point of this thread is timed already: one may call another.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The time of an entry point, which ends with this value.
pub(crate) struct Timer(Option<Instant>);

/// Starts the time of an entry point. Without a request it is one load.
pub(crate) fn start() -> Timer {
    if !IS_ON.load(Relaxed) || IS_INSIDE.replace(true) {
        return Timer(None);
    }
    Timer(Some(Instant::now()))
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(started) = self.0 {
            SPENT_NS.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
            IS_INSIDE.set(false);
        }
    }
}

driver! {
    /// Writes the nanoseconds that all threads have spent in entry points since the first call, which starts to count.
    fn simcuda_spent_ns(out: Out<u64>) {
        IS_ON.store(true, Relaxed);
        out.set(SPENT_NS.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_point_inside_another_is_counted_once() {
        IS_ON.store(true, Relaxed);
        let before_ns = SPENT_NS.load(Relaxed);
        let outer = start();
        assert!(outer.0.is_some() && start().0.is_none(), "the inner one is part of the outer one");
        assert!(start().0.is_none(), "the outer one has not ended");
        drop(outer);
        assert!(SPENT_NS.load(Relaxed) > before_ns && start().0.is_some());
    }
}
