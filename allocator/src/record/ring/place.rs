//! Where rings lie: one file per process and device on tmpfs, locked for as long as its process lives.
//!
//! The lock (`flock`) says whether a ring's process is alive. The kernel drops it however the process ends, and unlike
//! a process id it means the same inside and outside a container.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::mem;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs};
use rustix::process::{Resource, getpid, getrlimit, getuid};
use trace_format::DeviceId;

use super::dead::{self, Limits};

/// Where rings lie unless told otherwise.
const RING_DIR: &str = "/dev/shm";

/// The environment variable that names another folder, for whoever makes rings and for whoever looks for them.
pub const RING_DIR_VARIABLE: &str = "VRAMTAPE_RINGS";

/// The folder for rings, given what the variable says: `/dev/shm` where it says nothing, or is empty.
#[must_use]
pub fn ring_dir(variable: Option<OsString>) -> PathBuf {
    variable.filter(|named| !named.is_empty()).unwrap_or_else(|| RING_DIR.into()).into()
}

/// A ring takes at most this part of what its file system has free: others (NCCL, data loaders) live there too.
const SHARE_OF_FREE: u64 = 4;

/// The mode of a ring whose process kept it at its end; others can be written.
const KEPT_MODE: u32 = 0o400;

/// Whether the ring is one that its process kept at its end.
pub(super) fn is_kept(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o200 == 0
}

/// Where a ring's file is; it counts as live until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Never mapped: a mapping, and a forked child's copy of it, would hold the lock too.
    _lock: File,
}

impl Place {
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
        dead::remove_excess(dir, Limits::of(dir)?);
        has_room(dir, size_bytes)?;
        let (path, file) = create_file(dir, device)?;
        let claim = || {
            let lock = File::open(&path)?;
            // Somebody who asks whether this ring is live may hold the lock for a moment.
            flock(&lock, FlockOperation::LockExclusive)?;
            fallocate(&file, FallocateFlags::empty(), 0, size_bytes)?;
            Ok(lock)
        };
        match claim() {
            Ok(lock) => Ok((Self { path, _lock: lock }, file)),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Leaves the file for good, read-only, which marks it as one of a process that ended by itself. Returns whether it
    /// is still there. It counts as live until the process ends.
    pub(super) fn keep(self) -> bool {
        let marked = fs::set_permissions(&self.path, Permissions::from_mode(KEPT_MODE));
        mem::forget(self);
        marked.is_ok()
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
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
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
    format!("vramtape-{}-", getuid())
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

/// This user's rings in `dir`, living and dead, in order of name.
///
/// # Errors
/// Where `dir` cannot be read.
pub fn list_rings(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let prefix = prefix();
    let mut rings = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ring = name.to_str().is_some_and(|name| {
            name.starts_with(&prefix) && Path::new(name).extension().is_some_and(|e| e == "ring")
        });
        if is_ring && entry.file_type()?.is_file() {
            rings.push(entry.path());
        }
    }
    rings.sort();
    Ok(rings)
}
