//! One ring's way onto a tape: every record once, in order, and a base state wherever a reader needs one.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use trace_format::{
    BaseState, DeviceId, DeviceMeta, Event, Record, StackId, ThreadId, WriteError, Writer,
};

use super::names::Names;
use crate::record::ring::{Cursor, Reached, Ring};

/// Gives the state of a heap, and the number of the first record that is not yet part of it; both under the heap's
/// lock, so that no record falls between them. `None` where the heap is broken.
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
pub(super) struct Feed {
    source: TapeSource,
    names: Names<Arc<Ring>>,
    cursor: Cursor,
    /// Number of the first record after the last base state; `None` before the first one, where one is needed.
    base_at: Option<u64>,
    records_per_base: u64,
    pub(super) records: u64,
    pub(super) lost: u64,
}

impl Feed {
    /// A ring in which nothing was recorded starts from nothing; any other needs its heap's state first.
    pub(super) fn new(source: TapeSource, records_per_base: u64) -> Self {
        let base_at = (source.ring.sequence() == 0).then_some(0);
        let names = Names::new(Arc::clone(&source.ring));
        let cursor = Cursor::default();
        Self { source, names, cursor, base_at, records_per_base, records: 0, lost: 0 }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.source.ring
    }

    pub(super) fn device(&self) -> &DeviceMeta {
        &self.source.device
    }

    /// Writes what was recorded until now, about `now_ns`.
    pub(super) fn drain(
        &mut self,
        writer: &mut Writer<File>,
        now_ns: u64,
    ) -> Result<(), WriteError> {
        let Some(base_at) = self.base_at else { return self.start_again(writer, now_ns) };
        let end = self.ring().sequence();
        if self.copy(writer, end)? == Reached::Gone {
            return self.start_again(writer, now_ns);
        }
        if end - base_at >= self.records_per_base
            && let Some((base, next)) = (self.source.base)()
        {
            // The state holds what was recorded while it was waited for; so must the tape before it.
            if self.copy(writer, next)? == Reached::Gone {
                return self.start_again(writer, now_ns);
            }
            self.put_base(writer, base, next, now_ns)?;
        }
        Ok(())
    }

    /// Goes on from the heap's state, at the beginning or where records are lost.
    fn start_again(&mut self, writer: &mut Writer<File>, now_ns: u64) -> Result<(), WriteError> {
        let Some((base, next)) = (self.source.base)() else { return Ok(()) };
        if self.base_at.is_some() {
            let count = next.saturating_sub(self.cursor.position());
            self.lost += count;
            self.ring().add_lost_by_tape(count);
            let (thread, stack) = (ThreadId::default(), StackId::NONE);
            let (time_ns, event) = (self.cursor.not_before(now_ns), Event::Lost { count });
            writer.push(self.device_id(), &Record { time_ns, thread, stack, event })?;
        }
        self.put_base(writer, base, next, now_ns)
    }

    fn put_base(
        &mut self,
        writer: &mut Writer<File>,
        mut base: BaseState,
        next: u64,
        now_ns: u64,
    ) -> Result<(), WriteError> {
        base.time_ns = self.cursor.not_before(now_ns);
        let base = self.names.base(writer, base)?;
        writer.base(self.device_id(), &base)?;
        self.cursor.jump(next);
        self.base_at = Some(next);
        Ok(())
    }

    fn copy(&mut self, writer: &mut Writer<File>, end: u64) -> Result<Reached, WriteError> {
        let device = self.device_id();
        let Self { source, names, cursor, records, .. } = self;
        source.ring.read(cursor, end, |record| {
            *records += 1;
            let record = names.record(writer, record)?;
            writer.push(device, &record)
        })
    }

    fn device_id(&self) -> DeviceId {
        self.source.ring.device()
    }
}
