//! Writes what an allocator did as a PyTorch memory snapshot: for PyTorch's viewer (`MemoryViz`), `_memory_viz.py`
//! and everything else that reads `torch.cuda.memory._dump_snapshot` files.

mod clock;
mod document;
mod encode;
mod firefox;
mod json;
mod perfetto;
mod pickler;
mod spans;
mod speedscope;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use settings::Config;
use thiserror::Error;
use trace_format::{Commit, DeviceId, Record, SegmentState, State, StateError};

use crate::snapshot::Stacks;
pub use firefox::write_firefox;
pub use perfetto::write_perfetto;
pub use speedscope::write_speedscope;

/// The only frame of allocations without a stack.
const NO_STACK: &str = "no stack recorded";

/// The input of a snapshot.
pub struct SnapshotSource<'a> {
    /// The devices, in order of their numbers.
    pub devices: Vec<SnapshotDevice<'a>>,
    /// The text behind the records' string and stack ids.
    pub stacks: &'a Stacks,
    /// The settings, for `allocator_settings`.
    pub config: &'a Config,
}

/// One device of a snapshot.
#[derive(Clone, Copy)]
pub struct SnapshotDevice<'a> {
    /// Which device.
    pub device: DeviceId,
    /// The segments before the first record.
    pub base: &'a [SegmentState],
    /// The records since.
    pub records: &'a [Record],
    /// The segments after the last record.
    pub segments: &'a [SegmentState],
}

/// How a snapshot is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Python's pickle, protocol 4.
    #[default]
    Pickle,
    /// JSON: readable without Python, several times larger.
    Json,
}

/// A file that could not be written; none is left behind.
#[derive(Debug, Error)]
#[error("{path}: cannot write the export: {source}")]
pub struct ExportError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The segments that `records` lead to from `base`: the end of a run whose source does not have it.
///
/// # Errors
/// Where a record contradicts those before it.
pub fn segments_after(
    base: &[SegmentState],
    records: &[Record],
) -> Result<Vec<SegmentState>, StateError> {
    let mut state = State::from_segments(base)?;
    records.iter().try_for_each(|record| state.apply(record))?;
    Ok(state.segments())
}

/// Writes a snapshot to `path`, where it appears when it is complete.
///
/// # Errors
/// When the file cannot be written.
pub fn write_snapshot(
    path: &Path,
    source: &SnapshotSource<'_>,
    format: Format,
) -> Result<(), ExportError> {
    let write = || -> io::Result<()> {
        let (file, commit) = Commit::begin(path)?;
        write_to(BufWriter::with_capacity(1 << 18, file), source, format)?;
        commit.finish()
    };
    write().map_err(|source| ExportError { path: path.to_owned(), source })
}

/// Writes a snapshot to `out`.
///
/// # Errors
/// When `out` does not take it.
pub fn write_to(out: impl Write, source: &SnapshotSource<'_>, format: Format) -> io::Result<()> {
    match format {
        Format::Pickle => {
            let mut pickler = pickler::Pickler::new(out)?;
            document::write(&mut pickler, source)?;
            pickler.finish().map(drop)
        }
        Format::Json => {
            let mut json = json::Json::new(out);
            document::write(&mut json, source)?;
            json.finish().map(drop)
        }
    }
}
