//! Dropout descriptors: the probability, and the states of the random number generators.

use std::ffi::c_void;

use super::cudnn;
use super::registry::Registry;
use crate::abi::{Answer, Out};
use crate::{device, handle};

/// A generator for each thread that a GPU holds. cuDNN's answer is this times two properties of the GPU, inferred to be
/// its multiprocessors and their threads.
const STATE_BYTES: usize = 24;

/// The probability of each descriptor.
static DROPOUTS: Registry<f32> = Registry::new();

/// Whether a descriptor drops anything.
pub(super) fn is_on(descriptor: u64) -> Answer<bool> {
    Ok(DROPOUTS.get(descriptor)? > 0.0)
}

cudnn! {
    fn cudnnCreateDropoutDescriptor(out: Out<u64>) {
        DROPOUTS.create(out)
    }

    fn cudnnDestroyDropoutDescriptor(descriptor: u64) {
        DROPOUTS.destroy(descriptor)
    }

    fn cudnnDropoutGetStatesSize(_handle: u64, out: Out<usize>) {
        let gpu = device::gpu()?;
        let threads = gpu.multiprocessors as usize * gpu.capability.max_threads as usize;
        out.set(threads * STATE_BYTES)
    }

    fn cudnnSetDropoutDescriptor(
        descriptor: u64, handle: u64, dropout: f32, states: *mut c_void, _states_bytes: usize,
        _seed: u64,
    ) {
        DROPOUTS.set(descriptor, dropout)?;
        // The states are initialised on the GPU.
        if states.is_null() { Ok(()) } else { handle::operation(handle) }
    }

    fn cudnnRestoreDropoutDescriptor(
        descriptor: u64, _handle: u64, dropout: f32, _states: *mut c_void, _states_bytes: usize,
        _seed: u64,
    ) {
        DROPOUTS.set(descriptor, dropout)
    }
}
