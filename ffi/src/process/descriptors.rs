//! File descriptors of another process, which PyTorch's handles of mapped memory name by number.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use device::ShareableHandle;

use crate::error::Error;

/// The advice in every refusal of the kernel.
const INSTEAD: &str = "or make the tensor with expandable_segments:False";

/// Descriptors of our own for those of the process `pid`.
pub(crate) fn take(pid: c_int, numbers: &[c_int]) -> Result<Vec<OwnedFd>, Error> {
    let process = open_process(pid).map_err(|error| {
        let reason = match error.raw_os_error() {
            Some(libc::ESRCH) => "it has ended, and its memory with it".to_owned(),
            _ => format!("pidfd_open: {error}"),
        };
        Error::runtime(format_args!("cannot open memory that process {pid} shares: {reason}"))
    })?;
    let take = |number: &c_int| {
        duplicate(&process, *number).map_err(|error| {
            let reason = match error.raw_os_error() {
                Some(libc::EBADF) => "it has freed that memory since".to_owned(),
                Some(libc::EPERM) => format!(
                    "pidfd_getfd: {error}; allow processes to trace each other (in a container, --cap-add=SYS_PTRACE), \
                     {INSTEAD}"
                ),
                Some(libc::ENOSYS) => format!("the kernel has no pidfd_getfd (Linux 5.6); update it, {INSTEAD}"),
                _ => format!("pidfd_getfd: {error}"),
            };
            Error::runtime(format_args!("cannot open memory that process {pid} shares: {reason}"))
        })
    };
    numbers.iter().map(take).collect()
}

/// The descriptor as the device takes it; it stays ours.
pub(crate) fn as_handle(descriptor: &OwnedFd) -> ShareableHandle {
    ShareableHandle::PosixFd(descriptor.as_raw_fd())
}

fn open_process(pid: c_int) -> io::Result<OwnedFd> {
    // SAFETY: numbers only; the kernel checks them.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    owned(answer)
}

fn duplicate(process: &OwnedFd, number: c_int) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that is open, and numbers that the kernel checks.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    owned(answer)
}

/// The kernel's result: a new descriptor or an error.
fn owned(answer: c_long) -> io::Result<OwnedFd> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as c_int) })
}
