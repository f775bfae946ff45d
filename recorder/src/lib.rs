//! Where events go: nowhere, into a ring, or into a ring that a thread writes to a tape; and the readers of both.
//!
//! Recording never blocks, never waits, and never fails an allocation. Knows no heap: a subject of a recording is a
//! [`StateView`].

#![deny(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod any;
mod cast;
mod clock;
mod follow;
mod interner;
mod ring;
mod slices;
mod tape;
#[cfg(test)]
mod testing;
mod watch;

pub use any::AnyRecorder;
pub use clock::{Calibration, Clock, Moment, SystemClock};
pub use follow::{Followed, RingFollower};
pub use interner::Interner;
pub use ring::{
    RING_DIR_VARIABLE, Ring, RingError, RingInfo, RingOptions, RingReader, RingRecorder, is_ring,
    list_readable_rings, list_rings, remove_dead_rings, ring_dir,
};
pub use slices::{Hold, PER_HOLD, StateView, base_in_slices};
pub use tape::{
    AttachedCounts, AttachedTape, BaseFn, Flush, RecoverError, Recovered, RingPart, TapeError,
    TapeFailure, TapeFile, TapeRecorder, TapeSource, TapeSummary, block_signals, join_rings,
    recover_rings, remove_older_part, save_rings, tape_of_ring,
};
pub use watch::{TraceAction, TraceEntry, WatchId, Watched, Watcher};
