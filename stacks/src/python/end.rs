//! Threads that CPython ends while they wait for its lock.
//!
//! Once the interpreter is ending, CPython up to 3.13 ends every other thread that asks for its lock by `pthread_exit`.
//! Its forced unwinding cannot pass through Rust's `catch_unwind` or through a C++ destructor, as PyTorch's deleters
//! are: both abort the process. Such a thread sleeps here for the rest of the process instead, as it does in CPython
//! itself from 3.14 on.

use std::thread;
use std::time::Duration;

use super::api::Api;
use crate::gate;

/// CPython sets two flags at its end, one after the other: a thread may be ended between the two.
const LOOKS: u32 = 20;

/// Sleeps for the rest of the process if it is dropped by a forced unwinding.
struct Park(&'static Api);

impl Drop for Park {
    #[cold]
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        for _ in 0..LOOKS {
            while is_ending(self.0) {
                thread::sleep(Duration::MAX);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs a call that may wait for Python's lock. A thread that CPython ends in there never comes back.
pub(super) fn park_if_ended<T>(api: &'static Api, body: impl FnOnce() -> T) -> T {
    let park = Park(api);
    let answer = body();
    std::mem::forget(park);
    answer
}

/// Calls a function of the program, which may be Python's; `None` once the interpreter is ending. A thread that CPython
/// ends in there never comes back: not to be called with a lock that the end of the process needs.
pub fn call_program<T>(function: impl FnOnce() -> T) -> Option<T> {
    let Some(api) = super::api() else { return Some(function()) };
    let _inside = gate::enter()?;
    (!api.is_finalizing()).then(|| park_if_ended(api, function))
}

/// Whether the interpreter is ending or has ended.
pub(super) fn is_ending(api: &Api) -> bool {
    // SAFETY: may be called at any time, by any thread.
    let is_initialized = unsafe { (api.Py_IsInitialized)() } != 0;
    !is_initialized || api.is_finalizing()
}
