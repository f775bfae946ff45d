//! A run as tables, for DuckDB, pandas, Polars and whatever else reads Parquet or Arrow. `docs/export.md` lists the
//! columns.
//!
//! It is a crate of its own so that only the command carries Parquet's writer, and nothing that trains does.
#![forbid(unsafe_code)]

mod allocations;
mod records;
mod row;
mod series;
mod sink;
mod stacks;

use std::io;
use std::path::{Path, PathBuf};

use replay::snapshot::Stacks;
use replay::tape::Device;
use thiserror::Error;
use trace_format::DeviceId;

pub use series::Line;
pub use sink::{Format, Written};

/// The input of the tables.
pub struct Source<'t> {
    /// The devices.
    pub devices: Vec<&'t Device>,
    /// The text behind the records' string and stack ids.
    pub stacks: &'t Stacks,
    /// The memory of the devices over time, under one setting or several.
    pub lines: Vec<Line>,
}

/// The tables of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row a record.
    Records,
    /// One row an allocation, from its beginning to its end.
    Allocations,
    /// One row a stack.
    Stacks,
    /// One row a frame of a stack.
    Frames,
    /// One row a point of a line over time.
    Series,
}

/// The answer of what writes tables; of something else where the error is named.
pub type Result<T, E = TableError> = std::result::Result<T, E>;

/// A table that could not be written; no file is left behind.
#[derive(Debug, Error)]
pub enum TableError {
    /// The file cannot be written.
    #[error("cannot write {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The writer of its format refused.
    #[error("cannot write {path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A record contradicts those before it.
    #[error(
        "device {device}, record {record}: {reason}; the run contradicts itself: record it again"
    )]
    Contradiction {
        /// The device.
        device: DeviceId,
        /// Number of the record on its device, from 0.
        record: u64,
        /// The contradiction.
        reason: String,
    },
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Records, Self::Allocations, Self::Stacks, Self::Frames, Self::Series];

    /// Its name, and that of its file in a folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Allocations => "allocations",
            Self::Stacks => "stacks",
            Self::Frames => "frames",
            Self::Series => "series",
        }
    }

    /// Writes it under a temporary name; [`Written::finish`] gives it its own.
    ///
    /// # Errors
    /// When the file cannot be written, or the run contradicts itself.
    pub fn write(self, source: &Source<'_>, path: &Path, format: Format) -> Result<Written> {
        match self {
            Self::Records => records::write(source, path, format),
            Self::Allocations => allocations::write(source, path, format),
            Self::Stacks => stacks::write_stacks(source, path, format),
            Self::Frames => stacks::write_frames(source, path, format),
            Self::Series => series::write(source, path, format),
        }
    }
}
