//! Walks a trace back from its final segments to the state it began with, and learns on the way which pool each
//! segment event belonged to.

use allocator::size;
use observer::block_size;
use settings::Config;
use trace_format::{
    Addr, BlockState, BlockStatus, Event, PoolId, Record, SegmentState, State, StateError, ThreadId,
};

use crate::snapshot::{Action, Entry};

/// The result of the walk.
pub(super) struct Walked {
    /// The state before the first entry.
    pub(super) base: State,
    /// For each entry, the pool and class it used; meaningful for allocations and segment events only.
    pub(super) kinds: Vec<Kind>,
    /// Blocks allocated in the trace that are free at its end without a recorded free.
    pub(super) unrecorded_frees: u64,
    /// Contradictions that could not be resolved.
    pub(super) notes: Vec<String>,
}

/// The properties that a segment event does not have itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) pool: PoolId,
    pub(super) is_large: bool,
}

pub(super) fn walk_back(
    entries: &[Entry],
    final_segments: &[SegmentState],
    config: &Config,
) -> Result<Walked, StateError> {
    let mut state = State::from_segments(final_segments)?;
    let mut kinds = vec![Kind::default(); entries.len()];
    let mut unplaced_pools = 0_u64;
    let mut unrecorded_frees = 0_u64;
    let mut unplaced = 0_u64;
    let mut first_unplaced = None;
    let mut at = entries.len();
    while at > 0 {
        at -= 1;
        let entry = &entries[at];
        let is_segment = entry.action.is_segment_gain() || entry.action.is_segment_loss();
        if is_segment || entry.action == Action::Alloc {
            let (kind, pool_is_known) = kind_of(&state, entry);
            kinds[at] = kind;
            unplaced_pools += u64::from(!pool_is_known);
        }
        let live = state.block_at(Addr(entry.addr));
        let is_free = || live.is_none() && state.free_bytes_at(Addr(entry.addr)) > 0;
        if entry.action == Action::Alloc && is_free() {
            unrecorded_frees += 1;
            continue;
        }
        // Both halves of a free at once are undone at once.
        let is_whole = at > 0 && live.is_none() && is_pair(&entries[at - 1], Some(entry));
        let event = event_to_undo(&state, live, entry, kinds[at], is_whole, config);
        let Some(event) = event else { continue };
        at -= usize::from(is_whole);
        let record = Record { time_ns: 0, thread: ThreadId(0), stack: entry.stack, event };
        if let Err(error) = state.undo(&record) {
            unplaced += 1;
            first_unplaced = Some((at, error));
        }
    }
    let mut notes = Vec::new();
    if unplaced_pools > 0 {
        notes.push(format!(
            "{unplaced_pools} events name no pool (PyTorch before 2.12) and their segments are gone: \
             taken as the default pool, so a replay may share what the run kept apart"
        ));
    }
    if unrecorded_frees > 0 {
        notes.push(format!(
            "{unrecorded_frees} blocks are free at the end though no free of them was recorded \
             (recording stopped earlier, or left frees out): they stay live, so peaks may be too \
             high"
        ));
    }
    if let Some((at, error)) = first_unplaced {
        notes.push(format!(
            "{unplaced} events do not fit the final segments, so the state the trace began with is \
             approximate, and every number with it (the first is event {at}: {error})"
        ));
    }
    if !state.is_empty() {
        notes.push(format!(
            "the trace begins mid-run, with {} bytes reserved and {} active: that state was \
             worked out from the final segments, and what happened before is in no number",
            state.reserved_bytes(),
            state.active_bytes()
        ));
    }
    Ok(Walked { base: state, kinds, unrecorded_frees, notes })
}

/// The pool and class of a segment event, and whether the pool is known rather than assumed.
fn kind_of(state: &State, entry: &Entry) -> (Kind, bool) {
    // An unmapped range is gone from the state after it, but may have left more of its segment on either side.
    let inside = state.segment_at(Addr(entry.addr));
    let segment = inside.or_else(|| {
        let around = [entry.addr.checked_sub(1), entry.addr.checked_add(entry.size)];
        let mut around = around.into_iter().flatten().filter_map(|at| state.segment_at(Addr(at)));
        around.find(|segment| {
            let is_same = segment.is_expandable && segment.stream == entry.stream;
            is_same && entry.action == Action::SegmentUnmap
        })
    });
    let pool = entry.pool.or(segment.as_ref().map(|segment| segment.pool));
    let is_large = segment.map_or(entry.size != size::SMALL_SEGMENT_BYTES, |s| s.is_large);
    (Kind { pool: pool.unwrap_or(PoolId::DEFAULT), is_large }, pool.is_some())
}

/// Whether a free was completed at once: both halves follow each other.
pub(super) fn is_pair(entry: &Entry, next: Option<&Entry>) -> bool {
    entry.action == Action::FreeRequested
        && next.is_some_and(|next| next.action == Action::FreeCompleted && next.addr == entry.addr)
}

/// The event of an entry; where it `is_whole`, of it and its request before.
fn event_to_undo(
    state: &State,
    live: Option<BlockState>,
    entry: &Entry,
    kind: Kind,
    is_whole: bool,
    config: &Config,
) -> Option<Event> {
    let addr = Addr(entry.addr);
    let requested_bytes = live.map_or(entry.size, |block| block.requested_bytes);
    let size_bytes = live.map_or_else(
        || block_size::freed(state, addr, entry.size, config),
        |block| block.size_bytes,
    );
    Some(match entry.action {
        Action::Alloc => Event::Alloc {
            addr,
            requested_bytes,
            size_bytes,
            stream: entry.stream,
            pool: kind.pool,
        },
        Action::FreeCompleted if is_whole => {
            Event::Free { addr, requested_bytes, size_bytes, pending: false }
        }
        Action::FreeCompleted => Event::FreeCompleted { addr, requested_bytes, size_bytes },
        Action::FreeRequested => {
            // Still shown as allocated: the snapshot was taken between the request and its bookkeeping.
            if live.is_some_and(|block| block.status == BlockStatus::Allocated) {
                return None;
            }
            Event::Free { addr, requested_bytes, size_bytes, pending: live.is_some() }
        }
        Action::Snapshot | Action::Oom | Action::UserDefined | Action::Annotate => return None,
        _ => segment_event(entry, kind),
    })
}

/// The event of a segment entry.
pub(super) fn segment_event(entry: &Entry, kind: Kind) -> Event {
    let (addr, size_bytes, stream) = (Addr(entry.addr), entry.size, entry.stream);
    let Kind { pool, is_large } = kind;
    match entry.action {
        Action::SegmentFree => Event::SegmentFree { addr, size_bytes, stream, pool, is_large },
        Action::SegmentMap => Event::SegmentMap { addr, size_bytes, stream, pool, is_large },
        Action::SegmentUnmap => Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large },
        _ => Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large },
    }
}
