//! The event of a trace entry, in the state before it or after it.

use allocator::size;
use recorder::{TraceAction, TraceEntry};
use settings::Config;
use trace_format::{Addr, BlockState, BlockStatus, Event, PoolId, State};

use super::block_size;

/// The pool and class of an entry's memory. It matters for allocations and segments only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKind {
    /// The pool.
    pub pool: PoolId,
    /// Whether it serves large requests (over 1 MiB).
    pub is_large: bool,
}

impl MemoryKind {
    /// The kind of an entry's memory in the state before or after it, and whether the pool is known rather than
    /// assumed.
    pub fn of(state: &State, entry: &TraceEntry) -> (Self, bool) {
        let TraceEntry { action, addr, size_bytes, stream, .. } = *entry;
        // An unmapped range is gone from the state after it, but may have left more of its segment on either side.
        let inside = state.segment_at(addr).filter(|_| action.has_addr());
        let segment = inside.or_else(|| {
            let around = [addr.0.checked_sub(1), addr.0.checked_add(size_bytes)];
            let around =
                around.into_iter().flatten().filter(|_| action == TraceAction::SegmentUnmap);
            let mut segments = around.filter_map(|at| state.segment_at(Addr(at)));
            segments.find(|segment| segment.is_expandable && segment.stream == stream)
        });
        let pool = entry.pool.or(segment.as_ref().map(|segment| segment.pool));
        let is_large = segment.map_or(size_bytes != size::SMALL_SEGMENT_BYTES, |s| s.is_large);
        (Self { pool: pool.unwrap_or(PoolId::DEFAULT), is_large }, pool.is_some())
    }
}

/// Whether a free was completed at once: both halves follow each other.
pub fn is_free_pair(entry: &TraceEntry, next: Option<&TraceEntry>) -> bool {
    let is_completion =
        |next: &TraceEntry| next.action == TraceAction::FreeCompleted && next.addr == entry.addr;
    entry.action == TraceAction::FreeRequested && next.is_some_and(is_completion)
}

/// The event of an entry in the state before it; where it `is_pair`, of it and the completion that follows. `None` for
/// marks.
pub fn event(
    state: &State,
    entry: &TraceEntry,
    kind: MemoryKind,
    is_pair: bool,
    config: &Config,
) -> Option<Event> {
    let TraceEntry { action, addr, size_bytes: requested_bytes, .. } = *entry;
    let is_free = matches!(action, TraceAction::FreeRequested | TraceAction::FreeCompleted);
    let live = if is_free { state.block_at(addr) } else { None };
    let sizes = match live {
        Some(block) => (block.requested_bytes, block.size_bytes),
        None if action == TraceAction::Alloc => {
            (requested_bytes, block_size::allocated(state, addr, requested_bytes, config))
        }
        None => (requested_bytes, size::round(requested_bytes, config)),
    };
    // A completion whose request was not recorded is the whole free.
    let is_allocated = live.is_some_and(|block| block.status == BlockStatus::Allocated);
    let is_whole = if action == TraceAction::FreeCompleted { is_allocated } else { is_pair };
    event_of(entry, kind, sizes, is_whole)
}

/// The event of an entry in the state after it, in which the block at its address is `live`; where it `is_pair`, of it
/// and the request before. `None` for entries that leave memory as it is.
pub fn event_to_undo(
    state: &State,
    live: Option<BlockState>,
    entry: &TraceEntry,
    kind: MemoryKind,
    is_pair: bool,
    config: &Config,
) -> Option<Event> {
    let TraceEntry { action, addr, size_bytes: requested_bytes, .. } = *entry;
    let is_allocated = live.is_some_and(|block| block.status == BlockStatus::Allocated);
    let is_whole = match action {
        // Still shown as allocated: the snapshot was taken between the request and its bookkeeping.
        TraceAction::FreeRequested if is_allocated => return None,
        TraceAction::FreeRequested => live.is_none(),
        TraceAction::Snapshot | TraceAction::Oom => return None,
        _ => is_pair,
    };
    let sizes = match live {
        Some(block) => (block.requested_bytes, block.size_bytes),
        None => (requested_bytes, block_size::freed(state, addr, requested_bytes, config)),
    };
    event_of(entry, kind, sizes, is_whole)
}

/// The event of an entry whose block has these sizes, requested and actual; `is_whole` if it is both halves of a free.
fn event_of(
    entry: &TraceEntry,
    kind: MemoryKind,
    (requested_bytes, block_bytes): (u64, u64),
    is_whole: bool,
) -> Option<Event> {
    let TraceEntry { action, addr, size_bytes, stream, .. } = *entry;
    let MemoryKind { pool, is_large } = kind;
    Some(match action {
        TraceAction::Alloc => {
            Event::Alloc { addr, requested_bytes, size_bytes: block_bytes, stream, pool }
        }
        TraceAction::FreeCompleted if !is_whole => {
            Event::FreeCompleted { addr, requested_bytes, size_bytes: block_bytes }
        }
        TraceAction::FreeRequested | TraceAction::FreeCompleted => {
            Event::Free { addr, requested_bytes, size_bytes: block_bytes, pending: !is_whole }
        }
        TraceAction::SegmentAlloc => {
            Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
        }
        TraceAction::SegmentFree => Event::SegmentFree { addr, size_bytes, stream, pool, is_large },
        TraceAction::SegmentMap => Event::SegmentMap { addr, size_bytes, stream, pool, is_large },
        TraceAction::SegmentUnmap => {
            Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large }
        }
        TraceAction::Snapshot => Event::Snapshot { active_bytes: size_bytes },
        // PyTorch gives the rounded request only.
        TraceAction::Oom => Event::Oom {
            requested_bytes: size_bytes,
            size_bytes,
            device_free_bytes: addr.0,
            stream,
            pool: entry.pool.unwrap_or(PoolId::DEFAULT),
        },
        TraceAction::Annotate | TraceAction::UserDefined => return None,
    })
}
