//! Why a tape could not be written.

use std::io;
use std::path::Path;

/// A tape could not be written, or not finished.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {name}: {cause}")]
pub struct WriteError {
    /// The file's path, or the name given to the writer.
    pub name: String,
    /// Why.
    pub cause: WriteCause,
}

/// Why a tape could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteCause {
    /// It could not be begun.
    #[error("{0}; name a file in a folder that is there and that you may write to")]
    Create(io::Error),
    /// The system refused.
    #[error("{0}; the part written before stays readable")]
    Io(io::Error),
    /// The system refused an earlier write, and a chunk behind a torn one would be damage.
    #[error("an earlier write failed; start another tape")]
    Stopped,
    /// Something does not fit a chunk.
    #[error(
        "{what} of {size_bytes} bytes is too large, a chunk holds {max_bytes}; leave it out or cut it"
    )]
    TooLarge {
        /// The kind of item.
        what: &'static str,
        /// Its size.
        size_bytes: u64,
        /// Most that fits.
        max_bytes: u64,
    },
    /// The statistics of a base state are not JSON.
    #[error("a state's statistics are not JSON: {0}")]
    NotJson(serde_json::Error),
    /// No reader would take more strings and stacks than the tape has.
    #[error(
        "the tape has all the strings and stacks that a reader takes; write none, or another tape"
    )]
    TablesFull,
    /// A record names a string or a stack that this writer did not intern.
    #[error("{what} {id} was not interned by this writer; map ids of other tapes first")]
    Undefined {
        /// `string` or `stack`.
        what: &'static str,
        /// The id.
        id: u32,
    },
    /// The blocks of a base state leave gaps in their segment, or overlap.
    #[error("the base state is none: {0}")]
    Base(crate::StateError),
    /// The tape's description is no JSON (a number that is none).
    #[error("the tape's description cannot be written as JSON: {0}")]
    Json(serde_json::Error),
}

impl WriteError {
    /// The file at `path` could not be begun.
    pub fn create(path: &Path, error: io::Error) -> Self {
        Self { name: path.display().to_string(), cause: WriteCause::Create(error) }
    }
}

/// Adds the name of what was being written.
pub(super) fn named<T>(name: &str, result: io::Result<T>) -> Result<T, WriteError> {
    result.map_err(|e| WriteError { name: name.to_owned(), cause: WriteCause::Io(e) })
}
