//! The host addresses that stand for device memory.
//!
//! They are reserved from the operating system without access, so that no host pointer is ever mistaken for a device
//! pointer, and a program that touches device memory from the host faults as it would with a GPU.

use std::ptr;

/// Tried in turn; a machine may limit a process's addresses.
const SIZES_BYTES: [u64; 4] = [64 << 40, 16 << 40, 4 << 40, 1 << 40];
/// Where the range is asked for: below where Linux puts programs and libraries.
const WANTED: usize = 0x1000_0000_0000;
/// The start of the range belongs to no device: module variables (`cudaGetSymbolAddress`) are said to be there.
const VARIABLES_BYTES: u64 = 1 << 30;

#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressRange {
    start: u64,
    length_bytes: u64,
}

impl AddressRange {
    /// Reserves the range.
    ///
    /// # Errors
    /// A sentence with the operating system's reason.
    pub(crate) fn reserve() -> Result<Self, String> {
        SIZES_BYTES.into_iter().find_map(Self::reserve_bytes).ok_or_else(|| {
            let reason = std::io::Error::last_os_error();
            format!("cannot reserve 1 TiB of addresses ({reason}); raise `ulimit -v`")
        })
    }

    fn reserve_bytes(length_bytes: u64) -> Option<Self> {
        let wanted = ptr::without_provenance_mut(WANTED);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping without access, at a place of the kernel's choice; it is never unmapped.
        let start =
            unsafe { libc::mmap(wanted, length_bytes as usize, libc::PROT_NONE, flags, -1, 0) };
        (start != libc::MAP_FAILED).then(|| Self { start: start.addr() as u64, length_bytes })
    }

    /// Whether `addr` stands for device memory.
    pub(crate) fn contains(self, addr: u64) -> bool {
        addr.wrapping_sub(self.start) < self.length_bytes
    }

    /// Whether `addr` stands for a variable of a loaded module.
    pub(crate) fn is_variable(self, addr: u64) -> bool {
        addr.wrapping_sub(self.start) < VARIABLES_BYTES
    }

    /// An address for variables of loaded modules.
    pub(crate) fn variables(self) -> u64 {
        self.start
    }

    /// Start and length of the part of one of `devices` devices, in whole GiB.
    pub(crate) fn share(self, device: u16, devices: u16) -> (u64, u64) {
        let start = (self.start + VARIABLES_BYTES).next_multiple_of(1 << 30);
        let length_bytes = self.start + self.length_bytes - start;
        let share_bytes = (length_bytes / u64::from(devices)) >> 30 << 30;
        (start + u64::from(device) * share_bytes, share_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_shares_lie_in_the_range_and_do_not_meet() {
        for devices in [1, 2, 3, 16] {
            let range = AddressRange { start: 0x1000_0000_1000, length_bytes: 1 << 40 };
            let mut end = range.variables() + VARIABLES_BYTES;
            for device in 0..devices {
                let (start, length_bytes) = range.share(device, devices);
                assert!(start >= end && length_bytes >= 60 << 30);
                end = start + length_bytes;
                assert!(range.contains(start) && range.contains(end - 1));
            }
            assert!(!range.contains(range.start + range.length_bytes));
            assert!(!range.contains(range.start - 1));
        }
    }
}
