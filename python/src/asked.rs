//! A question on its way: how far it is, and its reply.

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cli::Caller;
use serde::Serialize;

/// The panic payload of a question that was given up.
struct GivenUp;

/// A question on its way.
#[derive(Default)]
pub(crate) struct Asked {
    done: AtomicU64,
    total: AtomicU64,
    is_given_up: AtomicBool,
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    is_finished: bool,
    reply: Reply,
}

/// The reply that Python reads.
#[derive(Clone, Default, Serialize)]
struct Reply {
    /// The text that `--json` prints.
    answer: Option<String>,
    error: Option<String>,
    warnings: Vec<String>,
}

impl Asked {
    /// Begins to work on it.
    pub(crate) fn start(arguments: Vec<OsString>, threads: usize) -> io::Result<Arc<Self>> {
        let asked = Arc::new(Self::default());
        let worker = Arc::clone(&asked);
        let work = move || worker.work(arguments, threads);
        thread::Builder::new().name("vramtape lab".to_owned()).spawn(work)?;
        Ok(asked)
    }

    fn work(self: Arc<Self>, arguments: Vec<OsString>, threads: usize) {
        let caller: Arc<dyn Caller> = self.clone();
        // All a question has is its own; what unwinds leaves nothing half done.
        let asked = catch_unwind(AssertUnwindSafe(|| cli::ask(caller, threads, arguments)));
        let mut state = self.state();
        match asked {
            Ok(Ok(answer)) => state.reply.answer = Some(answer),
            Ok(Err(error)) => state.reply.error = Some(error),
            Err(panic) if panic.is::<GivenUp>() => {}
            Err(panic) => {
                let what = message(panic.as_ref());
                state.reply.error =
                    Some(format!("internal error in vramtape, please report it: {what}"));
            }
        }
        state.is_finished = true;
        self.finished.notify_all();
    }

    /// Whether it is finished, within so much time.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let waited =
            self.finished.wait_timeout_while(self.state(), longest, |state| !state.is_finished);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_finished
    }

    /// The number of records that are done, and of all.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// The reply as JSON.
    pub(crate) fn reply(&self) -> String {
        // Strings always are JSON.
        serde_json::to_string(&self.state().reply).unwrap_or_default()
    }

    /// Makes the work end at its next progress report.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller for Asked {
    fn at(&self, done: u64, total: u64) {
        if self.is_given_up.load(Ordering::Relaxed) {
            resume_unwind(Box::new(GivenUp)); // Without a word on standard error.
        }
        self.total.store(total, Ordering::Relaxed);
        self.done.fetch_max(done, Ordering::Relaxed);
    }

    fn warn(&self, text: &str) {
        let mut state = self.state();
        if !state.reply.warnings.iter().any(|known| known == text) {
            state.reply.warnings.push(text.to_owned());
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        return text;
    }
    panic.downcast_ref::<&str>().copied().unwrap_or("a panic without a message")
}
