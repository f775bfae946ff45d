//! The files of rings: one per process and device on tmpfs, locked for as long as its process lives.
//!
//! The lock (`flock`) says whether a ring's process is alive. The kernel drops it however the process ends, and unlike
//! a process id it means the same inside and outside a container.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::hash::BuildHasher;
use std::io;
use std::mem;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs};
use rustix::process::{Resource, geteuid, getpid, getrlimit};
use trace_format::DeviceId;

/// The default folder of rings.
const RING_DIR: &str = "/dev/shm";

/// The environment variable that names another folder, for writers and readers of rings.
pub const RING_DIR_VARIABLE: &str = "VRAMTAPE_RINGS";

/// The folder for rings, given what the variable says: `/dev/shm` where it says nothing, or is empty.
#[must_use]
pub fn ring_dir(variable: Option<OsString>) -> PathBuf {
    variable.filter(|named| !named.is_empty()).unwrap_or_else(|| RING_DIR.into()).into()
}

/// A ring takes at most this part of what its file system has free: others (NCCL, data loaders) live there too.
const SHARE_OF_FREE: u64 = 4;

/// Names of the folder that are read before a ring is made, and those of rings among them: other users can put any
/// number there, and the first allocation waits for this.
pub(super) const NAMES_MAX: usize = 10_000;
pub(super) const CANDIDATES_MAX: usize = 1_000;

/// The mode bits that let others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The mode of a ring whose process kept it at its end; others can be written.
const KEPT_MODE: u32 = 0o400;

/// Whether the ring is one that its process kept at its end.
pub(super) fn is_kept(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o200 == 0
}

/// The file of a ring of this process; it counts as live until this is dropped.
#[derive(Debug)]
pub(super) struct RingFile {
    pub(super) path: PathBuf,
    /// Never mapped: a mapping, and a forked child's copy of it, would hold the lock too.
    lock: File,
}

impl RingFile {
    /// Makes a file of zeros of which every page exists, so that no write to it can fail later. The file is for
    /// mapping.
    pub(super) fn create(
        dir: &Path,
        device: DeviceId,
        size_bytes: u64,
    ) -> io::Result<(Self, File)> {
        // Going over this limit is a signal that kills, not an error.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| size_bytes > limit) {
            return Err(io::Error::other("the limit on file sizes (ulimit -f) is smaller"));
        }
        has_room(dir, size_bytes)?;
        let (path, file) = create_file(dir, device)?;
        let claim = || {
            // A description of its own, of the same file.
            let lock = open(&path, Whose::Own)?;
            let (made, locked) = (file.metadata()?, lock.metadata()?);
            if (made.dev(), made.ino()) != (locked.dev(), locked.ino()) {
                return Err(io::Error::other("another file took the ring's name"));
            }
            // A process that checks whether this ring is live may hold the lock for a moment.
            flock(&lock, FlockOperation::LockExclusive)?;
            fallocate(&file, FallocateFlags::empty(), 0, size_bytes)?;
            Ok(lock)
        };
        match claim() {
            Ok(lock) => Ok((Self { path, lock }, file)),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Leaves the file for good, read-only, which marks it as one of a process that ended by itself. Returns whether it
    /// is still there. It counts as live until the process ends.
    pub(super) fn keep(self) -> bool {
        let marked = self.lock.set_permissions(Permissions::from_mode(KEPT_MODE));
        let is_there = self.lock.metadata().is_ok_and(|file| file.nlink() > 0);
        mem::forget(self);
        marked.is_ok() && is_there
    }

    /// Removes the file. What is mapped stays usable.
    pub(super) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(
                "cannot remove the ring {}: {error}; `vramtape clean` removes it",
                self.path.display()
            );
        }
    }
}

/// An error unless the folder has room for a ring of this size.
pub(super) fn has_room(dir: &Path, size_bytes: u64) -> io::Result<()> {
    let stat = statvfs(dir)?;
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    if size_bytes <= free_bytes / SHARE_OF_FREE {
        return Ok(());
    }
    let message =
        format!("it has {} MiB free, and a ring takes a quarter at most", free_bytes >> 20);
    Err(io::Error::new(io::ErrorKind::StorageFull, message))
}

fn create_file(dir: &Path, device: DeviceId) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let (prefix, pid) = (prefix(), getpid());
    // A ring of that name may be left from a dead process with our id; it is evidence and stays.
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..100 {
        // Another user can take the first name, and cannot foresee the others.
        let random = || RandomState::new().hash_one(attempt);
        let suffix = if attempt == 0 { String::new() } else { format!("-{:016x}", random()) };
        let path = dir.join(format!("{prefix}{pid}-{device}{suffix}.ring"));
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn prefix() -> String {
    format!("vramtape-{}-", geteuid())
}

/// Which files are opened as rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This user's, which others cannot write: a name in a shared folder can be anyone's.
    Own,
    /// This user's, or for root anyone's: the user named the file.
    Named,
}

/// Opens a ring's file for reading. A link is not followed, and a pipe is not waited for.
pub(super) fn open(path: &Path, whose: Whose) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refused("it is a symbolic link".to_owned()),
        _ => error,
    })?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("it is a folder, a device or a pipe".to_owned()));
    }
    let may_be_others = whose == Whose::Named && geteuid().is_root();
    if found.uid() != geteuid().as_raw() && !may_be_others {
        return Err(refused(format!("it belongs to user {}", found.uid())));
    }
    if whose == Whose::Own && found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(refused("other users can write it".to_owned()));
    }
    Ok(file)
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Whether the file belongs to this user.
pub(super) fn is_own(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw())
}

/// Whether the process that made the ring is alive.
pub(super) fn is_live(file: &File) -> bool {
    // Taking the lock and giving it back is the only way to ask.
    let taken = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if taken {
        let _ = flock(file, FlockOperation::Unlock);
    }
    !taken
}

/// This user's rings in `dir`, living and dead, in order of name. Files of other users are left out, whatever their
/// names.
///
/// # Errors
/// Where `dir` cannot be read.
pub fn list_rings(dir: &Path) -> io::Result<Vec<PathBuf>> {
    list_some(dir, usize::MAX, usize::MAX)
}

/// The same, of the first so many names in `dir`, and the first so many of rings among them.
pub(super) fn list_some(
    dir: &Path,
    names_max: usize,
    candidates_max: usize,
) -> io::Result<Vec<PathBuf>> {
    list_of(dir, Whose::Own, names_max, candidates_max)
}

/// The same of all users where root asks, for [`RingReader::open_readable`](super::RingReader::open_readable). Other
/// users can put any number of names there: of the first thousand rings among the first ten thousand names.
///
/// # Errors
/// Where `dir` cannot be read.
pub fn list_readable_rings(dir: &Path) -> io::Result<Vec<PathBuf>> {
    list_of(dir, readable(), NAMES_MAX, CANDIDATES_MAX)
}

/// The rings that this user may read.
pub(super) fn readable() -> Whose {
    if geteuid().is_root() { Whose::Named } else { Whose::Own }
}

fn list_of(
    dir: &Path,
    whose: Whose,
    names_max: usize,
    mut candidates_max: usize,
) -> io::Result<Vec<PathBuf>> {
    let (prefix, uid) = (prefix(), geteuid().as_raw());
    let prefix = if whose == Whose::Own { &prefix } else { "vramtape-" };
    let mut rings = Vec::new();
    for entry in fs::read_dir(dir)?.take(names_max) {
        let entry = entry?;
        let name = entry.file_name();
        let is_ring = name.to_str().is_some_and(|name| {
            name.starts_with(prefix) && Path::new(name).extension().is_some_and(|e| e == "ring")
        });
        if !is_ring {
            continue;
        }
        if candidates_max == 0 {
            break;
        }
        candidates_max -= 1;
        // One that cannot be looked at was removed just now.
        let is_readable = |file: &Metadata| whose == Whose::Named || file.uid() == uid;
        if entry.metadata().is_ok_and(|file| file.is_file() && is_readable(&file)) {
            rings.push(entry.path());
        }
    }
    rings.sort();
    Ok(rings)
}
