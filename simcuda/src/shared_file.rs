//! The identity of a shared object for other processes: an anonymous file of the process that shares it.
//!
//! Its name says what it is and on which device, its length the size, its inode number which one. No byte is ever
//! written to it, so it takes no memory, and a process that shares nothing has none. While the file is open, a process
//! of the same user finds it under `/proc/PID/fd`; it goes with the memory that it stands for, or with the process.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::MetadataExt;

use crate::abi::{Answer, Status};

/// The kind of a shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An allocation (`cuMemAlloc`).
    Allocation,
    /// Physical memory (`cuMemCreate`).
    Physical,
    /// An event.
    Event,
}

/// The description of a shared object in its file's name and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) kind: Kind,
    /// The device's number on this machine, whatever the processes see of it.
    pub(crate) device: u16,
    /// 0 for an event.
    pub(crate) size_bytes: u64,
    /// Which file it is: no two that are open have the same.
    pub(crate) inode: u64,
}

/// A shared file of this process, or another's that is kept open.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: File,
    pub(crate) says: Shared,
}

const KINDS: [(Kind, &str); 3] =
    [(Kind::Allocation, "allocation"), (Kind::Physical, "physical"), (Kind::Event, "event")];

/// The kernel's prefix of an anonymous file's name, and the one of shared files.
const PREFIX: &str = "/memfd:simcuda-";

impl SharedFile {
    /// Makes the file that stands for something of this process.
    pub(crate) fn new(kind: Kind, device: u16, size_bytes: u64) -> Answer<Self> {
        let make = || -> io::Result<Self> {
            let file = anonymous(&format!("simcuda-{}-{device}", kind.text()))?;
            file.set_len(size_bytes)?;
            let inode = file.metadata()?.ino();
            Ok(Self { file, says: Shared { kind, device, size_bytes, inode } })
        };
        make().map_err(|_| Status::OUT_OF_MEMORY)
    }

    /// The file that `path` leads to; `None` where there is none, or no shared file.
    pub(crate) fn open(path: &str) -> Option<Self> {
        // Checked before it is opened, since opening a device or a pipe has effects, and again on the open file.
        look(path)?;
        let file = File::open(path).ok()?;
        let says = read(path, &file.metadata().ok()?)?;
        Some(Self { file, says })
    }

    /// One more descriptor of the file, for the caller to close.
    pub(crate) fn descriptor(&self) -> Answer<i32> {
        self.file.try_clone().map(File::into_raw_fd).map_err(|_| Status::OUT_OF_MEMORY)
    }

    /// Where another process finds the file.
    pub(crate) fn path_of(pid: u32, descriptor: i32) -> String {
        format!("/proc/{pid}/fd/{descriptor}")
    }

    /// The number under which this process holds the file.
    pub(crate) fn number(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.file)
    }
}

impl Kind {
    fn text(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, text)| text)
    }
}

/// The description of the shared file at `path`.
fn look(path: &str) -> Option<Shared> {
    read(path, &fs::metadata(path).ok()?)
}

fn read(path: &str, metadata: &Metadata) -> Option<Shared> {
    let target = fs::read_link(path).ok()?;
    let name = target.to_str()?.strip_prefix(PREFIX)?;
    let (kind, device) = name.strip_suffix(" (deleted)").unwrap_or(name).split_once('-')?;
    let (kind, _) = *KINDS.iter().find(|(_, text)| *text == kind)?;
    let device = device.parse().ok()?;
    Some(Shared { kind, device, size_bytes: metadata.len(), inode: metadata.ino() })
}

/// A new anonymous file, which children that become other programs do not inherit.
fn anonymous(name: &str) -> io::Result<File> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a text with an end mark that outlives the call.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_file_says_what_it_stands_for_while_it_is_open() {
        for kind in [Kind::Allocation, Kind::Physical, Kind::Event] {
            let made = SharedFile::new(kind, 3, 80 << 30).unwrap();
            let path = SharedFile::path_of(process::id(), made.number());
            let found = SharedFile::open(&path).unwrap();
            assert_eq!(found.says, made.says);
            assert_eq!((found.says.kind, found.says.device), (kind, 3));
            assert_eq!(found.says.size_bytes, 80 << 30);
            drop(made);
            assert_ne!(look(&path), Some(found.says));
        }
    }

    #[test]
    fn other_files_are_none_of_ours() {
        let stranger = anonymous("stranger").unwrap();
        let stranger = std::os::fd::AsRawFd::as_raw_fd(&stranger);
        assert!(SharedFile::open(&SharedFile::path_of(process::id(), stranger)).is_none());
        assert!(SharedFile::open("/proc/self/fd/0").is_none());
        assert!(SharedFile::open("/proc/self/fd/-1").is_none());
    }
}
