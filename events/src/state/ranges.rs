//! The mapped ranges of a device, by address: segments, and the mapped runs of expandable segments.

use alloc::collections::BTreeMap;

use super::Problem;
use crate::ids::{Addr, PoolId, StackId, Stream};

/// A mapped range, without its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) size_bytes: u64,
    pub(super) stream: Stream,
    pub(super) pool: PoolId,
    pub(super) is_large: bool,
    pub(super) is_expandable: bool,
    pub(super) stack: StackId,
}

impl Range {
    /// Whether both could be parts of one segment.
    fn is_like(&self, other: &Self) -> bool {
        self.stream == other.stream
            && self.pool == other.pool
            && self.is_large == other.is_large
            && self.is_expandable == other.is_expandable
    }
}

/// One past the last byte.
pub(super) fn end_of(addr: Addr, size_bytes: u64) -> Result<Addr, Problem> {
    match addr.0.checked_add(size_bytes) {
        Some(end) if size_bytes > 0 => Ok(Addr(end)),
        _ => Err(Problem::NoRange { addr, size_bytes }),
    }
}

/// Mapped ranges that never overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    by_addr: BTreeMap<Addr, Range>,
    bytes: u64,
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.by_addr.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All ranges, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Addr, &Range)> {
        self.by_addr.iter().map(|(&addr, range)| (addr, range))
    }

    /// The range that holds all of `size_bytes` bytes from `addr`.
    pub(super) fn holding(&self, addr: Addr, size_bytes: u64) -> Result<&Range, Problem> {
        self.find(addr, size_bytes).map(|(_, range)| range)
    }

    /// Adds a range as it is.
    pub(super) fn insert(&mut self, addr: Addr, range: Range) -> Result<(), Problem> {
        let end = end_of(addr, range.size_bytes)?;
        if let Some((&segment, other)) = self.by_addr.range(..end).next_back()
            && segment.0 + other.size_bytes > addr.0
        {
            let size_bytes = range.size_bytes;
            return Err(Problem::AlreadyMapped { addr, size_bytes, segment });
        }
        self.by_addr.insert(addr, range);
        self.bytes += range.size_bytes;
        Ok(())
    }

    /// Adds a range; an expandable one grows the like runs that it touches. The leftmost run's stack stays.
    pub(super) fn map(&mut self, addr: Addr, range: Range) -> Result<(), Problem> {
        self.insert(addr, range)?;
        if range.is_expandable {
            self.merge_with_next(addr);
            if let Some((&previous, _)) = self.by_addr.range(..addr).next_back() {
                self.merge_with_next(previous);
            }
        }
        Ok(())
    }

    /// Takes a range away: a whole segment, or any part of a mapped run, whose rest stays.
    pub(super) fn unmap(&mut self, addr: Addr, range: Range) -> Result<(), Problem> {
        let size_bytes = range.size_bytes;
        let (segment, found) = self.find(addr, size_bytes)?;
        let found = *found;
        let whole = segment == addr && found.size_bytes == size_bytes;
        if !found.is_like(&range) || !(range.is_expandable || whole) {
            return Err(Problem::OtherSegment { addr, size_bytes, segment });
        }
        self.by_addr.remove(&segment);
        self.bytes -= size_bytes;
        let before_bytes = addr.0 - segment.0;
        let after_bytes = found.size_bytes - before_bytes - size_bytes;
        if before_bytes > 0 {
            self.by_addr.insert(segment, Range { size_bytes: before_bytes, ..found });
        }
        if after_bytes > 0 {
            let after = Addr(addr.0 + size_bytes);
            self.by_addr.insert(after, Range { size_bytes: after_bytes, ..found });
        }
        Ok(())
    }

    pub(super) fn find(&self, addr: Addr, size_bytes: u64) -> Result<(Addr, &Range), Problem> {
        let end = end_of(addr, size_bytes)?;
        match self.by_addr.range(..=addr).next_back() {
            Some((&segment, range)) if end.0 <= segment.0 + range.size_bytes => {
                Ok((segment, range))
            }
            _ => Err(Problem::NotMapped { addr, size_bytes }),
        }
    }

    fn merge_with_next(&mut self, addr: Addr) {
        let Some(&range) = self.by_addr.get(&addr) else { return };
        let next_addr = Addr(addr.0 + range.size_bytes);
        let Some(&next) = self.by_addr.get(&next_addr) else { return };
        if range.is_like(&next) {
            self.by_addr.remove(&next_addr);
            let size_bytes = range.size_bytes + next.size_bytes;
            self.by_addr.insert(addr, Range { size_bytes, ..range });
        }
    }
}
