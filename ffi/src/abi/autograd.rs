//! The autograd node that a thread makes or runs, as the bridge to PyTorch reports it.

use std::ffi::c_int;

use crate::guard;
use crate::process::autograd;

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

/// From now on `ask` is called on a thread whose stack is captured, without any lock of ours. It fills in the node and
/// returns `VRAMTAPE_FORWARD`, `VRAMTAPE_BACKWARD`, or 0 where autograd does neither. It must not throw and must stay
/// valid until the process ends. Only the first call counts.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_set_autograd(
    ask: Option<unsafe extern "C-unwind" fn(*mut VramtapeAutogradCall) -> c_int>,
) {
    guard::answer((), || {
        if let Some(ask) = ask {
            autograd::ask_with(ask);
        }
        Ok(())
    });
}
