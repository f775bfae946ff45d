//! The parts a snapshot is made of, for the two formats it is written in.

use std::io;

use trace_format::{FrameId, PoolId, StackId};

/// Something that occurs many times in a snapshot and that a format may write only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shared {
    /// The frames of a call stack.
    Stack(StackId),
    /// One frame.
    Frame(FrameId),
    /// A pool id.
    Pool(PoolId),
}

/// Writes nested values. Every `begin` has its `end`; in a dict every value follows its key, in a list its `item`.
pub(super) trait Encode {
    fn begin_dict(&mut self) -> io::Result<()>;
    fn key(&mut self, key: &'static str) -> io::Result<()>;
    fn end_dict(&mut self) -> io::Result<()>;
    fn begin_list(&mut self) -> io::Result<()>;
    fn item(&mut self) -> io::Result<()>;
    fn end_list(&mut self) -> io::Result<()>;
    fn pair(&mut self, first: u64, second: u64) -> io::Result<()>;
    fn integer(&mut self, value: i128) -> io::Result<()>;
    fn float(&mut self, value: f64) -> io::Result<()>;
    fn boolean(&mut self, value: bool) -> io::Result<()>;
    fn text(&mut self, text: &str) -> io::Result<()>;
    /// Refers to what was written before; false where that is not possible and it has to be written.
    fn recall(&mut self, what: Shared) -> io::Result<bool>;
    /// Keeps the value just completed for [`recall`](Self::recall).
    fn remember(&mut self, what: Shared) -> io::Result<()>;
}
