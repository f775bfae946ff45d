//! Plans of convolutions for a cuDNN before 9.8, which plans for the GPU of a handle only: a model.
//!
//! Tensors, convolutions and operations are still the real library's; graphs, heuristics, engines and plans are kept
//! here. The heuristic answers one engine. Its workspace is a copy of each tensor of the convolution whose channels do
//! not come last, because kernels for tensor cores read and write channels last. Later versions of cuDNN mostly need
//! that, or that without the output; for the gradients of filters they take up to about 8 MiB of partial sums more.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::element;
use super::library::Descriptor;
use crate::abi::{Answer, In, Out, Status};
use crate::{machine, not_simulated};

/// `cudnnBackendDescriptorType_t` of what is kept here: engine, its configuration, heuristics, plan, graph, arguments.
const KEPT: [c_int; 6] = [2, 3, 4, 5, 15, 16];
const GRAPH: c_int = 15;
/// Convolution forward, backward of the filter, backward of the data.
const CONVOLUTIONS: [c_int; 3] = [10, 11, 12];

/// `cudnnBackendAttributeName_t`.
mod attribute {
    pub(super) const HEURISTICS_RESULTS: i32 = 202;
    pub(super) const CONFIG_ENGINE: i32 = 300;
    pub(super) const PLAN_WORKSPACE: i32 = 402;
    pub(super) const TENSOR_DATA_TYPE: i32 = 901;
    pub(super) const TENSOR_DIMENSIONS: i32 = 902;
    pub(super) const TENSOR_STRIDES: i32 = 903;
    pub(super) const ENGINE_INDEX: i32 = 1301;
}

/// `CUDNN_TYPE_BACKEND_DESCRIPTOR`.
const DESCRIPTOR: c_int = 15;

/// What is known of a descriptor, the real library's or one that is kept here.
#[derive(Clone, Debug, Default)]
struct Known {
    kind: c_int,
    /// The workspace of the convolution in it, as far as its tensors are known.
    workspace_bytes: Option<i64>,
    data_type: c_int,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

static KNOWN: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashMap<usize, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether descriptors of this kind are kept here.
pub(super) fn keeps(kind: c_int) -> bool {
    KEPT.contains(&kind)
}

/// Whether a descriptor is kept here.
pub(super) fn owns(descriptor: Descriptor) -> bool {
    known().get(&descriptor.addr()).is_some_and(|known| keeps(known.kind))
}

/// A descriptor of a kind that is kept here.
pub(super) fn create(kind: c_int) -> Descriptor {
    let made = ptr::without_provenance_mut(machine::new_handle() as usize);
    note(made, kind);
    made
}

/// Notes a descriptor.
pub(super) fn note(descriptor: Descriptor, kind: c_int) {
    let workspace_bytes = CONVOLUTIONS.contains(&kind).then_some(0);
    known().insert(descriptor.addr(), Known { kind, workspace_bytes, ..Known::default() });
}

/// Forgets a descriptor.
pub(super) fn forget(descriptor: Descriptor) {
    known().remove(&descriptor.addr());
}

/// Notes what the caller sets.
pub(super) fn set(
    descriptor: Descriptor,
    name: c_int,
    kind: c_int,
    count: i64,
    values: *const c_void,
) -> Answer {
    let count = usize::try_from(count).map_err(|_| Status::INVALID_VALUE)?;
    let mut all = known();
    let parts = if kind == DESCRIPTOR { In::<usize>::at(values).list(count)? } else { Vec::new() };
    let parts: Vec<Known> = parts.iter().filter_map(|part| all.get(part)).cloned().collect();
    let Some(known) = all.get_mut(&descriptor.addr()) else { return Ok(()) };
    match (kind, name) {
        // The parts may be destroyed before the whole is used.
        (DESCRIPTOR, _) => {
            for part in &parts {
                known.workspace_bytes = match known.workspace_bytes {
                    Some(bytes) if CONVOLUTIONS.contains(&known.kind) => {
                        Some(bytes + copy_bytes(part)?)
                    }
                    bytes => bytes.or(part.workspace_bytes),
                };
            }
        }
        (_, attribute::TENSOR_DATA_TYPE) => known.data_type = In::at(values).get()?,
        (_, attribute::TENSOR_DIMENSIONS) => known.sizes = In::at(values).list(count)?,
        (_, attribute::TENSOR_STRIDES) => known.strides = In::at(values).list(count)?,
        _ => {}
    }
    Ok(())
}

/// Answers for a descriptor that is kept here. There is one engine, and it has no notes and no knobs.
pub(super) fn get(
    descriptor: Descriptor,
    name: c_int,
    room: i64,
    count: *mut i64,
    values: *mut c_void,
) -> Answer {
    let count = Out::at(count.cast());
    let mut all = known();
    let workspace_bytes = all.get(&descriptor.addr()).and_then(|known| known.workspace_bytes);
    match name {
        attribute::HEURISTICS_RESULTS | attribute::CONFIG_ENGINE => {
            if room > 0 {
                // The caller has made the descriptor of the configuration or its engine.
                let made: usize = In::at(values.cast_const()).get()?;
                all.get_mut(&made).ok_or(Status::INVALID_VALUE)?.workspace_bytes = workspace_bytes;
            }
        }
        attribute::PLAN_WORKSPACE => {
            Out::at(values).set(workspace_bytes.ok_or(Status::NOT_SUPPORTED)?)?;
        }
        attribute::ENGINE_INDEX => Out::at(values).set(0_i64)?,
        _ => return count.set(0),
    }
    count.set_if_wanted(1_i64);
    Ok(())
}

/// Refuses to finalize a graph without a convolution.
pub(super) fn finalize(descriptor: Descriptor) -> Answer {
    let is_empty = known()
        .get(&descriptor.addr())
        .is_none_or(|known| known.kind == GRAPH && known.workspace_bytes.is_none());
    if !is_empty {
        return Ok(());
    }
    not_simulated("cuDNN's graphs without a convolution, before cuDNN 9.8");
    Err(Status::NOT_SUPPORTED)
}

/// The size of a copy of a tensor with its channels last, where it has them elsewhere.
fn copy_bytes(tensor: &Known) -> Answer<i64> {
    let (Some(&channels), Some(&stride)) = (tensor.sizes.get(1), tensor.strides.get(1)) else {
        return Ok(0);
    };
    if stride == 1 || channels == 1 {
        return Ok(0);
    }
    Ok(tensor.sizes.iter().product::<i64>() * element::size_bytes(tensor.data_type)? as i64)
}
