//! Opening a run: a tape, the ring of a process or another tool's file, told apart by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use allocator::record::{RecoverError, RingReader, is_ring, tape_of_ring};
use thiserror::Error;
use trace_format::{EndKind, MAGIC, ProgramEnd, ReadError};

use super::Tape;
use crate::import::{self, ImportError, Known};
use crate::source::{self, SourceError};

/// A run that cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened.
    #[error("cannot read {path}: {error}; check the name, or give - for standard input")]
    Io {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
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

impl Tape {
    /// Opens a tape, reads the ring of a process, living or killed, or imports what another tool wrote
    /// ([`crate::import::Origin`]; plain, zstd or gzip) with what is `known` about its run. `-` is standard input. Of a
    /// tape with a size limit (`tape_max`) the part before it, `PATH.1`, is read with it; by its own name, alone.
    ///
    /// # Errors
    /// Where the file cannot be read or is neither.
    pub fn open(path: impl AsRef<Path>, known: &Known) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let failed = |error| OpenError::Io { path: name.clone(), error };
        if path == Path::new("-") {
            // What this lock reads ahead stays in the process's one buffer, for the import to read again.
            let mut input = io::stdin().lock();
            if input.fill_buf().map_err(failed)?.starts_with(&MAGIC[..1]) {
                return Ok(Self::read(input, "standard input")?);
            }
            drop(input);
            return Self::import(path, known);
        }
        let mut input = BufReader::new(File::open(path).map_err(failed)?);
        let start = input.fill_buf().map_err(failed)?;
        let is_empty_tape = start.is_empty() && path.extension().is_some_and(|end| end == "vtape");
        if start.starts_with(&MAGIC[..1]) || is_empty_tape {
            return Ok(Self::read_parts(path, input, name)?);
        }
        if is_ring(start) {
            let mut tape = Self::read(tape_of_ring(path)?.as_slice(), name)?;
            if RingReader::open(path).map_err(RecoverError::from)?.is_live() {
                let kind = EndKind::RecordingStopped;
                tape.meta.end.get_or_insert(ProgramEnd { kind, ..ProgramEnd::default() });
            }
            return Ok(tape);
        }
        Self::import(path, known)
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

    fn import(path: &Path, known: &Known) -> Result<Self, OpenError> {
        Ok(Self::of_import(import::import_file(path, known)?, known))
    }
}
