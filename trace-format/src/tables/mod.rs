//! Strings and stacks: written once, known by number from then on.
//!
//! Both tables grow by what their chunks add, so a number never changes its meaning within a tape.

mod intern;
mod read;

pub(crate) use intern::{Full, Interner};
pub use read::{FrameText, Tables};

use crate::ids::{FrameId, StringId};

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

// The specification's numbers.
const _: () = assert!(size_of::<Box<str>>() == 16 && frame_cost_bytes() == 12);
const _: () = assert!(stack_cost_bytes(0) == 8 && stack_cost_bytes(1) == 12);

/// What a string takes in a reader's memory.
fn string_cost_bytes(text: &str) -> usize {
    size_of::<Box<str>>() + text.len()
}

/// What a frame takes in a reader's memory.
const fn frame_cost_bytes() -> usize {
    size_of::<Frame>()
}

/// What a stack of so many frames takes in a reader's memory.
const fn stack_cost_bytes(depth: usize) -> usize {
    size_of::<usize>() + depth * size_of::<FrameId>()
}
