//! The tape: one event model for what a GPU memory allocator was asked and what it did, and the `.vtape` file that
//! holds it. No CUDA, no unsafe, no allocator.
//!
//! [`Writer`] makes a tape and [`Reader`] reads it, also one whose writer was killed; [`State`] follows a device's
//! memory through its events, forwards and backwards. `docs/trace-format.md` is the specification of the file.
#![forbid(unsafe_code)]

mod base;
mod base_codec;
mod event;
mod events;
mod ids;
mod index;
mod layout;
mod meta;
mod read;
mod segment;
mod state;
mod tables;
mod varint;
mod write;

pub use base::{BaseState, PoolState, ScopeState};
pub use event::{Event, MarkKind, Record, ScopeFilter};
pub use ids::{Addr, DeviceId, FrameId, PoolId, StackId, Stream, StringId, ThreadId};
pub use index::{Index, IndexEntry};
pub use layout::{CHUNK_HEADER_BYTES, ChunkKind, FILE_HEADER_BYTES, MAGIC, VERSION};
pub use meta::{DeviceMeta, Meta, Source};
pub use read::{Item, ReadCause, ReadError, Reader, Recovery, Torn};
pub use segment::{BlockState, BlockStatus, SegmentState};
pub use state::{Problem, State, StateError};
pub use tables::{Frame, FrameText, Tables};
pub use varint::Malformed;
pub use write::{WriteCause, WriteError, Writer};
