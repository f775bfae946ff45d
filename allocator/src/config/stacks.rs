//! Whose call stacks are recorded.

use std::num::NonZero;

/// At which calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackMode {
    /// At none.
    #[default]
    None,
    /// At allocations.
    Alloc,
    /// At allocations and frees.
    All,
}

/// `stacks` and what goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSettings {
    /// `stacks`; a `stacks_every` alone means [`StackMode::Alloc`].
    pub mode: StackMode,
    /// `stacks_every`: of so many bytes one has its stack recorded, on average; none means every call.
    pub every_bytes: Option<NonZero<u64>>,
}

/// What was written, and where.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) mode: Option<StackMode>,
    pub(super) every: Option<(NonZero<u64>, usize)>,
}

impl Written {
    /// The settings, and where something stands that has no effect.
    pub(super) fn settle(self) -> (StackSettings, Option<usize>) {
        let mode = self.mode.unwrap_or(match self.every {
            None => StackMode::None,
            Some(_) => StackMode::Alloc,
        });
        match self.every {
            Some((_, at)) if mode == StackMode::None => (StackSettings::default(), Some(at)),
            every => (StackSettings { mode, every_bytes: every.map(|(bytes, _)| bytes) }, None),
        }
    }
}
