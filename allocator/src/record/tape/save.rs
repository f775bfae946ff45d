//! A ring's contents as a finished tape: what a process that only kept a ring can still tell.

use std::path::Path;
use std::sync::Arc;

use trace_format::{
    BaseState, DeviceMeta, Event, Meta, Record, StackId, ThreadId, WriteCause, WriteError, Writer,
};

use super::names::Names;
use super::rewind::Rewind;
use super::{TapeError, TapeSummary};
use crate::record::clock::Clock;
use crate::record::ring::{Cursor, Reached, Ring};

/// Saves what the ring holds as a tape at `path`, which appears there when it is complete.
///
/// `end` gives the heap's state and the number of the first record that is not part of it, under the heap's lock. The
/// records before it are undone from that state, so that the tape starts with the state before its first record.
/// Recording goes on meanwhile. Records that were overwritten are counted on the tape.
///
/// # Errors
/// Where the file cannot be written.
pub fn save_ring(
    ring: &Arc<Ring>,
    path: &Path,
    mut meta: Meta,
    device: DeviceMeta,
    _clock: &impl Clock,
    end: impl FnOnce() -> (BaseState, u64),
) -> Result<TapeSummary, TapeError> {
    let initial = (meta.alloc_conf.clone(), device.memory_fraction);
    let id = ring.device();
    meta.devices = vec![device];
    let (end, sequence) = end();
    let (mut lost, mut records) = copy(ring, sequence);

    let failed = |cause| WriteError { name: path.display().to_string(), cause };
    let mut rewind =
        Rewind::new(end, initial.0, initial.1).map_err(|error| failed(WriteCause::Base(error)))?;
    let known = records.iter().rposition(|record| {
        let undone = rewind.undo(record);
        undone
            .inspect_err(|error| tracing::warn!(%error, "the saved ring begins after this record"))
            .is_err()
    });
    lost += records.drain(..known.map_or(0, |at| at + 1)).len() as u64;

    let mut writer = Writer::create(path, &meta)?;
    let mut names = Names::new(Arc::clone(ring));
    let base = names.base(&mut writer, rewind.finish())?;
    if lost > 0 {
        let (thread, stack) = (ThreadId::default(), StackId::NONE);
        let (time_ns, event) = (base.time_ns, Event::Lost { count: lost });
        writer.push(id, &Record { time_ns, thread, stack, event })?;
    }
    writer.base(id, &base)?;
    for record in &records {
        let record = names.record(&mut writer, *record)?;
        writer.push(id, &record)?;
    }
    writer.finish()?;
    Ok(TapeSummary { path: path.to_owned(), records: records.len() as u64, lost })
}

/// The newest records before slot number `end`, without a gap, and how many slots came before them.
fn copy(ring: &Ring, end: u64) -> (u64, Vec<Record>) {
    let mut cursor = Cursor::default();
    let mut start = (end + 1).saturating_sub(ring.slots());
    cursor.jump(start);
    let mut records = Vec::new();
    loop {
        let reached = ring.read(&mut cursor, end, |record| {
            records.push(record);
            Ok::<(), std::convert::Infallible>(())
        });
        match reached {
            Ok(Reached::End) => return (start, records),
            Ok(Reached::Gone) => {
                records.clear();
                ring.skip_overwritten(&mut cursor);
                start = cursor.position();
            }
        }
    }
}
