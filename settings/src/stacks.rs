//! The settings that select the allocations whose call stacks are recorded.

use alloc::vec::Vec;

use core::num::NonZero;

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

impl StackMode {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Alloc => "alloc",
            Self::All => "all",
        }
    }
}

/// `stacks` and what goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSettings {
    /// `stacks`; another key alone means [`StackMode::Alloc`].
    pub mode: StackMode,
    /// `stacks_every`: of so many bytes one has its stack recorded, on average; none means every call.
    pub every_bytes: Option<NonZero<u64>>,
    /// `stacks_native`: whether the frames of C++ inside Python's innermost are a part of it.
    pub is_native: bool,
}

/// The values in the settings string, and their positions.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) mode: Option<StackMode>,
    pub(super) every: Option<(NonZero<u64>, usize)>,
    pub(super) native: Option<(bool, usize)>,
}

impl Written {
    /// The settings, and the keys that have no effect and where they stand.
    pub(super) fn settle(self) -> (StackSettings, Vec<(&'static str, usize)>) {
        let Self { mode, every, native } = self;
        let is_asked_for = every.is_some() || native.is_some_and(|(is_on, _)| is_on);
        let otherwise = if is_asked_for { StackMode::Alloc } else { StackMode::None };
        let mode = mode.unwrap_or(otherwise);
        if mode == StackMode::None {
            let every = every.map(|(_, at)| ("stacks_every", at));
            let native = native.filter(|(is_on, _)| *is_on).map(|(_, at)| ("stacks_native", at));
            return (StackSettings::default(), every.into_iter().chain(native).collect());
        }
        let every_bytes = every.map(|(bytes, _)| bytes);
        let is_native = native.is_some_and(|(is_on, _)| is_on);
        (StackSettings { mode, every_bytes, is_native }, Vec::new())
    }
}
