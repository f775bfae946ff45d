//! Threads of ours: no signal of the program reaches them, and a panic is reported and switches off what they do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use allocator::record::block_signals;

use crate::guard;

/// Starts a thread. After a panic it prints the warning `loss` and calls `lose`.
pub(super) fn spawn(
    name: &str,
    loss: &'static str,
    work: impl FnOnce() + Send + 'static,
    lose: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        block_signals();
        // The work is not looked at again.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            tracing::warn!("{loss}: {}", guard::internal_error(panic.as_ref()));
            lose();
        }
    })
}
