//! Opening a run: a tape, the ring of a process or another tool's file, distinguished by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use recorder::{RecoverError, is_ring, tape_of_ring};
use thiserror::Error;
use trace_format::{MAGIC, ReadError};

use super::Tape;
use crate::import::{self, ImportError, RunLimits};
use crate::source::{self, SourceError};

/// A run that cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened.
    #[error("cannot read {path}: {error}; {}", advice(.error))]
    Io {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// It is a folder.
    #[error(
        "{path} is a folder: name one of its runs, which `vramtape info {path}` lists; compare, waste, fit and tune \
         take the folder itself"
    )]
    Folder {
        /// The folder.
        path: String,
    },
    /// It holds nothing.
    #[error("{path} is empty: record the run again, or copy its file again")]
    Empty {
        /// The file.
        path: String,
    },
    /// It is an archive, such as `torch.save` writes.
    #[error(
        "{path} is a zip archive, such as a checkpoint of torch.save, and no run: record one with `vramtape run`, or \
         write a snapshot with torch.cuda.memory._dump_snapshot"
    )]
    Archive {
        /// The file.
        path: String,
    },
    /// It cannot be decompressed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It is a tape that cannot be read.
    #[error(transparent)]
    Tape(#[from] ReadError),
    /// It is a ring that cannot be read.
    #[error(transparent)]
    Ring(#[from] RecoverError),
    /// It is no tape, and nothing that can be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// How zip archives begin.
const ZIP: &[u8] = b"PK\x03\x04";

/// The remedy for a file that cannot be opened.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "you may not read it: change its permissions or copy it",
        _ => "check the name, or give - for standard input",
    }
}

impl Tape {
    /// Opens a tape, reads the ring of a process, living or killed, or imports what another tool wrote
    /// ([`crate::import::Origin`]; plain, zstd or gzip) with what is `known` about its run. `-` is standard input. Of a
    /// tape with a size limit (`tape_max`) the part before it, `PATH.1`, is read with it; by its own name, alone.
    ///
    /// # Errors
    /// Where the file cannot be read or is neither.
    pub fn open(path: impl AsRef<Path>, known: &RunLimits) -> Result<Self, OpenError> {
        let path = path.as_ref();
        if path == Path::new("-") {
            let failed = |error| OpenError::Io { path: "standard input".to_owned(), error };
            let mut input = io::stdin().lock();
            let start = input.fill_buf().map_err(failed)?;
            if start.starts_with(&MAGIC[..1]) {
                return Ok(Self::read_trusted(input, "standard input", known.trust_factor)?);
            }
            let input = source::read_from(input, path, known.trust_factor)?;
            if input.bytes.starts_with(&MAGIC[..1]) {
                let bytes = input.bytes.as_slice();
                return Ok(Self::read_trusted(bytes, "standard input", known.trust_factor)?);
            }
            return Ok(Self::of_import(import::import_bytes(input, path, known)?, known));
        }
        match Self::open_recorded(path, known.trust_factor)? {
            Some(tape) => Ok(tape),
            None => Self::import(path, known),
        }
    }

    /// Opens a tape or the ring of a process, plain, zstd or gzip; `None` where the file is neither. A tape may hold
    /// `trust_factor` times the usual limits for its size.
    ///
    /// # Errors
    /// Where it cannot be read, or surely is no run.
    pub fn open_recorded(path: &Path, trust_factor: u64) -> Result<Option<Self>, OpenError> {
        let name = path.display().to_string();
        if path.is_dir() {
            return Err(OpenError::Folder { path: name });
        }
        let failed = |error| OpenError::Io { path: name.clone(), error };
        let mut input = BufReader::new(File::open(path).map_err(failed)?);
        let start = input.fill_buf().map_err(failed)?;
        let is_named_tape = path.extension().is_some_and(|end| end == "vtape");
        if start.starts_with(&MAGIC[..1]) || (start.is_empty() && is_named_tape) {
            return Ok(Some(Self::read_parts(path, input, name, trust_factor)?));
        }
        if is_ring(start) {
            // The content is bounded by the ring's own size.
            let tape = tape_of_ring(path)?;
            let tape = Self::read_trusted(tape.as_slice(), name, u64::MAX)?;
            return Ok(Some(Self { trust_factor, ..tape }));
        }
        if start.is_empty() {
            return Err(OpenError::Empty { path: name });
        }
        if start.starts_with(ZIP) {
            return Err(OpenError::Archive { path: name });
        }
        if source::is_compressed(start) && source::read_start(path, 1)?.starts_with(&MAGIC[..1]) {
            return Ok(Some(Self::read_trusted(source::open(path)?, name, trust_factor)?));
        }
        Ok(None)
    }

    /// Whether a file is a run by its first bytes. A snapshot is one by the words it begins with, since other things
    /// are JSON or pickles too.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn is_run(path: &Path) -> Result<bool, SourceError> {
        let start = source::read_start(path, import::START_BYTES)?;
        Ok(start.starts_with(&MAGIC[..1]) || is_ring(&start) || import::is_run(&start))
    }

    fn import(path: &Path, known: &RunLimits) -> Result<Self, OpenError> {
        Ok(Self::of_import(import::import_file(path, known)?, known))
    }
}
