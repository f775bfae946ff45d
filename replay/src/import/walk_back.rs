//! Walks a trace back from its final segments to the state it began with, and learns on the way which pool each
//! segment event belonged to.

use observer::entry::{MemoryKind, event_to_undo, is_free_pair};
use settings::Config;
use trace_format::{Record, SegmentState, State, StateError, ThreadId};

use crate::snapshot::{TraceAction, TraceEntry};

/// The result of the walk.
pub(super) struct Walked {
    /// The state before the first entry.
    pub(super) base: State,
    /// For each entry, the pool and class it used; meaningful for allocations and segment events only.
    pub(super) kinds: Vec<MemoryKind>,
    /// Blocks allocated in the trace that are free at its end without a recorded free.
    pub(super) unrecorded_frees: u64,
    /// Contradictions that could not be resolved.
    pub(super) notes: Vec<String>,
}

pub(super) fn walk_back(
    entries: &[TraceEntry],
    final_segments: &[SegmentState],
    config: &Config,
) -> Result<Walked, StateError> {
    let mut state = State::from_segments(final_segments)?;
    let mut kinds = vec![MemoryKind::default(); entries.len()];
    let mut unplaced_pools = 0_u64;
    let mut unrecorded_frees = 0_u64;
    let mut unplaced = 0_u64;
    let mut first_unplaced = None;
    let mut at = entries.len();
    while at > 0 {
        at -= 1;
        let entry = &entries[at];
        let is_segment = entry.action.is_segment_gain() || entry.action.is_segment_loss();
        if is_segment || entry.action == TraceAction::Alloc {
            let (kind, pool_is_known) = MemoryKind::of(&state, entry);
            kinds[at] = kind;
            unplaced_pools += u64::from(!pool_is_known);
        }
        let live = state.block_at(entry.addr);
        let is_free = || live.is_none() && state.free_bytes_at(entry.addr) > 0;
        if entry.action == TraceAction::Alloc && is_free() {
            unrecorded_frees += 1;
            continue;
        }
        // Both halves of a free at once are undone at once.
        let is_pair = at > 0 && live.is_none() && is_free_pair(&entries[at - 1], Some(entry));
        let event = event_to_undo(&state, live, entry, kinds[at], is_pair, config);
        let Some(event) = event else { continue };
        at -= usize::from(is_pair);
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
