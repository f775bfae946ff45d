//! The file that node exporter's textfile collector reads: written whole, every few seconds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, mem};

use trace_format::Commit;

use super::collect::{self, Context};
use super::family::Label;
use super::render::render;
use crate::process::helper;

/// Prometheus itself asks less often.
const EVERY: Duration = Duration::from_secs(5);

/// A file that is being kept up to date.
pub(in crate::process) struct TextFile {
    thread: JoinHandle<()>,
    is_stopping: Arc<AtomicBool>,
}

impl TextFile {
    /// Writes the file from now on, each value with `labels`: node exporter reads all files of the
    /// folder as one. A path that cannot be written is a warning, once.
    pub(super) fn start(
        path: PathBuf,
        labels: Vec<Label>,
        context: Context,
    ) -> Result<Self, String> {
        let writer = Writer { path, labels, context, has_warned: false };
        let is_stopping = Arc::new(AtomicBool::new(false));
        let work = {
            let is_stopping = Arc::clone(&is_stopping);
            move || writer.run(&is_stopping)
        };
        let thread = helper::spawn(
            "vramtape-metrics",
            "the metrics are not written from here on",
            work,
            || {},
        );
        let thread = thread.map_err(|error| format!("cannot start their thread: {error}"))?;
        Ok(Self { thread, is_stopping })
    }

    /// Writes the file once more, and no more after that.
    pub(super) fn finish(self) {
        self.is_stopping.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // A panic there was reported.
        let _ = self.thread.join();
    }

    /// There is no such thread in the child, not even one to detach from.
    pub(super) fn after_fork_child(self) {
        mem::forget(self);
    }
}

struct Writer {
    path: PathBuf,
    labels: Vec<Label>,
    context: Context,
    has_warned: bool,
}

impl Writer {
    fn run(mut self, is_stopping: &AtomicBool) {
        loop {
            // Asked before writing, so that the last text is from after the stop.
            let is_last = is_stopping.load(Ordering::Acquire);
            let text = render(&self.context, &collect::devices(), &self.labels);
            if let Err(error) = write(&self.path, &text)
                && !mem::replace(&mut self.has_warned, true)
            {
                let path = self.path.display();
                tracing::warn!(
                    "no metrics: cannot write {path}: {error}; it will be tried again every {} s",
                    EVERY.as_secs()
                );
            }
            if is_last {
                return;
            }
            thread::park_timeout(EVERY);
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let (mut file, commit) = Commit::begin(path)?;
    file.write_all(text.as_bytes())?;
    commit.finish()
}
