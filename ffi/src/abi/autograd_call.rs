//! What the bridge to PyTorch reports of a node of autograd.

use std::ffi::c_int;

/// A forward call makes a node.
pub const VRAMTAPE_FORWARD: c_int = 1;

/// A node runs its backward pass.
pub const VRAMTAPE_BACKWARD: c_int = 2;

/// A node of autograd.
#[repr(C)]
pub struct VramtapeAutogradCall {
    /// PyTorch's number of the thread that made it.
    pub thread: u64,
    /// Its number among those of that thread.
    pub sequence: u64,
    /// Its name, terminated, where it runs its backward pass.
    pub name: [u8; 64],
}
