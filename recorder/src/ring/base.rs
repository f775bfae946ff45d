//! The state of memory from the ring's tables: what is live now, or was when the process died.

use std::io;

use events::PoolsState;
use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, PageNumber, Record, SegmentState, StringId,
};

use super::cursor::{Cursor, Reached};
use super::layout::{HeaderField, Part};
use super::look::Look;
use super::memory::Memory;
use super::pack::ALLOC;
use super::protocol::blocks;
use super::words::{self, MORE_SLOTS};
use super::{mappings, pool_state};

/// Tries before a state that never holds still is given up.
const ATTEMPTS: usize = 200;

/// What the tables say, and the number of the first record that is no part of it. The time is that of the last record
/// before, or 0.
pub(super) struct Tables {
    pub(super) segments: Vec<SegmentState>,
    pub(super) pages: Vec<(Addr, PageNumber)>,
    pub(super) pools_state: PoolsState,
    pub(super) time_ns: u64,
    pub(super) next: u64,
}

/// Reads the tables beside their writer, or after it `is_dead`.
///
/// # Errors
/// Where the ring turns over faster than it can be read, or is damaged.
pub(super) fn read(look: &impl Look, is_dead: bool) -> io::Result<Tables> {
    for attempt in 0..ATTEMPTS {
        if let Some(tables) = attempt_read(look, is_dead)? {
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
fn attempt_read(look: &impl Look, is_dead: bool) -> io::Result<Option<Tables>> {
    // The record before the head may not be in the tables yet, and may be wide.
    let start = look.written().saturating_sub(1 + MORE_SLOTS as u64);
    let blocks = live_blocks(look);
    let Some(mappings) = mappings::read(look, is_dead) else { return Ok(None) };
    let mut memory = Memory::new(blocks, mappings);
    let (mut pools_state, known) = pool_state::read(look).ok_or_else(damaged)?;
    look.acquire_fence();
    let next = look.written();

    let mut time_ns = 0;
    let again = |record: Record| {
        time_ns = record.time_ns;
        memory.redo(&record);
    };
    let redo_pools = |record: Record| {
        pools_state.apply(&record.event);
    };
    if !replay(look, start, next, again) || !replay(look, start.max(known), next, redo_pools) {
        return Ok(None);
    }
    let no_room = |missing, what| {
        io::Error::other(format!("it has no room for {missing} {what}: set ring_events higher"))
    };
    match look.field(HeaderField::PagesMissing) {
        0 => {}
        missing => return Err(no_room(missing, "mappings of pages")),
    }
    let pages = memory.take_pages();
    let segments =
        memory.into_segments().ok_or_else(|| match look.field(HeaderField::SegmentsMissing) {
            0 => damaged(),
            missing => no_room(missing, "segments"),
        })?;
    Ok(Some(Tables { segments, pages, pools_state, time_ns, next }))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its tables are damaged")
}

/// Hands out the records of a short stretch; false where it is overwritten.
fn replay(look: &impl Look, start: u64, end: u64, mut take: impl FnMut(Record)) -> bool {
    let mut cursor = Cursor::default();
    cursor.jump(start);
    let mut take = |record| {
        take(record);
        Ok::<(), std::convert::Infallible>(())
    };
    matches!(cursor.read(look, end, &mut take), Ok(Reached::End))
}

fn live_blocks(look: &impl Look) -> Vec<BlockState> {
    let mut live = Vec::new();
    look.each_row(Part::Blocks, |words| {
        if !blocks::is_taken(&words) {
            return;
        }
        let slot = words::decode(&words);
        let [addr, requested_bytes, size_bytes] = slot.args;
        let status = match slot.kind {
            ALLOC => BlockStatus::Allocated,
            _ => BlockStatus::PendingFree,
        };
        let (addr, stack) = (Addr(addr), slot.stack);
        live.push(BlockState { addr, size_bytes, requested_bytes, status, stack });
    });
    live
}

impl Tables {
    /// As a tape carries it; `None` where the text of the settings is missing. The settings and the fraction are those
    /// of the beginning where they never changed.
    pub(super) fn into_base(
        self,
        string: impl FnOnce(StringId) -> Option<String>,
        initial_settings: String,
        initial_memory_fraction: Option<f64>,
    ) -> Option<BaseState> {
        let Self { segments, pages, pools_state, time_ns, next: _ } = self;
        let base = pools_state.to_base(|pool| segments.iter().any(|segment| segment.pool == pool));
        Some(BaseState {
            time_ns,
            settings: match pools_state.settings {
                Some(StringId(0)) => String::new(),
                Some(id) => string(id)?,
                None => initial_settings,
            },
            memory_fraction: match pools_state.memory_fraction {
                Some(_) => base.memory_fraction,
                None => initial_memory_fraction,
            },
            segments,
            pages,
            ..base
        })
    }
}
