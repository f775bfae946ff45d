//! Reading a ring in order, beside its writer.

use std::convert::Infallible;

use rustc_hash::FxHashMap;
use trace_format::{Event, PoolId, Record, StackId, Stream, ThreadId};

use super::clock_snapshot;
use super::contexts::{self, Context};
use super::layout::{HeaderField, Payload};
use super::look::Look;
use super::pack::{self, CLOCK_SNAPSHOT, MORE};
use super::words::{self, MORE_SLOTS, Slot, WIDE};
use crate::cast;
use crate::clock::{Calibration, Moment};

/// A place in a ring's sequence of slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    next: u64,
    /// The moment from which ticks count; `None` after a jump.
    moment: Option<Moment>,
    /// Words for the next event, and how many of their slots there were.
    more: [[u64; 3]; MORE_SLOTS],
    more_slots: usize,
    last_context: Option<(u16, Context)>,
    /// A context never changes.
    contexts: FxHashMap<u16, Context>,
    last_ns: u64,
}

/// How far a reader got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// All that it asked for.
    End,
    /// A slot that is no longer there.
    Gone,
}

/// The newest records from slot number `first` on, which is a record's own, and before number `end`, without a gap, and
/// how many slots of these are gone.
pub(super) fn newest(look: &impl Look, first: u64, end: u64) -> (u64, Vec<Record>) {
    let mut cursor = Cursor::default();
    let mut start = look.oldest(end).max(first.min(end));
    cursor.jump(start);
    let mut records = Vec::new();
    loop {
        let reached = cursor.read(look, end, |record| {
            records.push(record);
            Ok::<(), Infallible>(())
        });
        match reached {
            Ok(Reached::End) => return (start.saturating_sub(first), records),
            Ok(Reached::Gone) => {
                records.clear();
                if look.has_failed() {
                    return (end.saturating_sub(first), records);
                }
                cursor.skip_overwritten(look);
                start = cursor.position();
            }
        }
    }
}

fn batch_of<L: Look>(_: &L) -> usize {
    L::BATCH
}

impl Cursor {
    /// Goes to slot number `next`; times go on from where they were.
    pub(crate) fn jump(&mut self, next: u64) {
        (self.next, self.moment, self.more_slots) = (next, None, 0);
    }

    /// The number of the next slot.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// `time_ns`, or the last record's time if that is later: what is put between two records.
    pub(crate) fn not_before(&mut self, time_ns: u64) -> u64 {
        self.last_ns = self.last_ns.max(time_ns);
        self.last_ns
    }

    /// Hands out the records before slot number `end`, which is not past the head.
    ///
    /// A slot that cannot be understood becomes [`Event::Lost`]. Times never run backwards.
    ///
    /// # Errors
    /// What `take` returns, at once.
    pub(super) fn read<E>(
        &mut self,
        look: &impl Look,
        end: u64,
        mut take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Reached, E> {
        if self.next >= end {
            return Ok(Reached::End);
        }
        let mut batch = vec![Payload::default(); batch_of(look).min(cast::index(end - self.next))];
        while self.next < end {
            // Also what keeps a damaged head from sending a reader on an endless way.
            if end - self.next >= look.slot_count() {
                return Ok(Reached::Gone);
            }
            let moment = match self.moment.or_else(|| clock_snapshot::before(look, self.next)) {
                Some(moment) => moment,
                // Overwritten on the way there; or damaged, where a wrong time is better than none.
                None if self.next < look.oldest(look.written()) => return Ok(Reached::Gone),
                None => clock_snapshot::newest(look).moment,
            };
            self.moment = Some(moment);
            let count = batch.len().min(cast::index(end - self.next));
            if !look.copy(self.next, &mut batch[..count]) {
                return Ok(Reached::Gone);
            }
            let ns_per_tick = f64::from_bits(look.field(HeaderField::NsPerTick));
            for words in &batch[..count] {
                self.next += 1;
                if let Some(mut record) = self.decode(look, words, ns_per_tick) {
                    record.time_ns = self.not_before(record.time_ns);
                    take(record)?;
                }
            }
        }
        Ok(Reached::End)
    }

    /// Goes to the oldest slot that is still there and returns how many it left out.
    pub(super) fn skip_overwritten(&mut self, look: &impl Look) -> u64 {
        let skipped = look.oldest(look.written()).max(self.next + 1) - self.next;
        self.jump(self.next + skipped);
        skipped
    }

    /// `None` for a slot that is no event of its own.
    fn decode(&mut self, look: &impl Look, words: &Payload, ns_per_tick: f64) -> Option<Record> {
        let slot = words::decode(words);
        match slot.kind {
            MORE => {
                self.take_more(slot.detail, words);
                return None;
            }
            CLOCK_SNAPSHOT => {
                (self.moment, self.more_slots) = (Some(clock_snapshot::in_slot(words)), 0);
                return None;
            }
            _ => {}
        }
        let Slot { low_ticks, kind, detail, stack, mut args, context } = slot;
        let context = if context == WIDE {
            self.wide_context(&mut args)
        } else {
            self.context(look, context)
        };
        self.more_slots = 0;
        let event = context.and_then(|context| {
            let place: (Stream, PoolId) = (context.stream, context.pool);
            pack::unpack(kind, detail, place, args)
        });
        let (thread, stack) = match event {
            Some(_) => (context.unwrap_or_default().thread, stack),
            None => (ThreadId::default(), StackId::NONE),
        };
        let start = self.moment.unwrap_or_default();
        let ticks = words::full_ticks(low_ticks, start.ticks);
        Some(Record {
            time_ns: Calibration { start, ns_per_tick }.unix_ns(ticks),
            thread,
            stack,
            event: event.unwrap_or(Event::Lost { count: 1 }),
        })
    }

    fn take_more(&mut self, at: u8, words: &Payload) {
        if at == 0 {
            self.more_slots = 0;
        }
        if self.more_slots == usize::from(at)
            && let Some(more) = self.more.get_mut(usize::from(at))
        {
            more.copy_from_slice(&words[1..]);
            self.more_slots += 1;
        }
    }

    /// Context and arguments of a wide event, if all its slots were there.
    fn wide_context(&self, args: &mut [u64; 3]) -> Option<Context> {
        if self.more_slots < MORE_SLOTS {
            return None;
        }
        let [[thread, stream, major], [minor, number, size]] = self.more;
        [args[1], args[2]] = [number, size];
        let (stream, pool) = (Stream(stream), PoolId(major, minor));
        Some(Context { thread: ThreadId(u32::try_from(thread).ok()?), stream, pool })
    }

    #[inline]
    fn context(&mut self, look: &impl Look, number: u16) -> Option<Context> {
        if let Some((last, context)) = self.last_context
            && last == number
        {
            return Some(context);
        }
        let context = match self.contexts.get(&number) {
            Some(known) => *known,
            None => *self.contexts.entry(number).or_insert(contexts::get(look, number)?),
        };
        self.last_context = Some((number, context));
        Some(context)
    }
}
