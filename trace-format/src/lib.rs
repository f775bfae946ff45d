//! The tape: one event model for what a GPU memory allocator was asked and what it did, and the `.vtape` file that
//! holds it. No CUDA, no unsafe, no allocator.
#![forbid(unsafe_code)]

mod base;
mod event;
mod ids;
mod segment;
mod state;

pub use base::{BaseState, PoolState, ScopeState};
pub use event::{Event, MarkKind, Record, ScopeFilter};
pub use ids::{Addr, DeviceId, PoolId, StackId, Stream, StringId, ThreadId};
pub use segment::{BlockState, BlockStatus, SegmentState};
pub use state::{Problem, State, StateError};
