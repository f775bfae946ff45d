//! Checks a snapshot against what its readers rely on: PyTorch's viewer (`MemoryViz`), `_memory_viz.py`, and the
//! invariant that the whole trace can be undone from the final segments.

mod encoding;
mod fault;
mod history;
mod shape;

use thiserror::Error;

use crate::import::is_json;
use crate::pickle::{self, Limits, PickleError};
use crate::snapshot::{self, SnapshotError};

pub use fault::{Fault, FaultGroup, Faults, Rule};
pub use history::Span;

/// How much a snapshot has to offer.
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
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.faults.total() == 0
    }
}

/// Bytes that are not a snapshot at all.
#[derive(Debug, Error)]
pub enum CheckError {
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

/// Checks the bytes of a snapshot, a pickle or JSON.
///
/// # Errors
/// When they cannot be read as a snapshot at all.
pub fn check(bytes: &[u8], demand: Demand) -> Result<Report, CheckError> {
    check_within(bytes, Limits::default(), demand)
}

/// The same where the file may hold no more than `limits`.
///
/// # Errors
/// As [`check`], and where it holds more.
pub fn check_within(bytes: &[u8], limits: Limits, demand: Demand) -> Result<Report, CheckError> {
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
