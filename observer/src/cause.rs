//! Why segments went back to the device: a trace shows only that they did.
//!
//! A *window* is a run of entries in which segments go away, together with the completed frees among and directly
//! before them (giving everything back first waits for all pending frees). Three causes look like this:
//!
//! - **the retry chain**: the malloc that follows was refused by the device or the memory fraction, so what was
//!   reserved before the window plus what it needed must exceed the limit, and a segment (or an out-of-memory) must
//!   follow. An out-of-memory was refused even where nothing could be given back.
//! - **garbage collection**: only with its threshold set; takes whole large segments of the malloc that follows, above
//!   the threshold, and waits for nothing.
//! - **`torch.cuda.empty_cache()`**, or a pool's end: everything else.

use allocator::size;
use recorder::{TraceAction, TraceEntry};
use settings::Config;
use trace_format::{Event, PoolId};

/// Why the segments of a window went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The malloc that follows was refused this much.
    Refused {
        /// Bytes that it asked of the device.
        size_bytes: u64,
    },
    /// The malloc that follows collected old segments.
    Collected,
    /// The cache was emptied: everything unused, or one private pool.
    Emptied {
        /// The default pool means everything.
        pool: PoolId,
    },
}

impl Cause {
    /// Its event. A collection has none: its segments stand before the malloc.
    pub fn event(self) -> Option<Event> {
        match self {
            Self::Refused { size_bytes } => Some(Event::DriverRefused { size_bytes }),
            Self::Collected => None,
            Self::Emptied { pool } => Some(Event::EmptyCache { pool, inferred: true }),
        }
    }

    /// The entry of the window that its event stands before: a refusal waits for pending frees first, the others do
    /// not.
    pub fn first_entry(self, window: &[TraceEntry]) -> usize {
        match self {
            Self::Refused { .. } => 0,
            _ => losses(window).next().map_or(window.len(), |(at, _)| at),
        }
    }
}

/// The facts besides the window that decide its cause.
#[derive(Clone, Copy, Debug)]
pub struct FlushRules {
    /// Reserved before the window.
    pub reserved_bytes: u64,
    /// The most that could be reserved; `None` where the device alone decides.
    pub limit_bytes: Option<u64>,
    /// Garbage is collected above it; `None` where none is.
    pub collects_above_bytes: Option<u64>,
    /// Whether windows leave out the calls of `empty_cache`, as those of a live trace do: then a malloc explains every
    /// loss before it, except one of a private pool alone, as a malloc returns what the default pool has first.
    pub leaves_out_emptied: bool,
}

impl FlushRules {
    /// The cause of a window, whose losses are of `pools`, before a malloc that took or was refused `need_bytes`, if
    /// one follows; `None` where nothing went back.
    pub fn cause(
        &self,
        window: &[TraceEntry],
        pools: impl Iterator<Item = PoolId>,
        need_bytes: impl FnOnce() -> Option<u64>,
        is_oom: bool,
    ) -> Option<Cause> {
        if is_oom {
            return Some(Cause::Refused { size_bytes: need_bytes().unwrap_or(0) });
        }
        losses(window).next()?;
        let pool = only_pool(pools);
        let emptied = Cause::Emptied { pool };
        let Some(need_bytes) =
            need_bytes().filter(|_| !self.leaves_out_emptied || pool.is_default())
        else {
            return Some(emptied);
        };
        let refused = Cause::Refused { size_bytes: need_bytes };
        let grown_bytes = self.reserved_bytes.saturating_add(need_bytes);
        let is_collected =
            self.collects_above_bytes.is_some_and(|above| self.reserved_bytes > above)
                && could_be_collected(window);
        Some(if self.limit_bytes.is_none_or(|limit| grown_bytes > limit) {
            refused
        } else if is_collected {
            Cause::Collected
        } else if self.leaves_out_emptied {
            refused
        } else {
            emptied
        })
    }
}

/// The limit that a memory fraction sets on a device of so many bytes; `None` where there is none.
pub fn allowed_bytes(fraction: Option<f64>, total_bytes: Option<u64>) -> Option<u64> {
    let fraction = fraction.filter(|fraction| *fraction < 1.0)?;
    Some((fraction * total_bytes? as f64) as u64)
}

/// The reserved memory above which the settings collect garbage, of so much that is allowed.
pub fn collects_above_bytes(config: &Config, allowed_bytes: u64) -> Option<u64> {
    let threshold = config.garbage_collection_threshold;
    (threshold > 0.0).then_some((threshold * allowed_bytes as f64) as u64)
}

/// The entries of a window that give memory back, with their places.
pub fn losses(window: &[TraceEntry]) -> impl Iterator<Item = (usize, &TraceEntry)> {
    window.iter().enumerate().filter(|(_, entry)| entry.action.is_segment_loss())
}

/// Garbage collection takes whole large segments, one after another.
fn could_be_collected(window: &[TraceEntry]) -> bool {
    let is_whole_and_large = |entry: &TraceEntry| {
        entry.action == TraceAction::SegmentFree && entry.size_bytes != size::SMALL_SEGMENT_BYTES
    };
    window.iter().skip_while(|entry| !entry.action.is_segment_loss()).all(is_whole_and_large)
}

/// The private pool that all segments of a window belonged to; else the default pool, which means everything.
fn only_pool(mut pools: impl Iterator<Item = PoolId>) -> PoolId {
    let first = pools.next().unwrap_or(PoolId::DEFAULT);
    if pools.all(|pool| pool == first) { first } else { PoolId::DEFAULT }
}
