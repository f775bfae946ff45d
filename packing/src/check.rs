//! Whether a packing is one. Shares no code with the packers.

use std::collections::BTreeMap;

use crate::Buffer;

/// Two buffers that overlap, or one that is misplaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Not as many offsets as buffers.
    Count,
    /// The offset of this buffer is not aligned.
    Alignment(usize),
    /// These two buffers live at the same time, and share a byte.
    Overlap(usize, usize),
}

/// Sweeps the moments at which buffers begin and end, with the bytes in use by offset.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(buffers: &[Buffer], offsets: &[u64]) -> Result<(), Wrong> {
    if buffers.len() != offsets.len() {
        return Err(Wrong::Count);
    }
    let mut moments: Vec<(i64, bool, usize)> = Vec::new();
    for (at, buffer) in buffers.iter().enumerate() {
        if !offsets[at].is_multiple_of(buffer.alignment_bytes) {
            return Err(Wrong::Alignment(at));
        }
        if buffer.size_bytes > 0 {
            moments.extend([(buffer.lower, true, at), (buffer.upper, false, at)]);
        }
    }
    moments.sort_unstable();
    let mut used: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (_, begins, at) in moments {
        let (start, end) = (offsets[at], offsets[at] + buffers[at].size_bytes);
        if !begins {
            used.remove(&start);
            continue;
        }
        if let Some((_, (_, other))) =
            used.range(..end).next_back().filter(|(_, (other_end, _))| *other_end > start)
        {
            return Err(Wrong::Overlap(*other, at));
        }
        used.insert(start, (end, at));
    }
    Ok(())
}
