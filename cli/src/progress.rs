//! A bar for work that takes longer than a second, on standard error, if that is a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::caller::{Caller, caller};

/// Work that takes less time shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Work of unknown length.
pub(crate) struct Spinner {
    is_done: Arc<AtomicBool>,
    shower: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Begins work; nothing is shown yet.
    pub(crate) fn start(what: &str) -> Self {
        if caller().is_some() {
            return Self { is_done: Arc::default(), shower: None };
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let (what, seen) = (what.to_owned(), Arc::clone(&is_done));
        let shower = thread::spawn(move || {
            let started = Instant::now();
            while started.elapsed() < SHOWN_AFTER && !seen.load(Ordering::Acquire) {
                thread::park_timeout(SHOWN_AFTER);
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_prefix(what);
            let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}]");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            while !seen.load(Ordering::Acquire) {
                bar.tick();
                thread::park_timeout(Duration::from_millis(100));
            }
            bar.finish_and_clear();
        });
        Self { is_done, shower: Some(shower) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Release);
        if let Some(shower) = self.shower.take() {
            shower.thread().unpark();
            drop(shower.join()); // It shows, and holds nothing that could be lost.
        }
    }
}

/// Work of a known length.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    /// Receives the progress instead of the bar.
    caller: Option<Arc<dyn Caller>>,
    is_over_runs: bool,
}

impl Progress {
    /// Begins work on `total` records; nothing is shown yet.
    pub(crate) fn start(what: &str, total: u64) -> Self {
        Self::of(what, total, "{human_len} records", false)
    }

    /// Begins work on runs that are not read yet: `total` is their number times what each counts for.
    pub(crate) fn over_runs(what: &str, runs: usize, total: u64) -> Self {
        Self::of(what, total, &format!("{runs} runs"), true)
    }

    fn of(what: &str, total: u64, amount: &str, is_over_runs: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = format!("{{prefix}} {{bar:32}} {{percent:>3}} % of {amount} [{{eta}} left]");
        let style = ProgressStyle::with_template(&template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(what.to_owned());
        Self { bar, started: Instant::now(), caller: caller(), is_over_runs }
    }

    /// Whether it was begun [over runs](Self::over_runs).
    pub(crate) fn is_over_runs(&self) -> bool {
        self.is_over_runs
    }

    /// The work turns out to be so much.
    pub(crate) fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// `done` records are done.
    pub(crate) fn at(&self, done: u64) {
        self.bar.set_position(done);
        self.report();
    }

    /// So much more is done.
    pub(crate) fn add(&self, more: u64) {
        self.bar.inc(more);
        self.report();
    }

    /// Reports to the caller or the bar. Indicatif itself shows nothing where standard error is no terminal.
    fn report(&self) {
        if let Some(caller) = &self.caller {
            caller.at(self.bar.position(), self.bar.length().unwrap_or_default());
        } else if self.bar.is_hidden() && self.started.elapsed() > SHOWN_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
