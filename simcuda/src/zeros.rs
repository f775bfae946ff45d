//! Zeros in host memory, for what is read from the device.
//!
//! A page that was never written is zeros already. Large copies leave such pages alone, so that a checkpoint of a model
//! of the GPU's size takes no memory of the host.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;

/// Smaller ranges are written.
const LARGE_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// Entries that are read at once.
const ENTRIES: usize = 512;
const ENTRY_BYTES: usize = size_of::<u64>();
/// A page is in memory, or swapped out (`/proc/pid/pagemap` in the documentation of Linux).
const IN_USE: u64 = 1 << 63 | 1 << 62;

/// Makes `size_bytes` bytes at `to` zeros.
///
/// # Safety
///
/// They are writable.
pub(crate) unsafe fn write(to: *mut u8, size_bytes: usize) {
    let start = to.addr();
    let fill = |part: Range<usize>| {
        let at = to.wrapping_add(part.start - start);
        // SAFETY: a part of the caller's range, which is writable.
        unsafe { ptr::write_bytes(at, 0, part.len()) };
    };
    let first = start.next_multiple_of(PAGE_BYTES);
    let end = start + size_bytes;
    let last = end / PAGE_BYTES * PAGE_BYTES;
    let Some(pages) =
        (size_bytes >= LARGE_BYTES).then(|| File::open("/proc/self/pagemap").ok()).flatten()
    else {
        return fill(start..end);
    };
    fill(start..first);
    fill(last..end);
    let mut entries = [0; ENTRIES * ENTRY_BYTES];
    for from in (first..last).step_by(ENTRIES * PAGE_BYTES) {
        let count = ENTRIES.min((last - from) / PAGE_BYTES);
        let read = &mut entries[..count * ENTRY_BYTES];
        if pages.read_exact_at(read, (from / PAGE_BYTES * ENTRY_BYTES) as u64).is_err() {
            return fill(from..last);
        }
        let (chunks, _) = read.as_chunks::<ENTRY_BYTES>();
        for (page, entry) in chunks.iter().enumerate() {
            if u64::from_le_bytes(*entry) & IN_USE != 0 {
                let at = from + page * PAGE_BYTES;
                fill(at..at + PAGE_BYTES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of this process in memory that are of no file.
    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    fn written_pages_become_zeros_and_others_stay_untouched() {
        const SIZE_BYTES: usize = 64 << 20;
        // From the kernel: zeros that take no memory.
        let mut bytes = vec![0u8; SIZE_BYTES];
        let written = [0, 1, 4095, 4096, 12_345_678, SIZE_BYTES - 1];
        for at in written {
            bytes[at] = 7;
        }
        let before = resident_bytes();
        let inside = &mut bytes[1..SIZE_BYTES - 1];
        // SAFETY: the bytes of a slice.
        unsafe { write(inside.as_mut_ptr(), inside.len()) };
        assert!(resident_bytes() < before + SIZE_BYTES / 8);
        let kept: Vec<usize> = written.into_iter().filter(|at| bytes[*at] != 0).collect();
        assert_eq!(kept, [0, SIZE_BYTES - 1], "bytes outside of the range");
        assert!(bytes[1..SIZE_BYTES - 1].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn small_ranges_are_written() {
        let mut bytes = [7u8; 4];
        let inside = &mut bytes[1..3];
        // SAFETY: the bytes of a slice.
        unsafe { write(inside.as_mut_ptr(), inside.len()) };
        assert_eq!(bytes, [7, 0, 0, 7]);
    }
}
