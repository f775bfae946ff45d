//! The event model: the ids of things, the events of an allocator, the seam that takes them ([`Recorder`]), and
//! [`State`], which follows a device's memory and pools through its events, forwards and backwards. No file, no
//! thread, no clock.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

mod base;
mod event;
mod ids;
mod order;
mod page_audit;
mod recorder;
mod segment;
mod state;
mod statistics;

pub use base::{BaseState, PoolState, ScopeState};
pub use event::{Category, Event, MarkKind, Record, ScopeFilter};
pub use ids::{Addr, DeviceId, FrameId, PageNumber, PoolId, StackId, Stream, StringId, ThreadId};
pub use order::{BaseOrder, RangeState};
pub use page_audit::{PageAudit, PageViolation};
pub use recorder::{BlockSlot, Memory, Off, Recorder};
pub use segment::{BlockState, BlockStatus, SegmentState};
pub use state::{
    BlockChange, MappedPages, MappedRange, MappedRanges, MappingChange, PageChange, PoolsState,
    Problem, RangeEdit, Scopes, State, StateError, check_pages, check_segments, tile,
};
pub use statistics::{STATISTICS, Statistics, StatisticsValues};
