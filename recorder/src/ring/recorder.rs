//! The writing end of a ring.

use std::io;
use std::sync::Arc;

use trace_format::{
    BaseState, BlockState, BlockStatus, Event, PoolId, SegmentState, StackId, Stream, StringId,
    ThreadId,
};

use super::clock_snapshot::{self, ClockSnapshot, TICKS_BETWEEN};
use super::contexts::{self, Context};
use super::layout::{HeaderField, Payload};
use super::pack::{self, Packed};
use super::protocol::blocks;
use super::thread::{self, ThreadTag};
use super::words::{self, WIDE};
use super::{Ring, RingOptions, TEXT_BYTES, pool_table, statistics};
use super::{pages, segments};
use crate::clock::{Clock, SystemClock};
use crate::interner::Interner;
use events::{BlockSlot, MappingChange, PageChange, Recorder, Statistics};

/// Records into a ring: no lock, no system call, no allocation.
///
/// There is one per ring and it needs `&mut`, so the ring has one writer at a time and its order is the heap's.
#[derive(Debug)]
pub struct RingRecorder<C: Clock = SystemClock> {
    ring: Arc<Ring>,
    clock: C,
    next: u64,
    last_snapshot: ClockSnapshot,
    /// Ticks of the clock snapshot at which the statistics were copied; never later than the last one.
    copied_ticks: u64,
    /// The context of the last record, and its number.
    last: (Context, u16),
    /// The thread that made it.
    by: ThreadTag,
    rare: Box<Rare>,
}

/// What few records need.
#[derive(Debug, Default)]
struct Rare {
    segments: segments::Table,
    pages: pages::Table,
    pools: pool_table::Table,
}

impl<C: Clock> RingRecorder<C> {
    /// Makes the ring, in memory of this process alone (with one warning) where its file cannot be had.
    ///
    /// # Errors
    /// Where there is no memory either.
    pub fn new(options: &RingOptions, clock: C) -> io::Result<Self> {
        Self::sharing(options, None, Arc::default(), clock)
    }

    /// The same with a table of names that other rings of the process use too, and so much room in the ring's file for
    /// what it uses of them; without a number, room for marks and settings.
    ///
    /// # Errors
    /// Where there is no memory either.
    pub fn sharing(
        options: &RingOptions,
        text_bytes: Option<usize>,
        names: Arc<Interner>,
        clock: C,
    ) -> io::Result<Self> {
        let text_bytes = text_bytes.unwrap_or(TEXT_BYTES);
        let calibration = clock.calibration();
        let ring = Arc::new(Ring::create(options, text_bytes, names, &calibration)?);
        let last_snapshot = ClockSnapshot { number: 0, moment: calibration.start };
        // The first block copies them.
        let copied_ticks = last_snapshot.moment.ticks.wrapping_sub(TICKS_BETWEEN);
        // No thread has id 0, or its memory there: the first record looks for its context.
        let (last, by, rare) = <_>::default();
        Ok(Self { ring, clock, next: 0, last_snapshot, copied_ticks, last, by, rare })
    }

    /// Enters what is there before the first record: the ring of a run that is followed from its middle on. Blocks have
    /// slots by their order.
    pub fn begin_with(&mut self, base: &BaseState) {
        for state in &base.pools {
            let (pool, own_source) = (state.pool, state.own_source);
            self.enter(StackId::NONE, &Event::PoolCreate { pool, own_source });
        }
        for (addr, page) in base.pages.iter().copied() {
            self.enter(StackId::NONE, &Event::PageMap { addr, page });
        }
        let mut slot = 0;
        for segment in &base.segments {
            let SegmentState { addr, size_bytes, stream, pool, is_large, stack, .. } = *segment;
            let event = if segment.is_expandable {
                Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
            } else {
                Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
            };
            self.enter(stack, &event);
            for block in segment.blocks.iter().filter(|block| block.status != BlockStatus::Inactive)
            {
                self.enter_block(slot, block, stream, pool);
                slot += 1;
            }
        }
        // A ring with nothing in it would tell a tape that there was nothing before.
        self.snapshot_clock();
    }

    /// Enters a live block in its row, as its allocation would have.
    fn enter_block(&mut self, slot: u32, block: &BlockState, stream: Stream, pool: PoolId) {
        let BlockState { addr, requested_bytes, size_bytes, stack, .. } = *block;
        let event = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
        let Packed { kind, detail, place, args } = pack::pack(&event);
        let (stream, pool) = place.unwrap_or_default();
        let context = self.find_context(place.is_some(), stream, pool);
        let words = words::encode(self.clock.ticks(), (kind, detail), stack, args, context);
        let region = &self.ring.region;
        let fits = words::fits(args);
        match region.block(slot).filter(|_| fits) {
            None => region.count_missing(HeaderField::BlocksMissing, 1),
            Some(row) => {
                blocks::put(row, &words);
                if block.status == BlockStatus::PendingFree {
                    blocks::set_pending(row);
                }
            }
        }
    }

    /// Appends at most `max` mapped runs from an address on, and returns the address to go on from; `None` at the end.
    pub(crate) fn segments_from(
        &self,
        addr: u64,
        max: usize,
        into: &mut Vec<SegmentState>,
    ) -> Option<u64> {
        self.rare.segments.ranges_from(addr, max, into)
    }

    /// The ring, for readers of this process.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Writes an event's slots and returns the words of the last, and whether its arguments are whole in them.
    #[allow(
        clippy::inline_always,
        reason = "where the kind of event is known, little is left of it"
    )]
    #[inline(always)]
    fn put_event(&mut self, ticks: u64, stack: StackId, event: Packed) -> (Payload, bool) {
        let Packed { kind, detail, place, args } = event;
        let fits = words::fits(args);
        if fits && self.is_last_context(place) {
            let words = words::encode(ticks, (kind, detail), stack, args, self.last.1);
            self.put(&words);
            return (words, true);
        }
        rare();
        let (stream, pool) = place.unwrap_or_default();
        let context = self.find_context(place.is_some(), stream, pool);
        let words = words::encode(ticks, (kind, detail), stack, args, context);
        if fits && context != WIDE {
            self.put(&words);
        } else {
            self.put_wide(ticks, stack, event);
        }
        (words, fits)
    }

    #[inline]
    fn put(&mut self, words: &Payload) {
        self.ring.region.publish(self.next, words);
        self.next += 1;
    }

    /// Whether this is a thread, and a place if there is one, that the last number stands for.
    #[allow(clippy::inline_always, reason = "every record makes it")]
    #[inline(always)]
    fn is_last_context(&self, place: Option<(Stream, PoolId)>) -> bool {
        let last = &self.last.0;
        let is_here = |(stream, pool)| stream == last.stream && pool == last.pool;
        ThreadTag::here() == self.by && place.is_none_or(is_here)
    }

    /// The number of this thread's context; its stream and pool do not matter where there is no place.
    #[inline(never)]
    fn find_context(&mut self, has_place: bool, stream: Stream, pool: PoolId) -> u16 {
        let (thread, is_counted) = thread::id();
        let (last, mut number) = self.last;
        let is_there = !has_place || (stream == last.stream && pool == last.pool);
        if last.thread != ThreadId(thread) || !is_there {
            let context = Context { thread: ThreadId(thread), stream, pool };
            number = contexts::number_of(&self.ring.region, context).unwrap_or(WIDE);
            self.last = (context, number);
        }
        // What has no number is nothing to come back to.
        let is_kept = is_counted && number != WIDE;
        self.by = if is_kept { ThreadTag::here() } else { ThreadTag::default() };
        number
    }

    /// Writes an event with more slots before it. In line, or else every event is put into memory to be called with.
    #[allow(clippy::inline_always, reason = "a call would want every event in memory")]
    #[inline(always)]
    fn put_wide(&mut self, ticks: u64, stack: StackId, event: Packed) {
        let Packed { kind, detail, place, args } = event;
        let thread = ThreadId(thread::id().0);
        for words in words::wide(ticks, thread, place.unwrap_or_default(), args) {
            self.put(&words);
        }
        self.put(&words::encode(ticks, (kind, detail), stack, [args[0], 0, 0], WIDE));
    }

    /// Any event, at the length that takes.
    #[inline(never)]
    fn record_any(&mut self, stack: StackId, event: &Event) {
        let ticks = self.ticks();
        self.put_event(ticks, stack, pack::pack(event));
        if changes_tables(event) {
            self.enter(stack, event);
        }
    }

    /// Enters what a published record changed besides blocks.
    #[cold]
    #[inline(never)]
    fn enter(&mut self, stack: StackId, event: &Event) {
        let region = &self.ring.region;
        let Rare { segments, pages, pools } = &mut *self.rare;
        let is_changed = if let Some(change) = MappingChange::of(event, stack) {
            segments.apply(region, change);
            false
        } else if let Some(change) = PageChange::of(event) {
            pages.apply(region, change);
            false
        } else {
            pools.apply(event)
        };
        // A released pool ends with its last segment, which no record says.
        let has_ended = match *event {
            Event::PoolRelease { pool }
            | Event::PoolEnd { pool }
            | Event::SegmentFree { pool, .. }
            | Event::SegmentUnmap { pool, .. } => pools.drop_ended(pool, || segments.any_of(pool)),
            _ => false,
        };
        if is_changed || has_ended {
            pools.write(region, self.next);
        }
    }

    /// The ticks now; takes a snapshot of the clock where one is due.
    #[inline]
    fn ticks(&mut self) -> u64 {
        let ticks = self.clock.ticks();
        // Also where ticks begin anew, as they do on some machines after a suspend.
        match ticks.wrapping_sub(self.last_snapshot.moment.ticks) {
            TICKS_BETWEEN.. => self.snapshot_clock(),
            _ => ticks,
        }
    }

    /// Records a block, and enters it in its row.
    #[allow(
        clippy::inline_always,
        reason = "where the kind of event is known, little is left of it"
    )]
    #[inline(always)]
    fn put_block(&mut self, ticks: u64, slot: BlockSlot, stack: StackId, event: Event) {
        let (words, fits) = self.put_event(ticks, stack, pack::pack(&event));
        let region = &self.ring.region;
        match region.block(slot.0) {
            Some(row) if fits => match event {
                Event::Alloc { .. } => blocks::put(row, &words),
                Event::Free { pending: true, .. } => blocks::set_pending(row),
                _ => blocks::clear(row),
            },
            _ => region.count_missing(HeaderField::BlocksMissing, more_live(&event)),
        }
    }

    /// The same, then copies the statistics, which include the record.
    #[cold]
    #[inline(never)]
    fn put_block_and_statistics(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: &Event,
        statistics: &impl Statistics,
    ) {
        let ticks = self.ticks();
        self.copied_ticks = self.last_snapshot.moment.ticks;
        self.put_block(ticks, slot, stack, *event);
        self.copy_statistics(statistics);
    }

    /// Records a reading of both clocks and returns the ticks now.
    #[cold]
    #[inline(never)]
    fn snapshot_clock(&mut self) -> u64 {
        let now = self.clock.moment();
        let number = self.next;
        for words in clock_snapshot::slots(self.last_snapshot, now) {
            self.put(&words);
        }
        self.ring.refine(self.last_snapshot.moment, now);
        self.last_snapshot = ClockSnapshot { number, moment: now };
        clock_snapshot::set_newest(&self.ring.region, self.last_snapshot);
        self.clock.ticks()
    }
}

impl<C: Clock> Recorder for RingRecorder<C> {
    #[inline]
    fn record(&mut self, stack: StackId, event: Event) {
        if !self.ring.is_muted() {
            self.record_any(stack, &event);
        }
    }

    #[allow(
        clippy::inline_always,
        reason = "where the kind of event is known, little is left of it"
    )]
    #[inline(always)]
    fn record_block(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: Event,
        statistics: &impl Statistics,
    ) {
        if self.ring.is_muted() {
            return;
        }
        // Only at an allocation do the statistics hold all that was recorded so far.
        if !matches!(event, Event::Alloc { .. }) {
            let ticks = self.ticks();
            return self.put_block(ticks, slot, stack, event);
        }
        let ticks = self.clock.ticks();
        if ticks.wrapping_sub(self.copied_ticks) >= TICKS_BETWEEN {
            // Of a copy: an event whose address is taken anywhere lies in memory everywhere.
            return self.put_block_and_statistics(slot, stack, &{ event }, statistics);
        }
        self.put_block(ticks, slot, stack, event);
    }

    fn copy_statistics(&mut self, statistics: &impl Statistics) {
        if !self.ring.is_muted()
            && let Some(values) = statistics.values()
        {
            statistics::copy(&self.ring.region, self.next, &values);
        }
    }

    fn intern(&mut self, text: &str) -> StringId {
        self.ring.intern(text)
    }
}

/// Whether the event changes segments, pools, scopes or settings.
fn changes_tables(event: &Event) -> bool {
    !matches!(
        event,
        Event::RecordStream { .. }
            | Event::EmptyCache { .. }
            | Event::ResetPeak
            | Event::ResetAccumulated
            | Event::DriverRefused { .. }
            | Event::Oom { .. }
            | Event::Snapshot { .. }
            | Event::Mark { .. }
            | Event::Category { .. }
            | Event::StreamPassed { .. }
            | Event::Lost { .. }
            | Event::Alloc { .. }
            | Event::Free { .. }
            | Event::FreeCompleted { .. }
    )
}

/// Says that the way to here is seldom gone.
#[cold]
const fn rare() {}

/// How many more blocks are live after an event of one.
#[inline]
const fn more_live(event: &Event) -> i64 {
    match event {
        Event::Alloc { .. } => 1,
        Event::Free { pending: true, .. } => 0,
        _ => -1,
    }
}
