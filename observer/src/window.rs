//! Infers from later entries why segments went back to the device.
//!
//! The inputs of PyTorch's Python functions are known beforehand. That leaves the retry chain of a request that the
//! device or the memory fraction refused, garbage collection, and a pool that ended.

use trace_format::{Event, PoolId};

use allocator::size;
use recorder::{TraceAction, TraceEntry};
use settings::Config;

/// What else the cause depends on.
pub(super) struct Known<'a> {
    pub(super) config: &'a Config,
    /// Before the window.
    pub(super) reserved_bytes: u64,
    /// The most that may be reserved, where there is a limit besides the device.
    pub(super) allowed_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Nothing went back.
    None,
    /// The request that follows was refused this much.
    Refused { size_bytes: u64 },
    /// The request that follows collected old segments.
    Collected,
    /// One pool ended, or everything unused was given back.
    Emptied { pool: PoolId },
}

impl Cause {
    /// What it looks like on tape. A collection needs no event: its segments stand before the request.
    pub(super) fn event(self) -> Option<Event> {
        match self {
            Self::None | Self::Collected => None,
            Self::Refused { size_bytes } => Some(Event::DriverRefused { size_bytes }),
            Self::Emptied { pool } => Some(Event::EmptyCache { pool, inferred: true }),
        }
    }

    /// Where the event stands: a refusal waits for pending frees first, the others do not.
    pub(super) fn first_entry(self, entries: &[TraceEntry]) -> usize {
        match self {
            Self::Refused { .. } => 0,
            _ => entries.iter().position(is_loss).unwrap_or(entries.len()),
        }
    }
}

/// The cause of a window; `pools` are those of its losses.
pub(super) fn cause(
    entries: &[TraceEntry],
    pools: &[PoolId],
    next: Option<&TraceEntry>,
    known: &Known,
) -> Cause {
    let next = next.filter(|next| next.action != TraceAction::Snapshot);
    let need_bytes = next.map(|next| match next.action {
        TraceAction::Oom | TraceAction::Alloc => {
            size::segment_bytes(size::round(next.size_bytes, known.config), known.config)
        }
        _ => next.size_bytes,
    });
    let is_oom = next.is_some_and(|next| next.action == TraceAction::Oom);
    let first = pools.first().copied();
    // A request gives back what the default pool has before any other.
    let is_of_one_private_pool =
        first.is_some_and(|first| !first.is_default() && pools.iter().all(|pool| *pool == first));
    match (need_bytes, first) {
        (Some(size_bytes), _) if is_oom => Cause::Refused { size_bytes },
        (_, None) => Cause::None,
        (Some(need), Some(_)) if !is_of_one_private_pool => {
            let is_over = |allowed| known.reserved_bytes.saturating_add(need) > allowed;
            let is_refused = known.allowed_bytes.is_none_or(is_over);
            if !is_refused && collects(known) && could_be_collected(entries) {
                Cause::Collected
            } else {
                Cause::Refused { size_bytes: need }
            }
        }
        _ if is_of_one_private_pool => Cause::Emptied { pool: first.unwrap_or_default() },
        _ => Cause::Emptied { pool: PoolId::DEFAULT },
    }
}

/// Whether memory went back to the device.
pub(super) fn is_loss(entry: &TraceEntry) -> bool {
    matches!(entry.action, TraceAction::SegmentFree | TraceAction::SegmentUnmap)
}

/// Whether the settings collect garbage of so much reserved memory.
fn collects(known: &Known) -> bool {
    let threshold = known.config.garbage_collection_threshold;
    let allowed = known.allowed_bytes.unwrap_or(u64::MAX) as f64;
    threshold > 0.0 && known.reserved_bytes as f64 > threshold * allowed
}

/// Garbage collection takes whole large segments, one after another.
fn could_be_collected(entries: &[TraceEntry]) -> bool {
    entries.iter().skip_while(|entry| !is_loss(entry)).all(|entry| {
        entry.action == TraceAction::SegmentFree && entry.size_bytes != size::SMALL_SEGMENT_BYTES
    })
}
