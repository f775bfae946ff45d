//! A ring's file as a tape, without its process: what is left when that was killed.

use std::io::Write;
use std::path::{Path, PathBuf};

use trace_format::{
    DeviceId, DeviceMeta, EndKind, Meta, ProgramEnd, ReadError, Source, WriteError, Writer,
};

use super::names::Names;
use super::ring_slice::{RingSlice, Written};
use crate::ring::{RingError, RingReader};

/// Why a ring's file is no tape.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The ring could not be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The tape that the ring goes on from could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The tape could not be made.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What of a ring came onto a tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The ring's device.
    pub device: DeviceId,
    /// Records.
    pub records: u64,
    /// Slots of the ring that were overwritten before it was read.
    pub lost: u64,
    /// Whether the tape starts with the state before its first record. It does not where the ring's tables were too
    /// small for what was live, or are damaged.
    pub has_base: bool,
    /// What the ring had no room for, a sentence each.
    pub missing: Vec<String>,
}

/// The bytes of a tape with what the ring at `path` holds now: its records, and before them the state that they
/// presuppose.
///
/// # Errors
/// Where the ring cannot be read.
pub fn tape_of_ring(path: &Path) -> Result<Vec<u8>, RecoverError> {
    let mut reader = RingReader::open_named(path)?;
    let meta = meta_of(&mut reader);
    let mut writer = Writer::new(Vec::new(), path.display().to_string(), &meta)?;
    write_ring(reader, &mut writer)?;
    Ok(writer.finish()?)
}

/// Saves the tape of one process's rings, one of each device, at `path`, where it appears when it is complete. Root may
/// name rings of another user.
///
/// # Errors
/// Where a ring cannot be read or the file cannot be written.
pub fn recover_rings(rings: &[PathBuf], path: &Path) -> Result<Vec<Recovered>, RecoverError> {
    let open = |ring: &PathBuf| RingReader::open_named(ring);
    let mut readers = rings.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut metas = readers.iter_mut().map(meta_of);
    let mut meta = metas.next().unwrap_or_default();
    for other in metas {
        meta.devices.extend(other.devices);
        meta.inferred.extend(other.inferred);
    }
    let mut writer = Writer::create(path, &meta)?;
    let write = |reader| write_ring(reader, &mut writer);
    let recovered = readers.into_iter().map(write).collect::<Result<_, _>>()?;
    writer.finish()?;
    Ok(recovered)
}

pub(super) fn meta_of(reader: &mut RingReader) -> Meta {
    let info = reader.info();
    let mut meta = reader.meta().cloned().unwrap_or_else(|| Meta {
        source: Source::Recorded,
        devices: vec![DeviceMeta { id: info.device, ..DeviceMeta::default() }],
        pid: Some(info.pid),
        clock: Some("unix".to_owned()),
        ..Meta::default()
    });
    concat!("vramtape ", env!("CARGO_PKG_VERSION"), ", from a ring").clone_into(&mut meta.producer);
    meta.end = meta.end.or_else(|| end_of(reader));
    meta.inferred.extend(info.missing());
    meta
}

/// The end of a process whose ring does not have it; `None` where it ended by itself, in a way that is not known.
fn end_of(reader: &RingReader) -> Option<ProgramEnd> {
    let kind = match (reader.is_live(), reader.is_removed()) {
        (true, _) => EndKind::RecordingStopped,
        (false, false) => EndKind::Killed,
        (false, true) => return None,
    };
    Some(ProgramEnd { kind, ..ProgramEnd::default() })
}

fn write_ring<W: Write>(
    mut reader: RingReader,
    writer: &mut Writer<W>,
) -> Result<Recovered, RecoverError> {
    let slice = held_by(&mut reader);
    let missing = reader.info().missing();
    let device = slice.device;
    let mut names = Names::new(reader);
    let Written { records, lost, has_base } = slice.write(writer, &mut names)?;
    names.texts_mut().check()?;
    Ok(Recovered { device, records, lost, has_base, missing })
}

/// What the ring holds now.
pub(super) fn held_by(reader: &mut RingReader) -> RingSlice {
    let end = known_end(reader);
    // After it was read: of a live process the tables may have become full meanwhile.
    let info = reader.info();
    let end = end.filter(|_| info.is_complete());
    let (end, next) = end.unzip();
    let (lost, records) = reader.newest(next.unwrap_or(info.written));
    let initial = reader.meta().map_or_else(<_>::default, |meta| {
        let device = meta.devices.first();
        (meta.alloc_conf.clone(), device.and_then(|device| device.memory_fraction))
    });
    RingSlice { device: info.device, end, records, lost, initial }
}

/// The state at the end; a ring without one is still worth its records.
fn known_end(reader: &mut RingReader) -> Option<(trace_format::BaseState, u64)> {
    let end = reader.base_state();
    end.inspect_err(|error| tracing::warn!("the tape has no state to replay from: {error}")).ok()
}
