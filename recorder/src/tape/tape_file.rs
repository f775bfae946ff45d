//! The file that a tape takes: a new one, or one that holds a tape or nothing.
//!
//! The path comes from a user's settings and may be mistaken: everything else that has that name stays as it is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use trace_format::{MAGIC, WriteError};

use super::TapeError;

/// An empty file for a tape, which this process has locked.
#[derive(Debug)]
pub struct TapeFile {
    path: PathBuf,
    file: File,
}

impl TapeFile {
    /// A new file at `path`; `None` where anything has that name.
    ///
    /// # Errors
    /// Where it cannot be created.
    pub fn create(path: &Path) -> Result<Option<Self>, TapeError> {
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        match created {
            Ok(file) => Ok(Some(Self::lock(path, file)?)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(WriteError::create(path, error).into()),
        }
    }

    /// The file at `path`, emptied, or a new one. Never waits, and follows no link.
    ///
    /// # Errors
    /// Where it is neither a tape of this user nor empty, another process writes it, or it cannot be written.
    pub fn replace(path: &Path) -> Result<Self, TapeError> {
        if let Some(created) = Self::create(path)? {
            return Ok(created);
        }
        let replaced = Self::lock(path, open_tape(path)?)?;
        let emptied = replaced.file.set_len(0);
        emptied.map_err(|error| WriteError::create(path, error))?;
        Ok(replaced)
    }

    fn lock(path: &Path, file: File) -> Result<Self, TapeError> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(TapeError::InUse { path: path.to_owned() });
            }
            // Some network file systems cannot lock.
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "the tape is not locked");
            }
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn into_parts(self) -> (PathBuf, File) {
        (self.path, self.file)
    }
}

/// Where the part before the newest one of a tape with a limit is.
pub(super) fn older_part(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Removes the older part of an earlier tape at `path`: beside a new tape it would look like its beginning.
///
/// # Errors
/// Where the file of that name is no tape of this user, or cannot be removed.
pub fn remove_older_part(path: &Path) -> Result<(), TapeError> {
    let part = older_part(path);
    if may_be_replaced(&part)? {
        fs::remove_file(&part).map_err(|error| WriteError::create(&part, error))?;
    }
    Ok(())
}

/// Whether a file is at `path`.
///
/// # Errors
/// Where it is one that a tape does not replace.
pub(super) fn may_be_replaced(path: &Path) -> Result<bool, TapeError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        _ => open_tape(path).map(|_| true),
    }
}

/// Opens a file that a tape may replace.
fn open_tape(path: &Path) -> Result<File, TapeError> {
    let refused = |reason: &str| {
        let (path, reason) = (path.to_owned(), reason.to_owned());
        Err(TapeError::Refused { path, reason })
    };
    let failed = |error| TapeError::from(WriteError::create(path, error));
    let not_a_file = "it is a folder, a device or a pipe";
    // Before it is opened, because opening a device can have effects.
    let found = fs::symlink_metadata(path).map_err(failed)?;
    if found.is_symlink() {
        return refused("it is a symbolic link");
    }
    if !found.is_file() {
        return refused(not_a_file);
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    // Another file may have the name by now.
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return refused(not_a_file);
    }
    if found.uid() != geteuid().as_raw() {
        return refused(&format!("it belongs to user {}", found.uid()));
    }
    let mut start = [0; MAGIC.len()];
    let start = match file.read_at(&mut start, 0) {
        Ok(count) => &start[..count],
        Err(error) => return Err(failed(error)),
    };
    // Also of a tape whose process was killed while it wrote the first bytes.
    if !MAGIC.starts_with(start) {
        return refused("it is not a tape");
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    use tempfile::tempdir;

    use super::*;

    fn refusal(path: &Path) -> String {
        let error = TapeFile::replace(path).expect_err("refused");
        assert!(matches!(error, TapeError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()) && text.contains("name another"), "{text}");
        text
    }

    #[test]
    fn only_a_tape_or_an_empty_file_is_replaced() {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (notes, empty, tape) = (path("notes.txt"), path("empty"), path("run.vtape"));
        fs::write(&notes, "do not lose me").unwrap();
        fs::write(&empty, "").unwrap();
        fs::write(&tape, [&MAGIC[..], b"and more"].concat()).unwrap();
        assert!(refusal(&notes).contains("it is not a tape"));
        assert_eq!(fs::read(&notes).unwrap(), b"do not lose me");
        for replaced in [&empty, &tape] {
            TapeFile::replace(replaced).unwrap();
            assert_eq!(fs::read(replaced).unwrap(), b"");
        }
        assert!(TapeFile::create(&empty).unwrap().is_none());
        TapeFile::replace(&path("new")).unwrap();
    }

    #[test]
    fn links_folders_pipes_and_devices_stay_and_nothing_waits_for_them() {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (tape, link, dangling, pipe) =
            (path("a"), path("link"), path("dangling"), path("pipe"));
        fs::write(&tape, MAGIC).unwrap();
        symlink(&tape, &link).unwrap();
        symlink(path("nothing"), &dangling).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for link in [&link, &dangling] {
            assert!(refusal(link).contains("a symbolic link"));
        }
        for other in [&pipe, folder.path(), Path::new("/dev/null")] {
            assert!(refusal(other).contains("a folder, a device or a pipe"));
        }
        assert_eq!(fs::read(&tape).unwrap(), MAGIC);
        assert!(!path("nothing").exists());
        // A link on the way there is followed.
        let way = tempdir().unwrap();
        symlink(folder.path(), way.path().join("way")).unwrap();
        TapeFile::replace(&way.path().join("way/a")).unwrap();
        assert_eq!(fs::read(&tape).unwrap(), b"");
    }

    #[test]
    fn a_file_of_another_user_is_not_written_even_if_it_could_be() {
        if !geteuid().is_root() {
            println!("not as root: no file can be given to another user");
            return;
        }
        let folder = tempdir().unwrap();
        let path = folder.path().join("run.vtape");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        chown(&path, Some(4711), None).unwrap();
        assert!(refusal(&path).contains("belongs to user 4711"));
    }

    #[test]
    fn the_older_part_goes_only_if_it_is_a_tape() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("run.vtape");
        let part = older_part(&path);
        remove_older_part(&path).unwrap();
        fs::write(&part, "notes").unwrap();
        let error = remove_older_part(&path).expect_err("refused").to_string();
        assert!(error.contains(part.to_str().unwrap()), "{error}");
        fs::write(&part, MAGIC).unwrap();
        remove_older_part(&path).unwrap();
        assert!(!part.exists());
    }
}
