//! Backward passes by the forward calls that made their nodes.
//!
//! PyTorch runs a backward pass on threads of its own, which have no Python frames. Each node of autograd has a number
//! of its own in its thread: an allocation inside a forward call is noted under the number of the node being made, and
//! one in a backward pass is looked up under the number of the node that runs. Only calls whose stack is captured are
//! noted, so a node is known where its forward allocation was.

use std::ffi::CStr;
use std::sync::{Mutex, OnceLock};

use stacks::Names;
use trace_format::{BACKWARD_FILE, StackId};

use crate::abi::autograd_call::{VRAMTAPE_BACKWARD, VRAMTAPE_FORWARD, VramtapeAutogradCall};

/// Fills in the autograd node that the calling thread makes or runs.
pub(crate) type Ask = unsafe extern "C-unwind" fn(*mut VramtapeAutogradCall) -> i32;

/// Forward calls that are remembered, those of the newest nodes.
const SLOTS: usize = 1 << 16;

static ASK: OnceLock<Ask> = OnceLock::new();
static FORWARD: Mutex<Vec<Forward>> = Mutex::new(Vec::new());

/// The stack of the forward call that made a node.
#[derive(Clone, Copy, Default)]
struct Forward {
    thread: u64,
    sequence: u64,
    stack: StackId,
}

/// From now on PyTorch is asked what it does when a stack is captured. The first who says how stays.
pub(crate) fn ask_with(ask: Ask) {
    stacks::hold_end_for_calls();
    let _ = ASK.set(ask); // The bridge is loaded once.
}

/// An allocation with this stack is about to be made, perhaps by a forward call.
pub(super) fn note_forward(stack: StackId) {
    let Some(call) = call_of(VRAMTAPE_FORWARD) else { return };
    let (thread, sequence) = (call.thread, call.sequence);
    // A lock that is held at a fork stays held in the child: no thread waits for it.
    let Ok(mut forward) = FORWARD.try_lock() else { return };
    if forward.is_empty() {
        forward.resize(SLOTS, Forward::default());
    }
    let slot = &mut forward[slot_of(thread, sequence)];
    // The node's own call allocates first; what comes later under its number may be of no node at all.
    if (slot.thread, slot.sequence) != (thread, sequence) || slot.stack == StackId::NONE {
        *slot = Forward { thread, sequence, stack };
    }
}

/// The stack of the forward call that made the node which runs on this thread, behind a frame for the node itself.
pub(super) fn of_backward(names: &impl Names) -> Option<StackId> {
    let call = call_of(VRAMTAPE_BACKWARD)?;
    let known = *FORWARD.try_lock().ok()?.get(slot_of(call.thread, call.sequence))?;
    if (known.thread, known.sequence) != (call.thread, call.sequence)
        || known.stack == StackId::NONE
    {
        return None;
    }
    let name = CStr::from_bytes_until_nul(&call.name).unwrap_or_default().to_string_lossy();
    names.stack(known.stack, names.frame(&name, BACKWARD_FILE, 0)?)
}

fn call_of(kind: i32) -> Option<VramtapeAutogradCall> {
    let mut call = VramtapeAutogradCall { thread: 0, sequence: 0, name: [0; 64] };
    let ask = ASK.get()?;
    // SAFETY: the bridge's function, which fills in what it is given. It may wait for Python: a node has a name there.
    let found = stacks::call_program(|| unsafe { ask(&raw mut call) })?;
    (found == kind).then_some(call)
}

/// Numbers of one thread follow each other, and so do their slots.
fn slot_of(thread: u64, sequence: u64) -> usize {
    (sequence.wrapping_add(thread.wrapping_mul(0x9e37_79b9)) % SLOTS as u64) as usize
}
