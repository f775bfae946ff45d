//! A ring's records with the state before them, as a tape that replays.

use std::io::Write;

use trace_format::{BaseState, DeviceId, Event, Record, StackId, ThreadId, WriteError, Writer};

use super::names::{Names, Texts};
use super::rewind::Rewind;

/// What a ring held: records without a gap, and the state that they led to.
pub(super) struct RingSlice {
    /// The device whose ring it is.
    pub(super) device: DeviceId,
    /// The state behind the last record, if it is known.
    pub(super) end: Option<BaseState>,
    /// The records.
    pub(super) records: Vec<Record>,
    /// How many slots of the ring came before them.
    pub(super) lost: u64,
    /// The settings and the fraction as the process began.
    pub(super) initial: (String, Option<f64>),
}

/// How much of it is on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) records: u64,
    pub(super) lost: u64,
    pub(super) has_base: bool,
}

impl RingSlice {
    /// Undoes the records from the end, so that the tape starts with the state before its first record. Where one
    /// contradicts the state, the tape begins after it; where no state is known, all records come without one.
    pub(super) fn write<W: Write>(
        self,
        writer: &mut Writer<W>,
        names: &mut Names<impl Texts>,
    ) -> Result<Written, WriteError> {
        let Self { device, end, mut records, mut lost, initial } = self;
        let base = end.and_then(|end| {
            let (base, unknown) = start_of(end, &records, initial)?;
            lost += records.drain(..unknown).len() as u64;
            Some(base)
        });
        let time_ns = records.first().map_or(0, |record| record.time_ns);
        if lost > 0 {
            let (thread, stack, event) =
                (ThreadId::default(), StackId::NONE, Event::Lost { count: lost });
            writer.push(device, &Record { time_ns, thread, stack, event })?;
        }
        let has_base = base.is_some();
        if let Some(base) = base {
            let base = names.base(writer, base)?;
            writer.base(device, &base)?;
        }
        for record in &records {
            let record = names.record(writer, *record)?;
            writer.push(device, &record)?;
        }
        Ok(Written { records: records.len() as u64, lost, has_base })
    }
}

/// The state before the records, and how many at their beginning are before even that.
fn start_of(
    end: BaseState,
    records: &[Record],
    (settings, fraction): (String, Option<f64>),
) -> Option<(BaseState, usize)> {
    let warn = |error| {
        tracing::warn!(
            "the tape has no state to replay from: that of the ring contradicts itself: {error}"
        );
    };
    let mut rewind = Rewind::new(end, settings, fraction).map_err(warn).ok()?;
    let unknown =
        records.iter().rposition(|record| {
            rewind
            .undo(record)
            .inspect_err(|error| tracing::warn!(
                    "the tape begins later than its ring: a record contradicts the state: {error}"
                ))
            .is_err()
        });
    Some((rewind.finish()?, unknown.map_or(0, |at| at + 1)))
}
