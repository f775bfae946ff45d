//! Graphs of operations, heuristics and plans (`cudnnBackend*`): the real library's, for the simulated GPU.
//!
//! cuDNN 9.8 and later plan for a GPU that is described to them instead of one that a handle is on: a descriptor of the
//! device's properties, made from JSON. PyTorch passes handles, so the handle of a plan is replaced by that descriptor,
//! and heuristics and engines get it where PyTorch adds nothing.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::cudnn;
use super::gpu;
use super::library::{Descriptor, Library, library};
use super::model;
use crate::abi::{Answer, Out, Status};
use crate::{device, handle};

/// `cudnnBackendDescriptorType_t`.
mod descriptor {
    pub(super) const ENGINE: i32 = 2;
    pub(super) const HEURISTICS: i32 = 4;
    pub(super) const DEVICE_PROPERTIES: i32 = 38;
}

/// `cudnnBackendAttributeName_t`.
mod attribute {
    pub(super) const HEURISTICS_DEVICE: i32 = 204;
    pub(super) const PLAN_HANDLE: i32 = 400;
    pub(super) const PLAN_DEVICE: i32 = 407;
    pub(super) const GRAPH_HANDLE: i32 = 800;
    pub(super) const ENGINE_DEVICE: i32 = 1307;
    pub(super) const DEVICE_JSON: i32 = 2702;
}

/// `cudnnBackendAttributeType_t`.
mod kind {
    pub(super) const HANDLE: i32 = 0;
    pub(super) const DESCRIPTOR: i32 = 15;
    pub(super) const CHAR: i32 = 20;
}

/// The descriptor of the simulated GPU, which lives as long as the process.
struct Device(Descriptor);

// SAFETY: a finalized descriptor is only read, and cuDNN allows that from any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The simulated GPU for a real library that plans without a device; "not supported" for an older one.
fn device(real: &Library) -> Answer<&'static Device> {
    static DEVICE: OnceLock<Answer<Device>> = OnceLock::new();
    DEVICE.get_or_init(|| describe(real)).as_ref().map_err(|status| *status)
}

fn describe(real: &Library) -> Answer<Device> {
    let made = real.create(descriptor::DEVICE_PROPERTIES)?;
    let mut json = gpu::properties(device::gpu()?).to_string().into_bytes();
    json.push(0);
    real.set(made, attribute::DEVICE_JSON, kind::CHAR, json.len() as i64, json.as_ptr().cast())?;
    real.finalize(made)?;
    Ok(Device(made))
}

/// Gives a descriptor the simulated GPU.
fn set_device(real: &Library, descriptor: Descriptor, name: c_int) -> Answer {
    let Device(device) = device(real)?;
    real.set(descriptor, name, kind::DESCRIPTOR, 1, std::ptr::from_ref(device).cast())
}

/// Whether the real library is too old to plan without a device.
fn is_modelled(real: &Library) -> bool {
    device(real).is_err()
}

cudnn! {
    fn cudnnBackendCreateDescriptor(kind: c_int, out: Out<Descriptor>) {
        out.wanted()?;
        let real = library()?;
        if is_modelled(real) {
            if model::keeps(kind) {
                return out.set(model::create(kind));
            }
            let made = real.create(kind)?;
            model::note(made, kind);
            return out.set(made);
        }
        let made = real.create(kind)?;
        match kind {
            descriptor::ENGINE => set_device(real, made, attribute::ENGINE_DEVICE)?,
            descriptor::HEURISTICS => set_device(real, made, attribute::HEURISTICS_DEVICE)?,
            _ => {}
        }
        out.set(made)
    }

    fn cudnnBackendDestroyDescriptor(descriptor: Descriptor) {
        let owned = model::owns(descriptor);
        model::forget(descriptor);
        if owned { Ok(()) } else { library()?.destroy(descriptor) }
    }

    fn cudnnBackendFinalize(descriptor: Descriptor) {
        if model::owns(descriptor) {
            model::finalize(descriptor)
        } else {
            library()?.finalize(descriptor)
        }
    }

    fn cudnnBackendSetAttribute(
        descriptor: Descriptor, name: c_int, kind: c_int, count: i64, values: *const c_void,
    ) {
        let real = library()?;
        if is_modelled(real) {
            model::set(descriptor, name, kind, count, values)?;
            if model::owns(descriptor) {
                return Ok(());
            }
        }
        match (kind, name) {
            (kind::HANDLE, attribute::GRAPH_HANDLE) => Ok(()),
            (kind::HANDLE, attribute::PLAN_HANDLE) => {
                set_device(real, descriptor, attribute::PLAN_DEVICE)
            }
            // The real library does not know this library's handles.
            (kind::HANDLE, _) => Err(Status::NOT_SUPPORTED),
            _ => real.set(descriptor, name, kind, count, values),
        }
    }

    fn cudnnBackendGetAttribute(
        descriptor: Descriptor, name: c_int, kind: c_int, room: i64, count: *mut i64,
        values: *mut c_void,
    ) {
        if model::owns(descriptor) {
            return model::get(descriptor, name, room, count, values);
        }
        library()?.get(descriptor, name, kind, room, count, values)
    }

    fn cudnnBackendExecute(handle: u64, _plan: Descriptor, _arguments: Descriptor) {
        handle::operation(handle)
    }
}
