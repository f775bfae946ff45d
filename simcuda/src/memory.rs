//! Device memory: allocations and virtual memory.

use device::{Device, HandleType, MemoryInfo, PhysicalHandle};
use events::{Addr, DeviceId};
use sim_device::SimDevice;

use crate::abi::{Answer, Out, Status};
use crate::machine::{self, Machine};

/// A physical handle as C sees it carries its device, because every device numbers its own.
const DEVICE_SHIFT: u32 = 48;

/// Allocates on the current device; nothing for no bytes, as `cudaMalloc`.
pub(crate) fn allocate(out: Out<u64>, size_bytes: usize) -> Answer {
    out.wanted()?;
    if size_bytes == 0 {
        return out.set(0);
    }
    let addr = machine::with_current(|device| Ok(device.malloc(size_bytes as u64)?))?;
    out.set(addr.0)
}

pub(crate) fn free(addr: u64) -> Answer {
    if addr == 0 {
        return Ok(());
    }
    machine::with(|machine| {
        machine.owner(addr)?.free(Addr(addr))?;
        machine.unshare_allocation(addr);
        Ok(())
    })
}

pub(crate) fn info(free_bytes: Out<usize>, total_bytes: Out<usize>) -> Answer {
    let info: MemoryInfo = machine::with_current(|device| Ok(device.memory_info()?))?;
    free_bytes.set_if_wanted(info.free_bytes as usize);
    total_bytes.set_if_wanted(info.total_bytes as usize);
    Ok(())
}

pub(crate) fn reserve(out: Out<u64>, size_bytes: usize) -> Answer {
    out.wanted()?;
    let addr = machine::with_current(|device| Ok(device.reserve(size_bytes as u64)?))?;
    out.set(addr.0)
}

pub(crate) fn unreserve(addr: u64, size_bytes: usize) -> Answer {
    on_owner(addr, |device| Ok(device.unreserve(Addr(addr), size_bytes as u64)?))
}

pub(crate) fn create(out: Out<u64>, size_bytes: usize, device: u16, share: HandleType) -> Answer {
    out.wanted()?;
    let handle =
        machine::with(|machine| Ok(machine.device(device)?.create(size_bytes as u64, share)?))?;
    out.set(join(device, handle))
}

/// A handle as C sees it.
pub(crate) fn join(device: u16, handle: PhysicalHandle) -> u64 {
    u64::from(device) << DEVICE_SHIFT | handle.0
}

/// A handle's device, and its name there.
pub(crate) fn split(handle: u64) -> (u16, PhysicalHandle) {
    let device = (handle >> DEVICE_SHIFT) as u16;
    (device, PhysicalHandle(handle & ((1 << DEVICE_SHIFT) - 1)))
}

/// The device of a handle that is held, and how its memory may be shared.
pub(crate) fn handle_properties(handle: u64) -> Answer<(u16, HandleType)> {
    let (device, handle) = split(handle);
    let share = machine::with(|machine| Ok(machine.device(device)?.share_of(handle)))?;
    share.map(|share| (device, share)).ok_or(Status::INVALID_VALUE)
}

pub(crate) fn release(handle: u64) -> Answer {
    let (device, handle) = split(handle);
    machine::with(|machine| {
        machine.device(device)?.release(handle)?;
        machine.unshare_dead_memory();
        Ok(())
    })
}

pub(crate) fn map(addr: u64, size_bytes: usize, handle: u64) -> Answer {
    let (device, handle) = split(handle);
    on_owner(addr, |owner| {
        if owner.id() != DeviceId(device) {
            crate::not_simulated("memory of one device mapped into the addresses of another");
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(owner.map(Addr(addr), size_bytes as u64, handle)?)
    })
}

pub(crate) fn unmap(addr: u64, size_bytes: usize) -> Answer {
    machine::with(|machine| {
        machine.owner(addr)?.unmap(Addr(addr), size_bytes as u64)?;
        machine.unshare_dead_memory();
        Ok(())
    })
}

pub(crate) fn set_access(addr: u64, size_bytes: usize, peer: u16) -> Answer {
    on_owner(addr, |device| Ok(device.set_access(Addr(addr), size_bytes as u64, DeviceId(peer))?))
}

/// Whether the device can use the mapped memory at `addr`.
pub(crate) fn has_access(addr: u64, peer: u16) -> Answer<bool> {
    on_owner(addr, |device| Ok(device.accessible(Addr(addr), DeviceId(peer))))
}

/// The device that owns the memory at `addr`; `None` where there is none.
pub(crate) fn device_of(addr: u64) -> Answer<Option<u16>> {
    machine::with(|machine: &mut Machine| {
        let Ok(device) = machine.owner(addr) else { return Ok(None) };
        let id = device.id();
        Ok(device.accessible(Addr(addr), id).then_some(id.0))
    })
}

/// Start and size of the allocation or reservation that holds `addr`.
pub(crate) fn range_of(addr: u64) -> Answer<(Addr, u64)> {
    on_owner(addr, |device| device.range_of(Addr(addr)).ok_or(Status::NOT_FOUND))
}

fn on_owner<T>(addr: u64, work: impl FnOnce(&mut SimDevice) -> Answer<T>) -> Answer<T> {
    machine::with(|machine| work(machine.owner(addr)?))
}
