//! Threads of ours: no signal of the program reaches them, and a panic is reported and switches off what they do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use recorder::block_signals;

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

#[cfg(test)]
pub(super) mod testing {
    use std::env;
    use std::process::{Command, Stdio};

    /// A process that runs one ignored test of this program and nothing else.
    pub(in crate::process) fn alone(test: &str) -> Command {
        let mut process = Command::new(env::current_exe().expect("the path of this program"));
        process
            .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"])
            .env_remove("VRAMTAPE_LOG")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        process
    }
}
