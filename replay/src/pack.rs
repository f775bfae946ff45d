//! Problems of dynamic storage allocation: minimalloc's, and the blocks of runs.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use packing::Buffer;
use thiserror::Error;
use trace_format::{Addr, BlockStatus, Event};

use crate::import::{self, ImportError, RunLimits};
use crate::source::{self, SourceError};
use crate::tape::Device;

/// Bytes of a file that show what it is.
const START_BYTES: u64 = 1 << 12;

/// Buffers with names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The names.
    pub names: Vec<String>,
    /// The buffers.
    pub buffers: Vec<Buffer>,
}

/// A problem that cannot be read.
#[derive(Debug, Error)]
pub enum ProblemError {
    /// The file cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It is no problem.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Its numbers are too large to add up.
    #[error(
        "the sizes and alignments of the buffers add up to 8 EiB or more: write them in larger units"
    )]
    TooLarge,
    /// Standard input is not minimalloc's.
    #[error(
        "standard input is no problem of minimalloc (CSV with its header): give a run as a file"
    )]
    NotMinimalloc,
}

/// Reads a problem of minimalloc; `None` where the file is something else.
///
/// # Errors
/// When it cannot be read, or its numbers are too large.
pub fn read(path: &Path, known: &RunLimits) -> Result<Option<Problem>, ProblemError> {
    let is_stdin = path == Path::new("-");
    if !is_stdin && !import::is_minimalloc(&source::read_start(path, START_BYTES)?) {
        return Ok(None);
    }
    let input = if is_stdin {
        source::read_from(io::stdin().lock(), path, known.trust_factor)?
    } else {
        source::read_all(path, known.trust_factor)?
    };
    if !import::is_minimalloc(&input.bytes) {
        return Err(ProblemError::NotMinimalloc);
    }
    let (names, buffers) = import::minimalloc_problem(&input, path, known)?;
    Problem { names, buffers }.checked().map(Some)
}

/// The blocks of a device of a run, by the numbers of their requests. Moments are records.
///
/// # Errors
/// When its numbers are too large.
pub fn blocks(device: &Device) -> Result<Problem, ProblemError> {
    let mut problem = Problem::default();
    let mut live: HashMap<Addr, usize> = HashMap::new();
    let last = device.records.len() as i64;
    let begin = |problem: &mut Problem, live: &mut HashMap<_, _>, at, addr, size_bytes| {
        live.insert(addr, problem.buffers.len());
        problem.names.push(problem.buffers.len().to_string());
        problem.buffers.push(Buffer { lower: at, upper: last, size_bytes, alignment_bytes: 512 });
    };
    for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
        if block.status != BlockStatus::Inactive {
            begin(&mut problem, &mut live, -1, block.addr, block.size_bytes);
        }
    }
    for (at, record) in (0..).zip(&device.records) {
        match record.event {
            Event::Alloc { addr, size_bytes, .. } => {
                begin(&mut problem, &mut live, at, addr, size_bytes);
            }
            Event::Free { addr, pending: false, .. } | Event::FreeCompleted { addr, .. } => {
                if let Some(buffer) = live.remove(&addr) {
                    problem.buffers[buffer].upper = at;
                }
            }
            _ => {}
        }
    }
    problem.checked()
}

impl Problem {
    fn checked(self) -> Result<Self, ProblemError> {
        let sizes = self.buffers.iter().map(|buffer| buffer.size_bytes + buffer.alignment_bytes);
        let sum = sizes.fold(0_u64, u64::saturating_add);
        if i64::try_from(sum).is_err() { Err(ProblemError::TooLarge) } else { Ok(self) }
    }
}
