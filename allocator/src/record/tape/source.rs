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
/// lock, so that no record falls between them.
pub type BaseFn = Box<dyn Fn() -> (BaseState, u64) + Send>;

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
    names: Names,
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

    /// Writes what was recorded until now. `now_ns` is the time of a loss.
    pub(super) fn drain(
        &mut self,
        writer: &mut Writer<File>,
        now_ns: u64,
    ) -> Result<(), WriteError> {
        let Some(base_at) = self.base_at else { return self.write_base(writer, None) };
        let end = self.ring().sequence();
        if self.copy(writer, end)? == Reached::Gone {
            self.write_base(writer, Some(now_ns))
        } else if end - base_at >= self.records_per_base {
            let base = (self.source.base)();
            // The state holds what was recorded while it was waited for; so must the tape before it.
            if self.copy(writer, base.1)? == Reached::Gone {
                return self.write_base(writer, Some(now_ns));
            }
            self.put_base(writer, base)
        } else {
            Ok(())
        }
    }

    /// Starts again from the heap's state, at the beginning or where records are lost.
    fn write_base(
        &mut self,
        writer: &mut Writer<File>,
        loss_at_ns: Option<u64>,
    ) -> Result<(), WriteError> {
        let base = (self.source.base)();
        if let Some(time_ns) = loss_at_ns {
            let count = base.1.saturating_sub(self.cursor.position());
            self.lost += count;
            self.ring().add_lost_by_tape(count);
            let (thread, stack) = (ThreadId::default(), StackId::NONE);
            let lost = Record { time_ns, thread, stack, event: Event::Lost { count } };
            writer.push(self.device_id(), &lost)?;
        }
        self.put_base(writer, base)
    }

    fn put_base(
        &mut self,
        writer: &mut Writer<File>,
        (base, next): (BaseState, u64),
    ) -> Result<(), WriteError> {
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
