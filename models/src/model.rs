//! A model: the policy of another allocator for one pool of memory.

use events::{Addr, Stream};

use crate::memory::Memory;
use crate::model_settings::Settings;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Bytes, not rounded; more than zero.
    pub size_bytes: u64,
    /// The stream that may use the memory without synchronization.
    pub stream: Stream,
    /// The tape's time, in nanoseconds; 0 where it has no clock.
    pub now_ns: u64,
}

/// What was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The model's number for it.
    pub id: u32,
    /// Where it is.
    pub addr: Addr,
    /// Bytes handed out, after rounding and splitting.
    pub size_bytes: u64,
}

/// The policy for one pool. Everything that is the same for all models is in replay's `Hosted`: private pools,
/// frees that wait for other streams, limits, statistics.
pub trait Model: Sized {
    /// Its name in tables and on the command line.
    const NAME: &'static str;
    /// What it is, in a line.
    const WHAT: &'static str;
    /// The smallest unit it hands out.
    const GRANULE_BYTES: u64;
    /// Its settings.
    type Settings: Settings;

    /// A pool. What settings say about the memory to begin with is for the default pool; private pools begin empty
    /// and grow.
    ///
    /// # Errors
    /// When it cannot begin on this device: what to set.
    fn new(
        settings: &Self::Settings,
        memory: &mut Memory,
        is_private: bool,
    ) -> Result<Self, String>;

    /// Memory, or `None` when the pool cannot have any for now.
    fn malloc(&mut self, memory: &mut Memory, ask: Ask) -> Option<Piece>;

    /// Takes a piece back. Its own stream may still have work before this point; no other stream has.
    fn free(&mut self, memory: &mut Memory, piece: Piece, stream: Stream, now_ns: u64);

    /// Takes a piece back that other streams used (`record_stream`), was freed at `freed_ns`, and that they are done
    /// with now.
    fn free_awaited(
        &mut self,
        memory: &mut Memory,
        piece: Piece,
        stream: Stream,
        freed_ns: u64,
        now_ns: u64,
    ) {
        let _ = freed_ns;
        self.free(memory, piece, stream, now_ns);
    }

    /// The device was waited for, and cached memory shall go back as far as there is a way.
    fn empty_cache(&mut self, memory: &mut Memory);

    /// The pool ends; nothing of it is handed out.
    fn close(self, memory: &mut Memory);
}
