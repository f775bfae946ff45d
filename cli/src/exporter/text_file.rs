//! The file that node exporter's textfile collector reads: written whole, every few seconds.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, mem};

use trace_format::Commit;

use crate::caller;

/// A file that is kept up to date.
pub(super) struct TextFile {
    path: PathBuf,
    interval: Duration,
    due: Instant,
    has_failed: bool,
}

impl TextFile {
    /// A file that is due at once.
    pub(super) fn new(path: PathBuf, interval: Duration) -> Self {
        Self { path, interval, due: Instant::now(), has_failed: false }
    }

    /// When it is to be written.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Writes it where that is due. The first failure is a warning; it is tried again each time.
    pub(super) fn write_if_due(&mut self, now: Instant, metrics: impl FnOnce() -> String) {
        if now < self.due {
            return;
        }
        self.due = now + self.interval;
        let failure = write(&self.path, &metrics()).err();
        let has_failed = mem::replace(&mut self.has_failed, failure.is_some());
        if let Some(error) = failure.filter(|_| !has_failed) {
            let (path, seconds) = (self.path.display(), self.interval.as_secs_f64());
            caller::warn(&format!(
                "cannot write {path}: {error}; it is tried again every {seconds} s"
            ));
        }
    }

    /// Removes it: what it says is not kept up to date any more.
    pub(super) fn remove(self) {
        if !self.has_failed {
            // It may be gone already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The path in `--textfile`.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if Path::new(text).extension().is_some_and(|extension| extension == "prom") {
        return Ok(PathBuf::from(text));
    }
    Err("node exporter reads files only whose names end in .prom".to_owned())
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let (mut file, commit) = Commit::begin(path)?;
    file.write_all(text.as_bytes())?;
    commit.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_when_due_and_not_before_and_ends_with_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.prom");
        let mut file = TextFile::new(path.clone(), Duration::from_secs(5));
        let mut now = file.due();
        file.write_if_due(now, || "first\n".to_owned());
        now += Duration::from_secs(4);
        file.write_if_due(now, || panic!("it is not due"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\n");
        now += Duration::from_secs(1);
        file.write_if_due(now, || "second\n".to_owned());
        assert_eq!(fs::read_to_string(&path).unwrap(), "second\n");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left over");
        file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_name_that_node_exporter_does_not_read_is_refused() {
        assert!(path("/var/lib/vramtape.txt").unwrap_err().contains(".prom"));
        assert_eq!(path("a.prom"), Ok(PathBuf::from("a.prom")));
    }
}
