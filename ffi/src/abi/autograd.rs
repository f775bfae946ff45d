//! The autograd node that a thread makes or runs, as the bridge to PyTorch reports it.

use std::ffi::c_int;

use super::autograd_call::VramtapeAutogradCall;
use crate::guard;
use crate::process::autograd;

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
