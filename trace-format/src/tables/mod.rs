//! Strings and stacks: written once, known by number from then on.
//!
//! Both tables grow by what their chunks add, so a number never changes its meaning within a tape.

mod intern;
mod read;

pub(crate) use intern::Interner;
pub use read::{FrameText, Tables};

use crate::ids::StringId;

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
