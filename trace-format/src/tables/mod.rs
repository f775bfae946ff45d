//! Strings and stacks: written once, known by number from then on.
//!
//! Both tables grow by what their chunks add, so a number never changes its meaning within a tape.

mod intern;
mod read;

pub(crate) use intern::{Full, TapeInterner};
pub use read::{FrameText, Tables};

use events::StringId;

/// One line of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function's name.
    pub name: StringId,
    /// The file it is in.
    pub filename: StringId,
    /// The line in that file; 0 where it is not known.
    pub line: u32,
}

/// The file of the one frame of a thread that runs no Python; its function is the thread's name.
pub const THREAD_FILE: &str = "<thread>";

/// The file of the frame that stands for a backward pass; its function is the node's name. Outside it are the frames of
/// the forward call that made the node.
pub const BACKWARD_FILE: &str = "<backward>";

/// A string's share of the tables' limit: about its size in a reader's memory.
fn string_cost_bytes(text: &str) -> usize {
    16 + text.len()
}

/// A frame's share of the limit.
const FRAME_COST_BYTES: usize = 12;

/// The share of the limit of a stack with so many frames.
const fn stack_cost_bytes(depth: usize) -> usize {
    8 + 4 * depth
}
