//! The CUDA driver (`libcuda.so.1`): what PyTorch asks `cudaGetDriverEntryPointByVersion` and libcaffe2_nvrtc for, and
//! what programs on the driver alone (through cudarc, for one) need for memory, streams, events and captures.

pub(crate) mod context;
mod error;
pub(crate) mod execution;
pub(crate) mod lookup;
mod memory;
