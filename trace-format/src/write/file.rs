//! A tape's file: under a temporary name until it is finished, or in place where it is to be read meanwhile.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Files started by this process, so that no two share a temporary name.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// The step that gives a file written under a temporary name its own. Dropped before that, it removes the file.
#[derive(Debug)]
pub struct Commit {
    file: File,
    from: PathBuf,
    to: PathBuf,
    done: bool,
}

impl Commit {
    /// A new file beside `to`, and what is to be done with it at the end.
    ///
    /// # Errors
    /// Where it cannot be created, and where `to` is what a file must not replace: a device, a pipe, a folder.
    pub fn begin(to: &Path) -> io::Result<(File, Self)> {
        if fs::metadata(to).is_ok_and(|there| !there.is_file()) {
            let reason = "it is a device, a pipe or a folder, which a file must not replace";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut name = to.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.part", std::process::id()));
        let from = to.with_file_name(name);
        let file = File::create(&from)?;
        let commit = Self { file: file.try_clone()?, from, to: to.to_owned(), done: false };
        Ok((file, commit))
    }

    /// Waits until the file is on its disk, then gives it its name.
    ///
    /// # Errors
    /// Where the system refuses either.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.from, &self.to)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        if !self.done {
            // Nothing is left to do about a file that cannot be removed; its name says that it is a part.
            let _ = fs::remove_file(&self.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_device_or_a_folder_is_not_replaced_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("null");
        symlink("/dev/null", &link).unwrap();
        for to in [link.as_path(), folder.path()] {
            let error = Commit::begin(to).unwrap_err().to_string();
            assert!(error.contains("must not replace"), "{}: {error}", to.display());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "and nothing is left behind");
        let (_, commit) = Commit::begin(&folder.path().join("new")).unwrap();
        commit.finish().unwrap();
    }
}
