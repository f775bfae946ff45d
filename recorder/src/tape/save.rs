//! A ring's contents as a finished tape: what a process that only kept a ring can still tell.

use std::path::Path;
use std::sync::Arc;

use trace_format::{BaseState, DeviceMeta, Meta, Writer};

use super::names::Names;
use super::ring_slice::{RingSlice, Written};
use super::{TapeError, TapeSummary};
use crate::ring::Ring;

/// What of a ring is to be saved.
#[derive(Debug)]
pub struct RingPart {
    /// The ring.
    pub ring: Arc<Ring>,
    /// Its device.
    pub device: DeviceMeta,
    /// The number of the first record that is wanted: [`Ring::sequence`] at some moment, or 0 for all that is there.
    pub first: u64,
    /// The heap's state, and the number of the first record that is not part of it, taken under the heap's lock. The
    /// records before it are undone from that state, so that the tape starts with the state before its first record.
    pub end: (BaseState, u64),
}

/// Saves parts of rings, of a device each, as one tape at `path`, which appears there when it is complete.
///
/// Recording goes on meanwhile. Wanted records that were overwritten are counted on the tape.
///
/// # Errors
/// Where the file cannot be written.
pub fn save_rings(
    path: &Path,
    mut meta: Meta,
    parts: Vec<RingPart>,
) -> Result<TapeSummary, TapeError> {
    meta.devices = parts.iter().map(|part| part.device.clone()).collect();
    let mut writer = Writer::create(path, &meta)?;
    let mut summary = TapeSummary { path: path.to_owned(), records: 0, lost: 0 };
    for RingPart { ring, device, first, end: (end, sequence) } in parts {
        let (lost, records) = ring.newest(first, sequence);
        let initial = (meta.alloc_conf.clone(), device.memory_fraction);
        let slice = RingSlice { device: ring.device(), end: Some(end), records, lost, initial };
        let Written { records, lost, .. } = slice.write(&mut writer, &mut Names::new(ring))?;
        summary.records += records;
        summary.lost += lost;
    }
    writer.finish()?;
    Ok(summary)
}
