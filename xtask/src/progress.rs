//! Progress of a long step: a spinner on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two signs of life where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// One piece of work with a name, shown on stderr while it runs.
pub(crate) struct Step {
    name: String,
    bar: ProgressBar,
    started: Instant,
    last_shown: Instant,
}

impl Step {
    /// Announces the work.
    pub(crate) fn start(name: impl Into<String>) -> Self {
        let name = name.into();
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg:.dim}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_prefix(name.clone());
        if bar.is_hidden() {
            eprintln!("{name} ...");
        } else {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        let now = Instant::now();
        Self { name, bar, started: now, last_shown: now }
    }

    /// Shows what the work is doing: at once on a terminal, else one line in each half minute.
    pub(crate) fn doing(&mut self, line: &str) {
        self.bar.set_message(line.to_owned());
        if self.bar.is_hidden() && self.last_shown.elapsed() > HEARTBEAT {
            eprintln!("  {} ({} s): {line:.80}", self.name, self.started.elapsed().as_secs());
            self.last_shown = Instant::now();
        }
    }

    /// The work is done: takes the spinner away and leaves one line.
    pub(crate) fn done(self) {
        self.bar.finish_and_clear();
        eprintln!("{}: done in {:.1} s", self.name, self.started.elapsed().as_secs_f64());
    }
}

impl Drop for Step {
    /// A step that failed leaves no spinner behind; the error speaks.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
