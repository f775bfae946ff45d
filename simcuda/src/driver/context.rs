//! Initialisation, devices, contexts and peers.

use std::ffi::{c_char, c_int};

use ::device::Device;
use events::DeviceId;

use crate::abi::{Answer, Out, Status, driver};
use crate::{device, machine};

/// A device's primary context is this number plus the ordinal; there are no others.
const CONTEXT: u64 = 0xc000;

fn context(ordinal: u16) -> u64 {
    CONTEXT + u64::from(ordinal)
}

/// The device of a context; `None` for the null context.
fn device_of(context: u64) -> Answer<Option<u16>> {
    if context == 0 {
        return Ok(None);
    }
    let ordinal = context.checked_sub(CONTEXT).and_then(|ordinal| i32::try_from(ordinal).ok());
    machine::ordinal(ordinal.ok_or(Status::INVALID_CONTEXT)?)
        .map(Some)
        .map_err(|_| Status::INVALID_CONTEXT)
}

/// The current context, or 0.
fn current() -> u64 {
    machine::chosen_device().map_or(0, context)
}

pub(crate) fn synchronize() -> Answer {
    machine::with_current(|device| Ok(device.device_synchronize()?))
}

pub(crate) fn version(out: Out<c_int>) -> Answer {
    out.set(device::DRIVER_VERSION)
}

pub(crate) fn attribute(out: Out<c_int>, attribute: c_int, ordinal: c_int) -> Answer {
    let physical = machine::physical(machine::ordinal(ordinal)?)?;
    out.set(device::attribute(device::gpu()?, attribute, physical))
}

pub(crate) fn uuid(out: Out<[u8; 16]>, ordinal: c_int) -> Answer {
    out.set(device::uuid(machine::physical(machine::ordinal(ordinal)?)?))
}

pub(crate) fn pci_bus_id(out: Out<c_char>, room: c_int, ordinal: c_int) -> Answer {
    out.text(&device::pci_bus_id(machine::physical(machine::ordinal(ordinal)?)?), room)
}

pub(crate) fn stream_priorities(lowest: Out<c_int>, highest: Out<c_int>) {
    lowest.set_if_wanted(device::STREAM_PRIORITIES.0);
    highest.set_if_wanted(device::STREAM_PRIORITIES.1);
}

pub(crate) fn can_access_peer(out: Out<c_int>, ordinal: c_int, peer: c_int) -> Answer {
    let (ordinal, peer) = (machine::ordinal(ordinal)?, machine::ordinal(peer)?);
    let can =
        machine::with(|machine| Ok(machine.device(ordinal)?.can_access_peer(DeviceId(peer))?))?;
    out.set(c_int::from(can))
}

/// Every device reaches every other, so there is nothing to enable; twice is an error as with a driver.
pub(crate) fn enable_peer_access(peer: u16) -> Answer {
    machine::with(|machine| {
        let pair = (machine::current_device(), peer);
        if pair.0 == peer {
            return Err(Status::INVALID_DEVICE);
        }
        if machine.peers.insert(pair) { Ok(()) } else { Err(Status::PEER_ENABLED) }
    })
}

fn push(context: u64) -> Answer {
    let below = machine::chosen_device();
    machine::choose_device(device_of(context)?)?;
    machine::push_device(below);
    Ok(())
}

fn pop(out: Out<u64>) -> Answer {
    let popped = current();
    machine::choose_device(machine::pop_device())?;
    out.set_if_wanted(popped);
    Ok(())
}

driver! {
    fn cuInit(_flags: u32) {
        if machine::device_count()? == 0 { Err(Status::NO_DEVICE) } else { Ok(()) }
    }

    fn cuDeviceGetCount(out: Out<c_int>) {
        out.set(c_int::from(machine::device_count()?))
    }

    fn cuDeviceGet(out: Out<c_int>, ordinal: c_int) {
        out.set(c_int::from(machine::ordinal(ordinal)?))
    }

    fn cuDeviceGetName(out: Out<c_char>, room: c_int, ordinal: c_int) {
        machine::ordinal(ordinal)?;
        out.text(&device::gpu()?.product, room)
    }

    fn cuDeviceTotalMem_v2(out: Out<usize>, ordinal: c_int) {
        machine::ordinal(ordinal)?;
        out.set(machine::fixed()?.settings.memory_bytes as usize)
    }

    fn cuDevicePrimaryCtxGetState(ordinal: c_int, flags: Out<u32>, active: Out<c_int>) {
        let ordinal = machine::ordinal(ordinal)?;
        flags.set_if_wanted(0);
        active.set(c_int::from(machine::is_active(ordinal)))
    }

    fn cuDevicePrimaryCtxRetain(out: Out<u64>, ordinal: c_int) {
        let ordinal = machine::ordinal(ordinal)?;
        machine::activate(ordinal)?;
        out.set(context(ordinal))
    }

    fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) {
        machine::ordinal(ordinal).map(|_| ())
    }

    fn cuCtxGetCurrent(out: Out<u64>) {
        out.set(current())
    }

    fn cuCtxSetCurrent(context: u64) {
        machine::choose_device(device_of(context)?)
    }

    fn cuCtxPushCurrent(context: u64) {
        push(context)
    }

    fn cuCtxPushCurrent_v2(context: u64) {
        push(context)
    }

    fn cuCtxPopCurrent(out: Out<u64>) {
        pop(out)
    }

    fn cuCtxPopCurrent_v2(out: Out<u64>) {
        pop(out)
    }

    fn cuStreamGetCtx(stream: u64, out: Out<u64>) {
        let device = machine::with(|machine| machine.stream(stream).map(|(device, _)| device))?;
        out.set(context(device))
    }

    fn cuCtxGetDevice(out: Out<c_int>) {
        out.set(c_int::from(machine::chosen_device().ok_or(Status::INVALID_CONTEXT)?))
    }

    fn cuCtxGetStreamPriorityRange(lowest: Out<c_int>, highest: Out<c_int>) {
        stream_priorities(lowest, highest);
        Ok(())
    }

    /// The driver has nothing to log.
    fn cuLogsRegisterCallback(_callback: u64, _argument: u64, out: Out<u64>) {
        out.set_if_wanted(machine::new_handle());
        Ok(())
    }

    fn cuCtxEnablePeerAccess(context: u64, _flags: u32) {
        enable_peer_access(device_of(context)?.ok_or(Status::INVALID_CONTEXT)?)
    }
}
