//! Pinned host memory: real memory, and a list of what is pinned.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use crate::abi::{Answer, Out, Status};
use crate::machine;

const PAGE_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    ranges: BTreeMap<u64, Range>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    size_bytes: u64,
    device: u16,
    /// Made by us, so freed by us; a registered range belongs to the caller.
    ours: bool,
}

impl HostMemory {
    /// The device that was current when the memory at `addr` was pinned, if it was.
    pub(crate) fn device_of(&self, addr: u64) -> Option<u16> {
        self.range_of(addr).map(|(device, _)| device)
    }

    /// Also its pinned range: the start, and the size in bytes.
    pub(crate) fn range_of(&self, addr: u64) -> Option<(u16, (u64, u64))> {
        let (&start, range) = self.ranges.range(..=addr).next_back()?;
        let is_inside = addr - start < range.size_bytes;
        is_inside.then_some((range.device, (start, range.size_bytes)))
    }

    /// Whether `size_bytes` more can be pinned.
    fn has_room(&self, size_bytes: u64, limit_bytes: Option<u64>) -> bool {
        let pinned_bytes: u64 = self.ranges.values().map(|range| range.size_bytes).sum();
        limit_bytes.is_none_or(|limit| pinned_bytes.saturating_add(size_bytes) <= limit)
    }
}

/// Notes a range as pinned, unless more would be pinned than the settings allow.
fn insert(addr: u64, size_bytes: u64, ours: bool) -> Answer {
    let device = machine::current_device();
    let limit_bytes = machine::fixed()?.settings.pinned_bytes;
    machine::with(|machine| {
        if !machine.host.has_room(size_bytes, limit_bytes) {
            return Err(Status::OUT_OF_MEMORY);
        }
        machine.host.ranges.insert(addr, Range { size_bytes, device, ours });
        Ok(())
    })
}

/// Forgets the range that starts at `addr`.
fn remove(addr: u64, ours: bool) -> Answer {
    machine::with(|machine| match machine.host.ranges.get(&addr) {
        Some(range) if range.ours == ours => {
            machine.host.ranges.remove(&addr);
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE),
    })
}

pub(crate) fn allocate(out: Out<*mut c_void>, size_bytes: usize) -> Answer {
    out.wanted()?;
    let mut memory = ptr::null_mut();
    // SAFETY: `memory` is a place for the result, and a page is a power of two and a multiple of a pointer's size.
    let failed = unsafe { libc::posix_memalign(&raw mut memory, PAGE_BYTES, size_bytes.max(1)) };
    if failed != 0 {
        return Err(Status::OUT_OF_MEMORY);
    }
    let noted = insert(memory.expose_provenance() as u64, size_bytes as u64, true);
    if noted.is_err() {
        // SAFETY: it was allocated above, and nothing else knows of it.
        unsafe { libc::free(memory) };
    }
    noted?;
    out.set(memory)
}

pub(crate) fn free(memory: *mut c_void) -> Answer {
    if memory.is_null() {
        return Ok(());
    }
    remove(memory.addr() as u64, true)?;
    // SAFETY: the list said that `allocate` made it, and it was in the list once.
    unsafe { libc::free(memory) };
    Ok(())
}

pub(crate) fn register(addr: u64, size_bytes: usize) -> Answer {
    /// `cudaErrorHostMemoryAlreadyRegistered`.
    const REGISTERED: Status = Status(712);
    if addr == 0 || size_bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    if machine::with(|machine| Ok(machine.host.device_of(addr).is_some()))? {
        return Err(REGISTERED);
    }
    insert(addr, size_bytes as u64, false)
}

pub(crate) fn unregister(addr: u64) -> Answer {
    /// `cudaErrorHostMemoryNotRegistered`.
    const NOT_REGISTERED: Status = Status(713);
    remove(addr, false).map_err(|_| NOT_REGISTERED)
}
