//! Reading a ring in order, beside its writer.

use trace_format::{Event, PoolId, Record, StackId, ThreadId};

use super::pack::{self, POOL_IS_WIDE, WIDE_POOL};
use super::region::{Payload, Region};
use super::slot::Found;
use crate::record::clock::Calibration;

/// A place in a ring's sequence of records.
#[derive(Clone, Debug, Default)]
pub(in crate::record) struct Cursor {
    next: u64,
    wide_pool: Option<PoolId>,
    last_ns: u64,
}

/// How far a reader got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) enum Reached {
    /// All that it asked for.
    End,
    /// A record that is no longer there.
    Gone,
}

impl Cursor {
    /// Goes to record number `next`; times go on from where they were.
    pub(in crate::record) fn jump(&mut self, next: u64) {
        (self.next, self.wide_pool) = (next, None);
    }

    /// The number of the next record.
    pub(in crate::record) fn position(&self) -> u64 {
        self.next
    }

    /// `time_ns`, or the last record's time if that is later: what is put between two records.
    pub(in crate::record) fn not_before(&mut self, time_ns: u64) -> u64 {
        self.last_ns = self.last_ns.max(time_ns);
        self.last_ns
    }

    /// Hands out the records before number `end`, which is not past the head.
    ///
    /// A slot that cannot be understood becomes [`Event::Lost`]. Times never run backwards, though the calibration may
    /// change between two calls.
    ///
    /// # Errors
    /// What `take` returns, at once.
    pub(super) fn read<E>(
        &mut self,
        region: &Region,
        calibration: &Calibration,
        end: u64,
        mut take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Reached, E> {
        // Also what keeps a damaged head from sending a reader on an endless way.
        if end.saturating_sub(self.next) > region.slots() {
            return Ok(Reached::Gone);
        }
        while self.next < end {
            let payload = match region.read(self.next) {
                Found::Record(payload) => Some(payload),
                Found::Overwritten => return Ok(Reached::Gone),
                // Below the head there is none such but in a damaged file.
                Found::NotYet => None,
            };
            self.next += 1;
            if let Some(mut record) = self.decode(payload.as_ref(), calibration) {
                record.time_ns = self.not_before(record.time_ns);
                take(record)?;
            }
        }
        Ok(Reached::End)
    }

    /// Goes to the oldest record that is still there and returns how many it left out.
    pub(super) fn skip_overwritten(&mut self, region: &Region) -> u64 {
        let oldest = region.head().saturating_sub(region.slots());
        let skipped = oldest.max(self.next + 1) - self.next;
        self.jump(self.next + skipped);
        skipped
    }

    /// `None` for the slot that carries the pool of the next one.
    fn decode(&mut self, payload: Option<&Payload>, calibration: &Calibration) -> Option<Record> {
        let lost = Event::Lost { count: 1 };
        let Some(&[ticks, who, tag, args @ ..]) = payload else {
            let (thread, stack) = <_>::default();
            return Some(Record { time_ns: self.last_ns, thread, stack, event: lost });
        };
        if tag == WIDE_POOL {
            self.wide_pool = Some(PoolId(args[0], args[1]));
            return None;
        }
        let wide_pool = self.wide_pool.take();
        let pool = if tag & POOL_IS_WIDE == 0 { Some(pack::tag_pool(tag)) } else { wide_pool };
        Some(Record {
            time_ns: calibration.unix_ns(ticks),
            thread: ThreadId(who as u32),
            stack: StackId((who >> 32) as u32),
            event: pool.and_then(|pool| pack::unpack(tag, pool, args)).unwrap_or(lost),
        })
    }
}
