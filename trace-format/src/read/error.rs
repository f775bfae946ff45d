//! Why a tape could not be read, where, and what to do next.

use std::{fmt, io};

use crate::{
    Problem,
    bounds::TooMuch,
    layout::{FIRST_VERSION, VERSION},
    varint::Malformed,
};

/// A tape that cannot be read, or not beyond some byte. Earlier items stay valid.
#[derive(Debug)]
pub struct ReadError {
    /// The file's path, or the name given to the reader.
    pub name: String,
    /// Where the chunk in question starts, in bytes from the start of the file.
    pub offset_bytes: u64,
    /// How many chunks stand before it.
    pub chunk: u32,
    /// Why.
    pub cause: ReadCause,
}

/// Why a tape could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadCause {
    /// The system refused.
    #[error("{0}")]
    Io(io::Error),
    /// The file starts with something else.
    #[error("this is no vramtape tape")]
    NotATape,
    /// Line ends in the file's first bytes were changed.
    #[error("the file was copied as text, which destroyed it")]
    CopiedAsText,
    /// The file header's checksum is wrong.
    #[error("the file header is damaged")]
    HeaderDamaged,
    /// The file has a version that this program does not read: a later one, or the unreleased version 1.
    #[error(
        "the tape has version {0}, and this program reads versions {FIRST_VERSION} to {VERSION}"
    )]
    Version(u32),
    /// The first chunk is not there, or not whole.
    #[error("the recording ended before its first chunk was written")]
    Empty,
    /// A chunk is damaged, and whole ones follow: this is no torn tail.
    #[error("the chunk is damaged, although more follow at byte {next_offset_bytes}")]
    Damaged {
        /// Where the next whole chunk header is.
        next_offset_bytes: u64,
    },
    /// A chunk's number does not match its place.
    #[error("this is chunk {found}: chunks are missing or out of order")]
    Sequence {
        /// The number it has.
        found: u32,
    },
    /// The chunk is packed in a way that this version does not know.
    #[error("the chunk is packed in a way that this program does not know")]
    Packing,
    /// The chunk's checksum is right, and yet it does not unpack to its length.
    #[error("the chunk does not unpack")]
    Unpack,
    /// The tape holds more than a recorded one of its size does.
    #[error("{0}")]
    TooMuch(TooMuch),
    /// The chunk's checksum is right, and yet the state of memory in it contradicts itself.
    #[error("the chunk makes no sense: {0}")]
    Contradiction(Problem),
    /// The chunk is well-formed, but contradicts earlier chunks.
    #[error("the chunk makes no sense: {0}")]
    Refused(String),
    /// The chunk's checksum is right, and yet its contents make no sense.
    #[error("the chunk makes no sense: {0}")]
    Malformed(Malformed),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, offset_bytes, chunk, cause } = self;
        write!(f, "cannot read {name}: chunk {chunk} at byte {offset_bytes}: {cause}")?;
        if !matches!(cause, ReadCause::TooMuch(_)) {
            f.write_str("; ")?;
        }
        match cause {
            ReadCause::TooMuch(_) => Ok(()), // Its text has the remedy.
            ReadCause::Io(_) => f.write_str("check that the file can be read, then try again"),
            ReadCause::NotATape => f.write_str(
                "give a .vtape file (`vramtape import` makes one of a PyTorch snapshot)",
            ),
            ReadCause::CopiedAsText => f.write_str("copy it again in binary mode"),
            ReadCause::HeaderDamaged => f.write_str("take another copy of the file"),
            ReadCause::Version(..FIRST_VERSION) => f.write_str("no release wrote it: record again"),
            ReadCause::Version(_) | ReadCause::Packing => f.write_str("use a newer vramtape"),
            ReadCause::Empty => f.write_str("nothing can be recovered: record again"),
            ReadCause::Damaged { .. }
            | ReadCause::Sequence { .. }
            | ReadCause::Unpack
            | ReadCause::Contradiction(_)
            | ReadCause::Refused(_)
            | ReadCause::Malformed(_) => write!(
                f,
                "take another copy, or keep the part before it: head -c {offset_bytes} {name} > part.vtape"
            ),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            ReadCause::Io(e) => Some(e),
            ReadCause::Malformed(e) => Some(e),
            ReadCause::Contradiction(e) => Some(e),
            _ => None,
        }
    }
}
