//! The tape that a running process writes: a thread that reads the ring, and a ring's contents saved on demand.

mod attach;
mod drainer;
mod join;
mod names;
mod outcome;
mod recorder;
mod recover;
mod requests;
mod rewind;
mod ring_slice;
mod ring_source;
mod rotation;
mod save;
mod signals;
mod tape_file;
#[cfg(test)]
mod tests;

pub use attach::{AttachedCounts, AttachedTape};
pub use join::join_rings;
pub use outcome::{TapeError, TapeFailure, TapeSummary};
pub use recorder::{Flush, TapeRecorder};
pub use recover::{RecoverError, Recovered, recover_rings, tape_of_ring};
pub use ring_source::{BaseFn, TapeSource};
pub use save::{RingPart, save_rings};
pub use signals::block as block_signals;
pub use tape_file::{TapeFile, remove_older_part};
