//! The writing end of a ring.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use trace_format::{Event, PoolId, StackId, Stream, StringId, ThreadId};

use super::contexts::{self, Context};
use super::layout::{Payload, Word};
use super::manners::Manners;
use super::moments::{self, Noted, TICKS_BETWEEN};
use super::pack::{self, Packed};
use super::region::Region;
use super::segments::{self, Change};
use super::words::{self, WIDE};
use super::{Ring, RingOptions, TEXT_BYTES, blocks};
use crate::record::clock::{Clock, SystemClock};
use crate::record::name_table::NameTable;
use crate::record::{BlockSlot, Recorder};

/// Records into a ring: no lock, no system call, no allocation.
///
/// There is one per ring and it needs `&mut`, so the ring has one writer at a time and its order is the heap's.
#[derive(Debug)]
pub struct RingRecorder<C: Clock = SystemClock> {
    ring: Arc<Ring>,
    clock: C,
    next: u64,
    noted: Noted,
    /// The context of the last record, and its number.
    last: (Context, u16),
    rare: Box<Rare>,
}

/// What few records need.
#[derive(Debug, Default)]
struct Rare {
    segments: segments::Table,
    manners: Manners,
}

impl<C: Clock> RingRecorder<C> {
    /// Makes the ring, in memory of this process alone (with one warning) where its file cannot be had.
    ///
    /// # Errors
    /// Where there is no memory either.
    pub fn new(options: &RingOptions, clock: C) -> io::Result<Self> {
        Self::sharing(options, TEXT_BYTES, Arc::default(), clock)
    }

    /// The same with a table of names that other rings of the process use too, and so much room in the ring's file for
    /// what it uses of them.
    ///
    /// # Errors
    /// Where there is no memory either.
    pub fn sharing(
        options: &RingOptions,
        text_bytes: usize,
        names: Arc<NameTable>,
        clock: C,
    ) -> io::Result<Self> {
        let calibration = clock.calibration();
        let ring = Arc::new(Ring::create(options, text_bytes, names, &calibration)?);
        let noted = Noted { number: 0, moment: calibration.start };
        // No thread has id 0: the first record looks for its context.
        let (last, rare) = <_>::default();
        Ok(Self { ring, clock, next: 0, noted, last, rare })
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
    fn put_event(&mut self, stack: StackId, event: Packed) -> (Payload, bool) {
        let mut ticks = self.clock.ticks();
        // Also where ticks begin anew, as they do on some machines after a suspend.
        if ticks.wrapping_sub(self.noted.moment.ticks) >= TICKS_BETWEEN {
            ticks = self.note_moment();
        }
        let Packed { kind, detail, place, args } = event;
        let context = self.context(place);
        let words = words::encode(ticks, (kind, detail), stack, args, context);
        let fits = words::fits(args);
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

    /// The number of this thread's context; its stream and pool do not matter where there is no place.
    #[inline]
    fn context(&mut self, place: Option<(Stream, PoolId)>) -> u16 {
        let thread = ThreadId(thread_id());
        let (last, number) = self.last;
        let is_here = |(stream, pool)| stream == last.stream && pool == last.pool;
        if thread == last.thread && place.is_none_or(is_here) {
            return number;
        }
        let (stream, pool) = place.unwrap_or_default();
        self.find_context(Context { thread, stream, pool })
    }

    #[inline(never)]
    fn find_context(&mut self, context: Context) -> u16 {
        let number = contexts::number_of(&self.ring.region, context).unwrap_or(WIDE);
        self.last = (context, number);
        number
    }

    /// Writes an event with more slots before it. In line, or else every event is put into memory to be called with.
    #[allow(clippy::inline_always, reason = "a call would want every event in memory")]
    #[inline(always)]
    fn put_wide(&mut self, ticks: u64, stack: StackId, event: Packed) {
        let Packed { kind, detail, place, args } = event;
        rare();
        let thread = ThreadId(thread_id());
        for words in words::wide(ticks, thread, place.unwrap_or_default(), args) {
            self.put(&words);
        }
        self.put(&words::encode(ticks, (kind, detail), stack, [args[0], 0, 0], WIDE));
    }

    /// Any event, at the length that takes.
    #[inline(never)]
    fn record_any(&mut self, stack: StackId, event: &Event) {
        self.put_event(stack, pack::pack(event));
        if changes_tables(event) {
            self.enter(stack, event);
        }
    }

    /// Enters what a published record changed besides blocks.
    #[cold]
    #[inline(never)]
    fn enter(&mut self, stack: StackId, event: &Event) {
        let region = &self.ring.region;
        let Rare { segments, manners } = &mut *self.rare;
        if let Some(change) = Change::of(event, stack) {
            segments.apply(region, change);
            return;
        }
        if matches!(event, Event::PoolCreate { .. } | Event::PoolBegin { .. }) {
            // Released pools end when their last segment goes, which nothing else says.
            manners.pools.retain(|state| state.use_count > 0 || segments.any_of(state.pool));
        }
        if manners.apply(event) {
            manners.write(region, self.next);
        }
    }

    /// Notes both clocks and returns the ticks now.
    #[cold]
    #[inline(never)]
    fn note_moment(&mut self) -> u64 {
        let now = self.clock.moment();
        let number = self.next;
        for words in moments::slots(self.noted, now) {
            self.put(&words);
        }
        self.ring.refine(self.noted.moment, now);
        self.noted = Noted { number, moment: now };
        moments::set_newest(&self.ring.region, self.noted);
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
    fn record_block(&mut self, slot: BlockSlot, stack: StackId, event: Event) {
        if self.ring.is_muted() {
            return;
        }
        let (words, fits) = self.put_event(stack, pack::pack(&event));
        let region = &self.ring.region;
        match region.block(slot.0).filter(|_| fits) {
            None => count_missing(region, more_live(&event)),
            Some(row) => match event {
                Event::Alloc { .. } => blocks::put(row, &words),
                Event::Free { pending: true, .. } => blocks::set_pending(row),
                _ => blocks::clear(row),
            },
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

/// A block that the table has no row for, or whose numbers no row can hold, comes or goes.
#[cold]
#[inline(never)]
fn count_missing(region: &Region, more: i64) {
    let missing = region.get(Word::BlocksMissing);
    region.set(Word::BlocksMissing, missing.saturating_add_signed(more));
}

/// The operating system's id of this thread, asked for once.
#[inline]
fn thread_id() -> u32 {
    thread_local! {
        static ID: Cell<u32> = const { Cell::new(0) };
    }
    match ID.get() {
        0 => {
            let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            ID.set(id);
            id
        }
        id => id,
    }
}
