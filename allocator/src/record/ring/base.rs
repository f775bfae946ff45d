//! The state of memory from the ring's tables: what is live now, or was when the process died.

use std::io;

use rustc_hash::FxHashMap;
use trace_format::{
    Addr, BaseOrder, BaseState, BlockState, BlockStatus, Event, Record, ScopeFilter, SegmentState,
    StackId, StringId,
};

use super::blocks;
use super::cursor::{Cursor, Reached};
use super::layout::Part;
use super::manners::Manners;
use super::pack::ALLOC;
use super::region::Region;
use super::segments::{self, Change, Runs};
use super::words::{self, MORE_SLOTS};

/// Tries before a state that never holds still is given up.
const ATTEMPTS: usize = 200;

/// What the tables say, and the number of the first record that is no part of it. The time is that of the last record
/// before, or 0.
pub(super) struct Tables {
    pub(super) segments: Vec<SegmentState>,
    pub(super) manners: Manners,
    pub(super) time_ns: u64,
    pub(super) next: u64,
}

/// Reads the tables beside their writer, or after it `is_dead`.
///
/// # Errors
/// Where the ring turns over faster than it can be read, or is damaged.
pub(super) fn read(region: &Region, is_dead: bool) -> io::Result<Tables> {
    for attempt in 0..ATTEMPTS {
        if let Some(tables) = attempt_read(region, is_dead)? {
            return Ok(tables);
        }
        // The writer may have been put to sleep in the middle of a change.
        if attempt > ATTEMPTS / 2 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::WouldBlock,
        "it changes faster than its tables can be read: try again, or set ring_events higher",
    ))
}

/// `None` where a look came too late.
fn attempt_read(region: &Region, is_dead: bool) -> io::Result<Option<Tables>> {
    // The record before the head may not be in the tables yet, and may be wide.
    let start = region.head().saturating_sub(1 + MORE_SLOTS as u64);
    let mut live = live_blocks(region);
    let Some(mut runs) = segments::read(region, is_dead) else { return Ok(None) };
    let (mut manners, known) = Manners::read(region).ok_or_else(damaged)?;
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    let next = region.head();

    let mut time_ns = 0;
    let again = |record: Record| {
        time_ns = record.time_ns;
        redo(&mut live, &record);
        if let Some(change) = Change::of(&record.event, record.stack) {
            runs.apply(change, &mut |_| ());
        }
    };
    let is_manners_known = |record: Record| {
        manners.apply(&record.event);
    };
    if !replay(region, start, next, again)
        || !replay(region, start.max(known), next, is_manners_known)
    {
        return Ok(None);
    }
    let segments = tile(runs_as_segments(runs), live.into_values().collect());
    Ok(Some(Tables { segments: segments.ok_or_else(damaged)?, manners, time_ns, next }))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its tables are damaged")
}

/// Hands out the records of a short stretch; false where it is overwritten.
fn replay(region: &Region, start: u64, end: u64, mut take: impl FnMut(Record)) -> bool {
    let mut cursor = Cursor::default();
    cursor.jump(start);
    let mut take = |record| {
        take(record);
        Ok::<(), std::convert::Infallible>(())
    };
    matches!(cursor.read(region, end, &mut take), Ok(Reached::End))
}

fn live_blocks(region: &Region) -> FxHashMap<Addr, BlockState> {
    let rows = region.rows(Part::Blocks).iter().filter_map(blocks::read);
    let block = |words| {
        let slot = words::decode(&words);
        let [addr, requested_bytes, size_bytes] = slot.args;
        let status = match slot.kind {
            ALLOC => BlockStatus::Allocated,
            _ => BlockStatus::PendingFree,
        };
        let addr = Addr(addr);
        (addr, BlockState { addr, size_bytes, requested_bytes, status, stack: slot.stack })
    };
    rows.map(block).collect()
}

/// Does to the blocks what a record did, whether it is done already or not.
fn redo(live: &mut FxHashMap<Addr, BlockState>, record: &Record) {
    let stack = record.stack;
    match record.event {
        Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
            let status = BlockStatus::Allocated;
            live.insert(addr, BlockState { addr, size_bytes, requested_bytes, status, stack });
        }
        Event::Free { addr, requested_bytes, size_bytes, pending: true } => {
            // The stack of the allocation, where it is still there.
            let stack = live.get(&addr).map_or(stack, |block| block.stack);
            let status = BlockStatus::PendingFree;
            live.insert(addr, BlockState { addr, size_bytes, requested_bytes, status, stack });
        }
        Event::Free { addr, .. } | Event::FreeCompleted { addr, .. } => {
            live.remove(&addr);
        }
        _ => {}
    }
}

fn runs_as_segments(runs: Runs) -> Vec<SegmentState> {
    let segment = |(addr, run): (u64, segments::Run)| SegmentState {
        addr: Addr(addr),
        size_bytes: run.size_bytes,
        stream: run.stream,
        pool: run.pool,
        is_large: run.is_large,
        is_expandable: run.is_expandable,
        stack: run.stack,
        blocks: Vec::new(),
    };
    runs.into_iter().map(segment).collect()
}

/// Fills segments, which are in order of address, with their live blocks and the free ones between them; `None` where a
/// block lies in none, or in another.
pub(in crate::record) fn tile(
    mut segments: Vec<SegmentState>,
    mut live: Vec<BlockState>,
) -> Option<Vec<SegmentState>> {
    live.sort_unstable_by_key(|block| block.addr);
    let mut live = live.into_iter().peekable();
    for segment in &mut segments {
        let end = segment.addr.0.checked_add(segment.size_bytes)?;
        let mut free_from = segment.addr.0;
        while let Some(block) = live.next_if(|block| block.addr.0 < end) {
            if block.addr.0 < free_from {
                return None;
            }
            segment.blocks.extend(gap(free_from, block.addr.0));
            free_from = block.addr.0.checked_add(block.size_bytes).filter(|next| *next <= end)?;
            segment.blocks.push(block);
        }
        segment.blocks.extend(gap(free_from, end));
    }
    live.next().is_none().then_some(segments)
}

/// The free block between two addresses, if there is room for one.
fn gap(from: u64, to: u64) -> Option<BlockState> {
    let (addr, size_bytes) = (Addr(from), to - from);
    let (requested_bytes, status, stack) = (0, BlockStatus::Inactive, StackId::NONE);
    let free = BlockState { addr, size_bytes, requested_bytes, status, stack };
    (size_bytes > 0).then_some(free)
}

impl Tables {
    /// As a tape carries it. The settings and the fraction are those of the beginning where they never changed.
    pub(super) fn into_base(
        self,
        string: impl FnOnce(StringId) -> Option<String>,
        initial_settings: String,
        initial_memory_fraction: Option<f64>,
    ) -> BaseState {
        let Self { segments, manners, time_ns, next: _ } = self;
        let Manners { mut pools, scopes, settings, memory_fraction, .. } = manners;
        // A pool that nobody holds exists only for its segments.
        pools.retain(|state| {
            state.use_count > 0 || segments.iter().any(|segment| segment.pool == state.pool)
        });
        let captures = scopes.iter().filter(|scope| scope.filter == ScopeFilter::Capture);
        BaseState {
            time_ns,
            captures: captures.map(|scope| scope.pool).collect(),
            segments,
            pools,
            scopes,
            settings: settings.map_or(initial_settings, |id| string(id).unwrap_or_default()),
            memory_fraction: match memory_fraction {
                // 1 is no limit.
                Some(fraction) => (fraction < 1.0).then_some(fraction),
                None => initial_memory_fraction,
            },
            stats: None,
            order: BaseOrder::default(),
        }
    }
}
