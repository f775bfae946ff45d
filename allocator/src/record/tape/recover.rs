//! A ring's file as a tape, without its process: what is left when that was killed.

use std::path::Path;

use trace_format::{
    DeviceMeta, Event, Meta, Record, Source, StackId, ThreadId, WriteError, Writer,
};

use super::names::Names;
use crate::record::ring::{RingError, RingReader};

/// Why a ring's file is no tape.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The ring could not be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The tape could not be made.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The bytes of a tape with what the ring at `path` holds now.
///
/// A ring that never turned over gives everything since its process began. Of one that did, the tape begins with the
/// loss: no state is known behind it, as only the process itself could tell.
///
/// # Errors
/// Where the ring cannot be read.
pub fn tape_of_ring(path: &Path) -> Result<Vec<u8>, RecoverError> {
    let mut reader = RingReader::open(path)?;
    let mut records = Vec::new();
    let lost = reader.poll(|record| records.push(record));
    let info = reader.info();
    let meta = Meta {
        source: Source::Recorded,
        producer: concat!("vramtape ", env!("CARGO_PKG_VERSION"), ", from a ring").to_owned(),
        devices: vec![DeviceMeta { id: info.device, ..DeviceMeta::default() }],
        pid: Some(info.pid),
        start_time_ns: records.first().map(|record| record.time_ns),
        clock: Some("unix".to_owned()),
        ..Meta::default()
    };
    let mut writer = Writer::new(Vec::new(), path.display().to_string(), &meta)?;
    if lost > 0 {
        let time_ns = meta.start_time_ns.unwrap_or_default();
        let (thread, stack, event) = (ThreadId(0), StackId::NONE, Event::Lost { count: lost });
        writer.push(info.device, &Record { time_ns, thread, stack, event })?;
    }
    let mut names = Names::new(reader);
    for record in records {
        let record = names.record(&mut writer, record)?;
        writer.push(info.device, &record)?;
    }
    Ok(writer.finish()?)
}
