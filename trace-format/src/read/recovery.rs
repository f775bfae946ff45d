//! How a tape ends.

use std::fmt;

use crate::layout::ChunkKind;

/// How a tape ended, known when all of it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the index was there: the writer finished the tape.
    pub finished: bool,
    /// The part at the end that could not be read.
    pub torn: Option<Torn>,
    /// Chunks of a kind that this version does not know, skipped.
    pub unknown_chunks: u32,
}

/// A tail that holds no whole chunk: the writer was killed, its disk was full, or it is still writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where the tail starts, in bytes from the start of the file; all before was read.
    pub offset_bytes: u64,
    /// Bytes from there to the end of the file.
    pub lost_bytes: u64,
    /// The torn chunk's kind and number of items, where its header is whole.
    pub lost: Option<(ChunkKind, u32)>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.torn {
            None if self.finished => f.write_str("complete"),
            None => f.write_str("not finished; all that was written was read"),
            Some(Torn { offset_bytes, lost_bytes, .. }) if self.finished => {
                write!(
                    f,
                    "complete; {lost_bytes} bytes behind its end at byte {offset_bytes} ignored"
                )
            }
            Some(Torn { offset_bytes, lost_bytes, lost }) => {
                write!(f, "{lost_bytes} bytes from byte {offset_bytes} on are no whole chunk")?;
                match lost {
                    Some((ChunkKind::Events, records)) => write!(f, ": {records} records lost"),
                    _ => Ok(()),
                }
            }
        }?;
        match self.unknown_chunks {
            0 => Ok(()),
            count => write!(f, "; {count} chunks of a later version were skipped"),
        }
    }
}
