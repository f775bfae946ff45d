//! One ring's way onto a tape: every record once, in order, and a base state wherever a reader needs one.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::thread;

use trace_format::{BaseState, DeviceId, DeviceMeta, Event, Record, StackId, ThreadId, WriteError};

use super::names::Names;
use super::rotation::Parts;
use crate::ring::{Cursor, Reached, Ring};

/// Records of one ring that are written before the others have their turn, and the tape's size is looked at.
const RECORDS_PER_TURN: u64 = 1 << 16;

/// Gives the state of a heap, and the number of the first record that is not yet part of it; both of one moment, as
/// [`base_in_slices`](crate::base_in_slices) does. `None` where the heap is broken.
pub type BaseFn = Box<dyn Fn() -> Option<(BaseState, u64)> + Send>;

/// A ring that is to go onto a tape.
pub struct TapeSource {
    /// The ring.
    pub ring: Arc<Ring>,
    /// Its heap's state. Called on the drainer's thread, which holds no lock then; see [`Ring::sequence`].
    pub base: BaseFn,
    /// What the tape says about the device.
    pub device: DeviceMeta,
}

impl fmt::Debug for TapeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ring, device, base: _ } = self;
        f.debug_struct("TapeSource")
            .field("ring", ring)
            .field("device", device)
            .finish_non_exhaustive()
    }
}

/// A source, and how far it is on tape.
#[derive(Debug)]
pub(super) struct RingSource {
    source: TapeSource,
    names: Names<Arc<Ring>>,
    cursor: Cursor,
    /// Number of the first record that this round leaves to the next.
    end: u64,
    /// Number of the first record after the last base state; `None` before the first one, where one is needed.
    base_at: Option<u64>,
    records_per_base: u64,
    pub(super) records: u64,
    pub(super) lost: u64,
    /// Records handed to the writer of this part, and how many of them say that others are lost.
    pub(super) part_records: u64,
    part_gaps: u64,
}

impl RingSource {
    /// A ring in which nothing was recorded starts from nothing; any other needs its heap's state first.
    pub(super) fn new(source: TapeSource, records_per_base: u64) -> Self {
        let base_at = (source.ring.sequence() == 0).then_some(0);
        let names = Names::new(Arc::clone(&source.ring));
        let cursor = Cursor::default();
        source.ring.set_on_tape(Some(true));
        Self {
            source,
            names,
            cursor,
            end: 0,
            base_at,
            records_per_base,
            records: 0,
            lost: 0,
            part_records: 0,
            part_gaps: 0,
        }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.source.ring
    }

    pub(super) fn device(&self) -> &DeviceMeta {
        &self.source.device
    }

    /// Sets what [`drain`](Self::drain) is to write: everything recorded until now.
    pub(super) fn set_target(&mut self) {
        self.end = self.ring().sequence();
    }

    /// Writes a part of it, about `now_ns`, and says whether it was the last one.
    pub(super) fn drain(&mut self, parts: &mut Parts, now_ns: u64) -> Result<bool, WriteError> {
        let Some(base_at) = self.base_at else {
            self.start_again(parts, now_ns)?;
            return Ok(true);
        };
        let end = self.end.min(self.cursor.position() + RECORDS_PER_TURN);
        if self.copy(parts, end)? == Reached::Gone {
            self.start_again(parts, now_ns)?;
            return Ok(true);
        }
        if end.saturating_sub(base_at) >= self.records_per_base
            && let Some((base, next)) = (self.source.base)()
        {
            // The state holds what was recorded while it was waited for; so must the tape before it.
            if self.copy(parts, next)? == Reached::Gone {
                self.start_again(parts, now_ns)?;
                return Ok(true);
            }
            self.put_base(parts, base, next, now_ns)?;
        }
        Ok(self.cursor.position() >= self.end)
    }

    /// Writes what led to the heap's state now, and gives that state: the next part begins with it.
    pub(super) fn cut_at_base_state(
        &mut self,
        parts: &mut Parts,
        now_ns: u64,
    ) -> Result<Option<(BaseState, u64)>, WriteError> {
        if self.base_at.is_none() {
            return Ok(None);
        }
        let Some((base, next)) = (self.source.base)() else { return Ok(None) };
        if self.copy(parts, next)? == Reached::Gone {
            self.put_lost(parts, next, now_ns)?;
        }
        Ok(Some((base, next)))
    }

    /// Goes on in a new part, from what [`cut_at_base_state`](Self::cut_at_base_state) gave.
    pub(super) fn begin_part(
        &mut self,
        parts: &mut Parts,
        cut: Option<(BaseState, u64)>,
        now_ns: u64,
    ) -> Result<(), WriteError> {
        // Every part has strings and stacks of its own.
        self.names = Names::new(Arc::clone(&self.source.ring));
        self.base_at = None;
        (self.part_records, self.part_gaps) = (0, 0);
        match cut {
            Some((base, next)) => self.put_base(parts, base, next, now_ns),
            None => Ok(()),
        }
    }

    /// Goes on from the heap's state, at the beginning or where records are lost.
    fn start_again(&mut self, parts: &mut Parts, now_ns: u64) -> Result<(), WriteError> {
        let Some((base, next)) = (self.source.base)() else { return Ok(()) };
        if self.base_at.is_some() {
            self.put_lost(parts, next, now_ns)?;
        }
        self.put_base(parts, base, next, now_ns)
    }

    /// Says that the records up to number `next` are lost.
    fn put_lost(&mut self, parts: &mut Parts, next: u64, now_ns: u64) -> Result<(), WriteError> {
        let count = next.saturating_sub(self.cursor.position());
        self.lost += count;
        self.ring().add_lost_by_tape(count);
        self.part_gaps += 1;
        let (thread, stack) = (ThreadId::default(), StackId::NONE);
        let (time_ns, event) = (self.cursor.not_before(now_ns), Event::Lost { count });
        parts.writer().push(self.device_id(), &Record { time_ns, thread, stack, event })
    }

    fn put_base(
        &mut self,
        parts: &mut Parts,
        mut base: BaseState,
        next: u64,
        now_ns: u64,
    ) -> Result<(), WriteError> {
        base.time_ns = self.cursor.not_before(now_ns);
        let base = self.names.base(parts.writer(), base)?;
        parts.base(self.device_id(), &base)?;
        self.cursor.jump(next);
        self.base_at = Some(next);
        Ok(())
    }

    fn copy(&mut self, parts: &mut Parts, end: u64) -> Result<Reached, WriteError> {
        let device = self.device_id();
        let Self { source, names, cursor, records, part_records, .. } = self;
        let writer = parts.writer();
        source.ring.read(cursor, end, |record| {
            *records += 1;
            *part_records += 1;
            let record = names.record(writer, record)?;
            writer.push(device, &record)
        })
    }

    /// Counts as lost what was handed to the part's writer but is not on the tape that it could finish.
    pub(super) fn lose_unwritten(&mut self, parts: &mut Parts) {
        let on_part = parts.writer().written_records(self.device_id());
        let count = self.part_records.saturating_sub(on_part.saturating_sub(self.part_gaps));
        self.records -= count;
        self.lose(count);
    }

    /// Counts what was recorded since the last call as lost: the tape has failed.
    pub(super) fn lose_new(&mut self) {
        self.ring().set_on_tape(Some(false));
        let end = self.ring().sequence();
        let mut count = 0;
        while self.cursor.position() < end {
            let read = self.source.ring.read(&mut self.cursor, end, |_| {
                count += 1;
                Ok::<(), Infallible>(())
            });
            if let Ok(Reached::Gone) = read {
                count += end - self.cursor.position();
                self.cursor.jump(end);
            }
        }
        self.lose(count);
    }

    fn lose(&mut self, count: u64) {
        self.lost += count;
        self.ring().add_lost_by_tape(count);
    }

    /// A record about `now_ns` that `count` others are missing.
    pub(super) fn loss(&mut self, count: u64, now_ns: u64) -> (DeviceId, Record) {
        let (thread, stack) = (ThreadId::default(), StackId::NONE);
        let (time_ns, event) = (self.cursor.not_before(now_ns), Event::Lost { count });
        (self.device_id(), Record { time_ns, thread, stack, event })
    }

    fn device_id(&self) -> DeviceId {
        self.source.ring.device()
    }
}

impl Drop for RingSource {
    /// The tape ends here. One that failed stays visible as such.
    fn drop(&mut self) {
        if thread::panicking() {
            self.ring().set_on_tape(Some(false));
        } else if self.ring().is_on_tape() == Some(true) {
            self.ring().set_on_tape(None);
        }
    }
}
