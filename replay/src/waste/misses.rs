//! The requests that a moment is judged by: those that found nothing in the cache.

use allocator::size::SMALL_BYTES;
use events::Recorder;
use serde::Serialize;
use trace_format::{Event, PoolId, StackId, Stream, StringId};

use crate::timeline::Witness;

/// A request that the cache could not serve, so that the device was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// Bytes asked for, not rounded.
    pub requested_bytes: u64,
    /// The stream it was asked for.
    pub stream: Stream,
    /// The pool it was asked of.
    pub pool: PoolId,
}

impl Reference {
    /// Whether the large half of its pool serves it. Rounding never crosses the border, which is a power of two.
    pub fn is_large(&self) -> bool {
        self.requested_bytes > SMALL_BYTES
    }
}

/// The newest miss of each half of the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct References {
    /// Of requests up to 1 MiB.
    pub small: Option<Reference>,
    /// Of larger requests.
    pub large: Option<Reference>,
}

impl References {
    /// The one that free memory of this half is judged by.
    pub fn of_half(&self, is_large: bool) -> Option<Reference> {
        if is_large { self.large } else { self.small }
    }
}

/// Listens to a replay for misses and refusals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Misses {
    /// The device was asked since the last request was answered.
    asked: bool,
    /// The newest misses.
    pub(super) newest: References,
    /// The request that could not be served, until it is taken.
    pub(super) refused: Option<Reference>,
}

impl Misses {
    fn note(&mut self, requested_bytes: u64, stream: Stream, pool: PoolId) -> Reference {
        let miss = Reference { requested_bytes, stream, pool };
        let half = if miss.is_large() { &mut self.newest.large } else { &mut self.newest.small };
        *half = Some(miss);
        self.asked = false;
        miss
    }
}

impl Witness for Misses {}

impl Recorder for Misses {
    fn record(&mut self, _stack: StackId, event: Event) {
        match event {
            Event::SegmentAlloc { .. } | Event::SegmentMap { .. } | Event::DriverRefused { .. } => {
                self.asked = true;
            }
            Event::Alloc { requested_bytes, stream, pool, .. } if self.asked => {
                self.note(requested_bytes, stream, pool);
            }
            Event::Oom { requested_bytes, stream, pool, .. } => {
                self.refused = Some(self.note(requested_bytes, stream, pool));
            }
            _ => {}
        }
    }

    fn intern(&mut self, _text: &str) -> StringId {
        StringId::default()
    }
}
