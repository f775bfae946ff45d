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
        Self::start_with(path, move || render(&context, &collect::devices(), &labels))
    }

    fn start_with(
        path: PathBuf,
        text: impl Fn() -> String + Send + 'static,
    ) -> Result<Self, String> {
        let writer = Writer { path, text, has_warned: false };
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

struct Writer<F> {
    path: PathBuf,
    /// What to write.
    text: F,
    has_warned: bool,
}

impl<F: Fn() -> String> Writer<F> {
    fn run(mut self, is_stopping: &AtomicBool) {
        loop {
            // Asked before writing, so that the last text is from after the stop.
            let is_last = is_stopping.load(Ordering::Acquire);
            if let Err(error) = write(&self.path, &(self.text)())
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::{env, fs};

    use super::*;
    use crate::process::helper::testing::alone;

    const PATH: &str = "VRAMTAPE_TEST_TEXT_FILE";

    #[test]
    fn a_panic_is_a_warning_and_leaves_the_last_text_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.prom");
        let test = "process::metrics::text_file::tests::process_whose_second_text_panics";
        let output = alone(test).env(PATH, &path).output().expect("a process");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let loss = "vramtape: the metrics are not written from here on: internal error in vramtape";
        assert_eq!(text.matches("vramtape: ").count(), 1, "{text}");
        assert!(text.contains(loss) && text.contains("the second text"), "{text}");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "the first text\n");
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 1, "nothing is left over");
    }

    #[test]
    #[ignore = "run by another test as a process"]
    fn process_whose_second_text_panics() {
        crate::log::start().expect("no level is set");
        std::panic::set_hook(Box::new(|_| {}));
        let path = PathBuf::from(env::var_os(PATH).expect("a path"));
        let texts = AtomicUsize::new(0);
        let file = TextFile::start_with(path.clone(), move || {
            assert_eq!(texts.fetch_add(1, Ordering::Relaxed), 0, "the second text");
            "the first text\n".to_owned()
        });
        while !path.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        // As at the end of a program, which waits for the last text.
        file.expect("a thread").finish();
    }
}
