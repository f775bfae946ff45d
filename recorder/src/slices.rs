//! The state of a heap that goes on allocating, copied a little at a time.
//!
//! A heap of a million blocks takes tens of milliseconds to copy, for which no allocation should wait. So its lock is
//! held for a few thousand blocks at a time. The ring's records since the first copy say what changed meanwhile
//! ([`Memory`]); pools, orders and ages, which no record has, are read under the last hold.

use std::convert::Infallible;
use std::thread;
use std::time::Duration;

use trace_format::{BaseState, BlockState};

use super::AnyRecorder;
use super::ring::{Cursor, Memory, Reached, Ring};

/// Places of blocks, and segments, that are copied under one hold of the lock: some tens of microseconds, for which a
/// waiting thread spins.
pub const PER_HOLD: usize = 2_048;
/// Between two holds. The lock goes to whichever thread looks first, so that others need time to look.
const BETWEEN_HOLDS: Duration = Duration::from_micros(50);
/// How much more one hold copies after the ring turned over before all was copied.
const GROWTH: usize = 8;

/// A heap, or another subject of a recording, while it is locked.
pub trait StateView {
    /// Appends the live blocks of at most `max` places from `place` on, and returns the place to go on from; `None` at
    /// the end. A block keeps its place for as long as it is live.
    fn live_blocks_from(&self, place: u64, max: usize, into: &mut Vec<BlockState>) -> Option<u64>;
    /// Everything but segments and blocks.
    fn base_without_memory(&self) -> BaseState;
    /// What records it.
    fn recorder(&self) -> &AnyRecorder;
}

/// Locks a subject for the time of a call; `None` where it is broken.
pub type Hold<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&dyn StateView)) -> Option<()>;

/// The state of a subject that records into `ring`, and the number of the first record that is not part of it, copied
/// in slices of `per_hold` ([`PER_HOLD`]). `None` where the subject is broken. Not to be called with its lock or a lock
/// that its users wait for.
pub fn base_in_slices(
    mut per_hold: usize,
    ring: &Ring,
    hold: Hold<'_>,
) -> Option<(BaseState, u64)> {
    loop {
        match attempt(per_hold, ring, hold)? {
            Attempt::Done(base, next) => return Some((*base, next)),
            // At last a single hold, which no record can overtake.
            Attempt::Overtaken => per_hold = per_hold.saturating_mul(GROWTH),
        }
    }
}

enum Attempt {
    Done(Box<BaseState>, u64),
    /// The ring turned over.
    Overtaken,
}

fn attempt(per_hold: usize, ring: &Ring, hold: Hold<'_>) -> Option<Attempt> {
    let mut memory = Memory::default();
    let mut cursor = None;
    let (mut segment, mut block) = (Some(0), Some(0));
    let (mut segments, mut blocks) = (Vec::new(), Vec::new());
    loop {
        // Not under the lock.
        segments.reserve(per_hold.min(PER_HOLD));
        blocks.reserve(per_hold.min(PER_HOLD));
        let (mut rest, mut sequence) = (None, 0);
        hold(&mut |view| {
            sequence = ring.sequence();
            segment = segment
                .and_then(|addr| view.recorder().segments_from(addr, per_hold, &mut segments));
            block = block.and_then(|place| view.live_blocks_from(place, per_hold, &mut blocks));
            if segment.is_none() && block.is_none() {
                rest = Some(view.base_without_memory());
            }
        })?;
        memory.add(&mut segments, &mut blocks);
        let cursor = cursor.get_or_insert_with(|| {
            let mut cursor = Cursor::default();
            cursor.jump(sequence);
            cursor
        });
        let end = if rest.is_some() { sequence } else { ring.sequence() };
        let redone = ring.read(cursor, end, |record| {
            memory.redo(&record);
            Ok::<(), Infallible>(())
        });
        if let Ok(Reached::Gone) = redone {
            return Some(Attempt::Overtaken);
        }
        if let Some(rest) = rest {
            let segments = memory.into_segments()?;
            return Some(Attempt::Done(Box::new(BaseState { segments, ..rest }), sequence));
        }
        thread::sleep(BETWEEN_HOLDS);
    }
}
