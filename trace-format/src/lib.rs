//! The tape: one event model for what a GPU memory allocator was asked and what it did, and the `.vtape` file that
//! holds it. No CUDA, no unsafe, no allocator.
//!
//! [`Writer`] makes a tape and [`Reader`] reads it, also one whose writer was killed; [`State`] follows a device's
//! memory through its events, forwards and backwards. `docs/trace-format.md` is the specification of the file.
//!
//! ```
//! use trace_format::{Addr, DeviceId, Event, Item, Meta, Reader, Record};
//! use trace_format::{Frame, PoolId, Stream, ThreadId, Writer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut writer = Writer::new(Vec::new(), "in memory", &Meta::default())?;
//! let (name, filename) = (writer.string("forward")?, writer.string("model.py")?);
//! let stack = writer.stack(&[Frame { name, filename, line: 7 }])?;
//! let event = Event::Alloc {
//!     addr: Addr(0x7f00_0000_0000),
//!     requested_bytes: 1000,
//!     size_bytes: 1024,
//!     stream: Stream(0),
//!     pool: PoolId::DEFAULT,
//! };
//! let record = Record { time_ns: 1_800_000_000_000_000_000, thread: ThreadId(1), stack, event };
//! writer.push(DeviceId(0), &record)?;
//! let tape = writer.finish()?;
//!
//! let mut reader = Reader::new(&tape[..], "in memory")?;
//! while let Some(item) = reader.next() {
//!     if let Item::Event(_, read) = item? {
//!         assert_eq!(read, record);
//!         let frame = reader.tables().stack(read.stack).unwrap()[0];
//!         assert_eq!(reader.tables().frame(frame).unwrap().line, 7);
//!     }
//! }
//! assert!(reader.recovered().finished);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod base_codec;
mod bounds;
mod code_owner;
mod event_codec;
mod host_memory;
mod index;
mod layout;
mod meta;
mod order_codec;
mod pages_codec;
mod read;
mod tables;
mod time;
mod varint;
mod visible;
mod write;

pub use bounds::{Bound, TooMuch};
pub use code_owner::{CodeOwner, code_owner};
pub use events::{
    Addr, BaseOrder, BaseState, BlockState, BlockStatus, Category, DeviceId, Event, FrameId,
    MarkKind, PageNumber, PoolId, PoolState, Problem, RangeState, Record, ScopeFilter, ScopeState,
    SegmentState, StackId, State, StateError, Stream, StringId, ThreadId,
};
pub use host_memory::{HostCall, HostReading};
pub use index::{Index, IndexEntry};
pub use layout::{CHUNK_HEADER_BYTES, ChunkKind, FILE_HEADER_BYTES, FIRST_VERSION, MAGIC, VERSION};
pub use meta::{DeviceMeta, EndKind, Meta, ProgramEnd, Source};
pub use read::{Item, Place, ReadCause, ReadError, Reader, Recovery, Torn};
pub use tables::{BACKWARD_FILE, Frame, FrameText, THREAD_FILE, Tables};
pub use time::utc;
pub use varint::Malformed;
pub use visible::visible;
pub use write::{Commit, Medium, WriteCause, WriteError, Writer};
