//! The snapshot contract: PyTorch's viewer (`MemoryViz`) and `_memory_viz.py` can read a snapshot, and its whole trace
//! can be undone from the final segments. The program `snapshot-contract` checks it for tests in Python.

mod encoding;
mod fault;
mod history;
mod shape;

use std::path::Path;

use replay::import::is_json;
use replay::pickle::{self, Limits, PickleError};
use replay::snapshot::{self, SnapshotError};
use replay::source::{Input, SourceError, read_all};
use thiserror::Error;

pub use fault::{Fault, Faults, Rule};
pub use history::Span;

/// The fields that a snapshot must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The fields that every reader requires: every PyTorch's snapshots pass.
    Readable,
    /// The fields that any reader uses, which vramtape's snapshots have.
    Complete,
}

/// The findings.
#[derive(Clone, Debug)]
pub struct Report {
    /// The faults; none in a good snapshot.
    pub faults: Faults,
    /// Each device's memory before its first event and after its last.
    pub spans: Vec<Span>,
}

impl Report {
    /// Whether the snapshot has no faults.
    pub fn is_good(&self) -> bool {
        self.faults.total() == 0
    }
}

/// Input that is not a snapshot at all.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The file cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Not a pickle of plain data.
    #[error("not a readable pickle: {0}")]
    Pickle(#[from] PickleError),
    /// Not JSON.
    #[error("not readable JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Not a memory snapshot.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Checks a file, a pickle or JSON, compressed or not.
///
/// # Errors
/// When it cannot be read as a snapshot at all, or unpacks to more than files of its size do.
pub fn check_file(path: &Path, demand: Demand) -> Result<Report, CheckError> {
    let Input { bytes, stored_bytes } = read_all(path, 1)?;
    check_within(&bytes, Limits::of_file(stored_bytes, 1), demand)
}

/// Checks the bytes of a snapshot, a pickle or JSON.
///
/// # Errors
/// When they cannot be read as a snapshot at all.
pub fn check(bytes: &[u8], demand: Demand) -> Result<Report, CheckError> {
    check_within(bytes, Limits::default(), demand)
}

fn check_within(bytes: &[u8], limits: Limits, demand: Demand) -> Result<Report, CheckError> {
    let mut faults = Faults::default();
    let tree = if is_json(bytes) {
        pickle::read_json(bytes, limits)?
    } else {
        let tree = pickle::read(bytes, limits)?;
        encoding::check(bytes, &mut faults);
        tree
    };
    let snapshot = snapshot::from_tree(&tree)?;
    shape::check(&tree, demand, &mut faults);
    let spans = history::check(&snapshot, &mut faults);
    Ok(Report { faults, spans })
}
