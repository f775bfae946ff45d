//! The file of a tape: the name that was asked for, or a free one beside it.
//!
//! A tape is the record of a run that may have taken days, so an existing one is replaced only where that was asked
//! for. A process never fails its first allocation because the name is taken.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::{env, iter};

use recorder::{SystemClock, TapeError, TapeFile, TapeRecorder, remove_older_part};
use trace_format::Meta;

/// `vramtape run` names its list of tapes here, to which each process adds the paths of its own: a path, perhaps with
/// device and inode behind it, which say whether it is still that file.
const NAMES: &str = "VRAMTAPE_RUN_NAMES";

/// Starts a tape at `path`, or at the first free name beside it: `run-2.vtape` where `run.vtape` exists and is not to
/// be replaced, or another process is writing it.
pub(super) fn start(
    path: &Path,
    meta: &Meta,
    max_bytes: Option<u64>,
    is_replaced: bool,
) -> Result<(PathBuf, TapeRecorder), TapeError> {
    let start =
        |file: TapeFile| TapeRecorder::start_in(file, meta.clone(), SystemClock::new(), max_bytes);
    let mut why = "exists (-f, or tape_replace:True in VRAMTAPE_CONF, replaces it)";
    // Processes of one run do not replace the tapes of each other.
    let is_replaced = is_replaced && !is_announced(path);
    if is_replaced {
        match TapeFile::replace(path) {
            Err(TapeError::InUse { .. }) => why = "is being written by another process",
            replaced => {
                // Left of the tape that was replaced: beside this one it would look like its beginning.
                let (file, _) = (replaced?, remove_older_part(path));
                let recorder = start(file)?;
                announce(path);
                return Ok((path.to_owned(), recorder));
            }
        }
    }
    let names = iter::once(path.to_owned()).chain((2..10_000).map(|number| numbered(path, number)));
    for name in names.skip(usize::from(is_replaced)) {
        let file = match claim(&name) {
            Ok(Some(file)) => file,
            // A name that is taken; or that another process had replaced at once.
            Ok(None) | Err(TapeError::InUse { .. }) => continue,
            Err(error) => return Err(error),
        };
        let recorder = start(file).inspect_err(|_| {
            let _ = fs::remove_file(&name);
        })?;
        if name != path {
            let asked = path.file_name().unwrap_or_default().display();
            tracing::warn!("the tape goes to {}: {asked} {why}", name.display());
        }
        announce(&name);
        return Ok((name, recorder));
    }
    Err(TapeError::InUse { path: path.to_owned() })
}

/// Makes an empty file of this name, if the name is free. It is taken for every other process then.
fn claim(name: &Path) -> Result<Option<TapeFile>, TapeError> {
    if fs::symlink_metadata(first_part(name)).is_ok() {
        return Ok(None); // A tape with a limit has this name, or is just changing its parts.
    }
    match TapeFile::create(name)? {
        // A device, a pipe or a folder was meant by this name, and no other will do.
        None if fs::metadata(name).is_ok_and(|found| !found.is_file()) => {
            TapeFile::replace(name).map(Some)
        }
        claimed => Ok(claimed),
    }
}

/// `run-2.vtape` of `run.vtape`.
fn numbered(path: &Path, number: u16) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Where the older part of a tape with a limit is.
fn first_part(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

/// Adds the path to the run's list, from which its last line is made. The list is gone when the run has ended.
fn announce(path: &Path) {
    let Ok(path) = path::absolute(path) else { return };
    let mut line = path.into_os_string();
    line.push("\n");
    let Some(names) = names(OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK)) else {
        return;
    };
    // In one write: other processes may be adding theirs.
    if let Err(error) = names.and_then(|mut names| names.write_all(line.as_encoded_bytes())) {
        tracing::debug!(%error, "the run's list of tapes lacks one");
    }
}

/// Whether a process of this run has a tape of this name.
fn is_announced(path: &Path) -> bool {
    let Ok(path) = path::absolute(path) else { return false };
    let Some(Ok(mut names)) = names(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK))
    else {
        return false;
    };
    let mut announced = Vec::new();
    let is_read =
        names.seek(SeekFrom::Start(0)).and_then(|_| names.read_to_end(&mut announced)).is_ok();
    let mut names = announced.split(|byte| *byte == b'\n');
    is_read && names.any(|name| name == path.as_os_str().as_encoded_bytes())
}

/// The run's list of tapes; `None` outside of a run.
fn names(options: &OpenOptions) -> Option<io::Result<File>> {
    let written = env::var_os(NAMES)?;
    let text = written.to_str().unwrap_or_default();
    let mut fields = text.rsplitn(3, ' ');
    let (inode, device) = (number(fields.next()), number(fields.next()));
    let (Some(inode), Some(device), Some(path)) = (inode, device, fields.next()) else {
        return Some(options.open(&written));
    };
    Some(options.open(path).and_then(|file| {
        let found = file.metadata()?;
        if (found.dev(), found.ino()) == (device, inode) {
            return Ok(file);
        }
        Err(io::Error::from(io::ErrorKind::NotFound))
    }))
}

fn number(field: Option<&str>) -> Option<u64> {
    field?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use tempfile::tempdir;
    use trace_format::MAGIC;

    use super::*;

    /// Starts a tape and finishes it; its path.
    fn tape(path: &Path, is_replaced: bool) -> PathBuf {
        let (path, recorder) = start(path, &Meta::default(), None, is_replaced).unwrap();
        assert_eq!(recorder.stop().unwrap().path, path);
        path
    }

    #[test]
    fn a_tape_that_exists_is_replaced_only_on_request() {
        let folder = tempdir().unwrap();
        let asked = folder.path().join("run.vtape");
        let second = folder.path().join("run-2.vtape");
        assert_eq!(tape(&asked, false), asked);
        let first = fs::read(&asked).unwrap();
        assert!(!first.is_empty());
        assert_eq!(tape(&asked, false), second);
        assert_eq!(tape(&asked, false), folder.path().join("run-3.vtape"));
        assert_eq!(fs::read(&asked).unwrap(), first);
        assert_eq!(tape(&asked, true), asked);
    }

    #[test]
    fn a_tape_that_another_process_writes_is_never_replaced() {
        let folder = tempdir().unwrap();
        let asked = folder.path().join("run.vtape");
        let (_, writing) = start(&asked, &Meta::default(), None, false).unwrap();
        assert_eq!(tape(&asked, true), folder.path().join("run-2.vtape"));
        assert_eq!(writing.stop().unwrap().path, asked);
    }

    #[test]
    fn the_older_part_belongs_to_its_tape() {
        let folder = tempdir().unwrap();
        let asked = folder.path().join("run.vtape");
        let part = folder.path().join("run.vtape.1");
        fs::write(&part, MAGIC).unwrap();
        assert_eq!(tape(&asked, false), folder.path().join("run-2.vtape"));
        assert_eq!(fs::read(&part).unwrap(), MAGIC);
        assert_eq!(tape(&asked, true), asked);
        assert!(!part.exists(), "it would look like the beginning of the new tape");
    }

    #[test]
    fn tapes_that_start_at_once_have_names_of_their_own() {
        let folder = tempdir().unwrap();
        let asked = folder.path().join("run.vtape");
        let paths: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| tape(&asked, false))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut distinct = paths.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 8, "{paths:?}");
    }

    #[test]
    fn a_name_that_no_file_can_have_is_an_error() {
        let folder = tempdir().unwrap();
        assert!(start(folder.path(), &Meta::default(), None, false).is_err());
        assert!(start(Path::new("/dev/null"), &Meta::default(), None, false).is_err());
        assert!(start(&folder.path().join("no/x.vtape"), &Meta::default(), None, false).is_err());
    }

    #[test]
    fn files_that_are_not_tapes_stay_where_tapes_are_replaced() {
        let folder = tempdir().unwrap();
        let asked = folder.path().join("run.vtape");
        let error = |path: &Path, is_replaced| {
            start(path, &Meta::default(), None, is_replaced).err().map(|error| error.to_string())
        };
        fs::write(&asked, "notes").unwrap();
        assert!(error(&asked, true).is_some_and(|error| error.contains("it is not a tape")));
        assert_eq!(tape(&asked, false), folder.path().join("run-2.vtape"));
        assert_eq!(fs::read(&asked).unwrap(), b"notes");

        let link = folder.path().join("link.vtape");
        symlink(&asked, &link).unwrap();
        assert!(error(&link, true).is_some_and(|error| error.contains("symbolic link")));
        assert_eq!(tape(&link, false), folder.path().join("link-2.vtape"));

        let pipe = folder.path().join("pipe.vtape");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for is_replaced in [true, false] {
            let error = error(&pipe, is_replaced).expect("refused");
            assert!(error.contains("a pipe") && error.contains("pipe.vtape"), "{error}");
        }
    }
}
