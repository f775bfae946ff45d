//! Opening a device: its heap is made by the first call that needs it.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use cuda_device::CudaDevice;
use device::{Device, DeviceError};
use settings::DeviceKind;
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{Addr, DeviceId, DeviceMeta, Meta, Stream};

use super::recording::{self, Recording, Subject};
use super::{DEVICES_MAX, Heap, Process, heaps, signals, slot, slot_of, stacks, with};
use crate::any_device::AnyDevice;
use crate::error::Error;
use crate::torch;

/// The device's heap, opened if need be.
pub(crate) fn heap(device: c_int) -> Result<&'static Heap, Error> {
    match slot(device)?.get() {
        Some(heap) => Ok(heap),
        None => open(device),
    }
}

/// The devices that allocated before: their first allocation went well, and so may the others.
static SERVING: [OnceLock<&'static Heap>; DEVICES_MAX] = [const { OnceLock::new() }; DEVICES_MAX];

/// As [`heap`], for an allocation on `stream`.
pub(crate) fn heap_for(device: c_int, stream: Stream) -> Result<&'static Heap, Error> {
    match slot_of(&SERVING, device)?.get() {
        Some(heap) => Ok(heap),
        None => first_allocation(device, stream),
    }
}

/// Other calls may have opened the heap before; at the first allocation PyTorch certainly uses this
/// library, so its hooks can be set.
///
/// PyTorch calls the hooks before a capture begins. Hooks that are set during a capture have missed
/// that call: the graph's memory would be reused while the graph still needs it.
#[cold]
fn first_allocation(device: c_int, stream: Stream) -> Result<&'static Heap, Error> {
    let heap = heap(device)?;
    with(|process| {
        process.are_hooks_set = process.are_hooks_set || torch::set_hooks();
        Ok(())
    })?;
    {
        let mut heap = heap.lock()?;
        let is_capturing = match heap.device_mut().capture(stream) {
            Err(DeviceError::Unavailable { .. }) => false,
            answer => answer?.is_some(),
        };
        if is_capturing && heap.base_without_memory().scopes.is_empty() {
            return Err(Error::runtime(
                "the first allocation on this device is inside a graph capture, which had no pool \
                 to begin with; allocate anything on the device before the capture",
            ));
        }
    }
    Ok(slot_of(&SERVING, device)?.get_or_init(|| heap))
}

#[cold]
fn open(device: c_int) -> Result<&'static Heap, Error> {
    let slot = slot(device)?;
    with(|process| {
        if let Some(heap) = slot.get() {
            return Ok(*heap);
        }
        let id = DeviceId(device as u16);
        process.try_tape(id);
        let heap = make(process, id)?;
        for callback in &process.callbacks {
            callback.add_to(heap);
        }
        for watch in &process.watches {
            watch.begin(id, heap)?;
        }
        for other in heaps() {
            share(heap, other)?;
            share(other, heap)?;
        }
        signals::arm();
        Ok(*slot.get_or_init(|| heap))
    })
}

/// Lets the peer's device use the heap's expandable segments if it can. PyTorch does not pass
/// peers to a pluggable allocator, and peers can access plain allocations anyway.
fn share(heap: &Heap, peer: &Heap) -> Result<(), Error> {
    let id = heap.lock()?.device_mut().id();
    let (peer, can_access) = {
        let mut peer = peer.lock()?;
        let peer = peer.device_mut();
        (peer.id(), peer.can_access_peer(id))
    };
    match can_access {
        Ok(true) => Ok(heap.lock()?.add_peer(peer)?),
        Ok(false) | Err(DeviceError::Unavailable { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn make(process: &mut Process, id: DeviceId) -> Result<&'static Heap, Error> {
    let mut device = device(process, id)?;
    let config = process.first_config().clone();
    let recorder = recording::make(&process.settings, id)?;
    let ring = recorder.ring().map(Arc::clone);
    let fraction = config.per_process_memory_fraction;
    let memory_fraction = (fraction < 1.0).then_some(fraction);
    let meta = DeviceMeta { memory_fraction, ..device.meta()? };
    if let Some(ring) = &ring {
        ring.describe(&Meta { devices: vec![meta.clone()], ..process.meta() });
    }
    let is_changed = config != process.config;
    let mut heap = allocator::heap::Heap::new(device, config, recorder)?;
    if is_changed {
        heap.set_config(process.config.clone());
    }
    let heap: &Heap = Box::leak(Box::new(SharedHeap::new(heap)));
    if let Some(ring) = ring {
        stacks::attach_ring(id.0.into(), &ring);
        let recording = Recording { subject: Subject::Heap(heap), ring, device: meta };
        process.record_on_tape(&recording);
        process.recordings.push(recording);
    }
    Ok(heap)
}

/// The device that the settings ask for.
pub(super) fn device(process: &Process, id: DeviceId) -> Result<AnyDevice, Error> {
    Ok(match process.settings.device {
        DeviceKind::Cuda => AnyDevice::Cuda(CudaDevice::open(id)?),
        DeviceKind::Sim => AnyDevice::Sim(Box::new(simulated(id))),
    })
}

/// Simulated devices lie side by side in one address space.
fn simulated(id: DeviceId) -> SimDevice {
    let config = SimConfig::default();
    let base = Addr(config.base.0 + u64::from(id.0) * config.length_bytes);
    SimDevice::new(SimConfig { device: id, base, ..config })
}
