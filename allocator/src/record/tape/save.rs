//! A ring's contents as a finished tape: what a process that only kept a ring can still tell.

use std::path::Path;
use std::sync::Arc;

use trace_format::{BaseState, DeviceMeta, Meta, Writer};

use super::names::Names;
use super::stretch::{Stretch, Written};
use super::{TapeError, TapeSummary};
use crate::record::ring::Ring;

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
    end: impl FnOnce() -> (BaseState, u64),
) -> Result<TapeSummary, TapeError> {
    let initial = (meta.alloc_conf.clone(), device.memory_fraction);
    meta.devices = vec![device];
    let (end, sequence) = end();
    let (lost, records) = ring.newest(sequence);
    let stretch = Stretch { device: ring.device(), end: Some(end), records, lost, initial };

    let mut writer = Writer::create(path, &meta)?;
    let Written { records, lost, .. } =
        stretch.write(&mut writer, &mut Names::new(Arc::clone(ring)))?;
    writer.finish()?;
    Ok(TapeSummary { path: path.to_owned(), records, lost })
}
