//! A bar for work that takes longer than a second, on standard error, if that is a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work of a known length.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// Begins work on `total` records; nothing is shown yet.
    pub(crate) fn start(what: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{prefix} {bar:32} {percent:>3} % of {human_len} records [{eta} left]";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(what.to_owned());
        Self { bar, started: Instant::now() }
    }

    /// `done` records are done. Indicatif itself shows nothing where standard error is no terminal.
    pub(crate) fn at(&self, done: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
