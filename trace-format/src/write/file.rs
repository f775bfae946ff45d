//! A file that appears whole: under a temporary name until it is finished, then renamed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Permissions of a new file before the process's umask, as [`File::create`] gives them.
const MODE: u32 = 0o666;

/// The step that gives a file written under a temporary name its own. Dropped before that, it removes the file.
///
/// The temporary name is random and the file is new: another user of a shared folder can neither foresee the name nor
/// put a link in its place.
#[derive(Debug)]
pub struct Commit {
    file: NamedTempFile,
    to: PathBuf,
}

impl Commit {
    /// A new file beside `to`, and the step that finishes it.
    ///
    /// # Errors
    /// Where it cannot be created, and where `to` is something that a file must not replace: a device, a pipe, a
    /// folder.
    pub fn begin(to: &Path) -> io::Result<(File, Self)> {
        if fs::metadata(to).is_ok_and(|there| !there.is_file()) {
            let reason = "it is a device, a pipe or a folder, which a file must not replace";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut prefix = to.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        prefix.push(".");
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(without_temporary_name)?;
        let commit = Self { file, to: to.to_owned() };
        Ok((commit.file.as_file().try_clone()?, commit))
    }

    /// Waits until the file is on its disk, then gives it its name. A link of that name is replaced, not followed.
    /// After a crash of the machine the name leads to the old file or to the new one, both whole: the folder is not
    /// synced.
    ///
    /// # Errors
    /// Where the system refuses either. The old file is still there then.
    pub fn finish(self) -> io::Result<()> {
        self.finish_after(File::sync_all)
    }

    fn finish_after(self, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        sync(self.file.as_file())?;
        self.file.persist(&self.to).map_err(|failed| failed.error)?;
        Ok(())
    }
}

/// Removes the temporary file's name from an error: callers name the requested file.
fn without_temporary_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((words, _)) => io::Error::new(error.kind(), words),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
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

    #[test]
    fn temporary_names_differ_between_files_and_cannot_be_planted() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("run.html");
        let (_, one) = Commit::begin(&to).unwrap();
        let (_, other) = Commit::begin(&to).unwrap();
        let name = |commit: &Commit| commit.file.path().to_owned();
        assert_ne!(name(&one), name(&other));
        let pid = std::process::id().to_string();
        assert!(!name(&one).to_str().unwrap().contains(&pid), "a process id can be foreseen");
        drop(other);
        drop(one);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_replaced_and_its_target_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (private, to) = (folder.path().join("private"), folder.path().join("run.vtape"));
        fs::write(&private, "private").unwrap();
        symlink(&private, &to).unwrap();
        let (mut file, commit) = Commit::begin(&to).unwrap();
        file.write_all(b"a tape").unwrap();
        commit.finish().unwrap();
        assert_eq!(fs::read(&private).unwrap(), b"private");
        assert_eq!(fs::read(&to).unwrap(), b"a tape");
        assert!(fs::symlink_metadata(&to).unwrap().is_file());
    }

    /// The name changes last: whenever the machine stops, it leads to a whole file.
    #[test]
    fn the_old_file_is_there_until_the_new_one_is_on_its_disk_and_stays_if_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("run.vtape");
        fs::write(&to, "old").unwrap();
        let begin = || {
            let (mut file, commit) = Commit::begin(&to).unwrap();
            file.write_all(b"new").unwrap();
            commit
        };
        let lost = || io::Error::from_raw_os_error(5);
        let error = begin().finish_after(|_| Err(lost())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5));
        assert_eq!(fs::read(&to).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "and nothing is left behind");
        let is_whole_before = |file: &File| {
            assert_eq!(file.metadata()?.len(), 3);
            assert_eq!(fs::read(&to)?, b"old");
            file.sync_all()
        };
        begin().finish_after(is_whole_before).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"new");
    }

    #[test]
    fn a_finished_file_has_the_permissions_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, to) = (folder.path().join("plain"), folder.path().join("committed"));
        File::create(&plain).unwrap();
        Commit::begin(&to).unwrap().1.finish().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&to), mode(&plain));
    }

    #[test]
    fn a_missing_folder_is_the_system_error_without_the_temporary_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = Commit::begin(&folder.path().join("nowhere/run.vtape")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!error.to_string().contains(".part"), "{error}");
    }
}
