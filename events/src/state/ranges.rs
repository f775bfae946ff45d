//! The mapped ranges of a device, by address: segments, and the mapped runs of expandable segments.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use super::Problem;
use crate::event::Event;
use crate::ids::{Addr, PoolId, StackId, Stream};
use crate::segment::SegmentState;

/// A mapped range, without its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// Its size.
    pub size_bytes: u64,
    /// The stream it serves.
    pub stream: Stream,
    /// The pool it serves.
    pub pool: PoolId,
    /// Whether it serves large requests (over 1 MiB).
    pub is_large: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// Stack of the allocation that made it.
    pub stack: StackId,
}

impl MappedRange {
    /// The segment's, without its blocks.
    pub fn of(segment: &SegmentState) -> Self {
        let SegmentState { size_bytes, stream, pool, is_large, is_expandable, stack, .. } =
            *segment;
        Self { size_bytes, stream, pool, is_large, is_expandable, stack }
    }

    /// This range at `addr`, as a segment without blocks.
    pub fn at(&self, addr: Addr) -> SegmentState {
        let Self { size_bytes, stream, pool, is_large, is_expandable, stack } = *self;
        let blocks = Vec::new();
        SegmentState { addr, size_bytes, stream, pool, is_large, is_expandable, stack, blocks }
    }

    /// Whether both could be parts of one segment.
    fn is_like(&self, other: &Self) -> bool {
        let kind = |range: &Self| (range.stream, range.pool, range.is_large, range.is_expandable);
        kind(self) == kind(other)
    }
}

/// The effect of an event on the mapped memory.
#[derive(Clone, Copy, Debug)]
pub enum MappingChange {
    /// The range is mapped from here on.
    Map(Addr, MappedRange),
    /// The range is no longer mapped.
    Unmap(Addr, MappedRange),
}

impl MappingChange {
    /// `None` for events that map and unmap nothing.
    pub fn of(event: &Event, stack: StackId) -> Option<Self> {
        let (Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
        | Event::SegmentFree { addr, size_bytes, stream, pool, is_large }
        | Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
        | Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large }) = *event
        else {
            return None;
        };
        let is_expandable = matches!(event, Event::SegmentMap { .. } | Event::SegmentUnmap { .. });
        let range = MappedRange { size_bytes, stream, pool, is_large, is_expandable, stack };
        let is_map = matches!(event, Event::SegmentAlloc { .. } | Event::SegmentMap { .. });
        Some(if is_map { Self::Map(addr, range) } else { Self::Unmap(addr, range) })
    }

    /// The change that takes this one back.
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::Map(addr, range) => Self::Unmap(addr, range),
            Self::Unmap(addr, range) => Self::Map(addr, range),
        }
    }
}

/// What a change did to the ranges.
#[derive(Clone, Copy, Debug)]
pub enum RangeEdit {
    /// A range is new here, or has another size.
    Set(Addr, MappedRange),
    /// There is none here any more.
    Remove(Addr),
}

/// One past the last byte.
pub(super) fn end_of(addr: Addr, size_bytes: u64) -> Result<Addr, Problem> {
    match addr.0.checked_add(size_bytes) {
        Some(end) if size_bytes > 0 => Ok(Addr(end)),
        _ => Err(Problem::NoRange { addr, size_bytes }),
    }
}

/// Mapped ranges that never overlap. Like ranges of an expandable segment that touch are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappedRanges {
    by_addr: BTreeMap<Addr, MappedRange>,
    /// Ranges of each pool that has any.
    counts: BTreeMap<PoolId, usize>,
    bytes: u64,
}

impl MappedRanges {
    pub(super) fn is_empty(&self) -> bool {
        self.by_addr.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the pool has ranges.
    pub fn any_of(&self, pool: PoolId) -> bool {
        self.counts.contains_key(&pool)
    }

    /// The ranges from an address on, ascending, as segments without blocks.
    pub fn from(&self, addr: Addr) -> impl Iterator<Item = SegmentState> {
        self.by_addr.range(addr..).map(|(addr, range)| range.at(*addr))
    }

    /// Maps or unmaps a range.
    ///
    /// # Errors
    /// Where something is mapped there already, or something other than the range, which stays.
    pub(super) fn apply(&mut self, change: MappingChange) -> Result<(), Problem> {
        match change {
            MappingChange::Map(addr, range) => self.expect_unmapped(addr, range.size_bytes)?,
            MappingChange::Unmap(addr, range) => self.expect_mapped(addr, &range)?,
        }
        self.overwrite(change, &mut |_| ());
        Ok(())
    }

    /// Adds a range as it is, apart from like ones that it touches.
    pub(super) fn insert(&mut self, addr: Addr, range: MappedRange) -> Result<(), Problem> {
        self.expect_unmapped(addr, range.size_bytes)?;
        self.bytes += range.size_bytes;
        self.set(addr, range, &mut |_| ());
        Ok(())
    }

    /// Makes memory mapped or unmapped, whatever it was before, and reports the edits, additions first. A mapped range
    /// grows the like ranges that it touches; the leftmost one's stack stays.
    pub fn overwrite(&mut self, change: MappingChange, edit: &mut impl FnMut(RangeEdit)) {
        match change {
            MappingChange::Map(addr, range) => self.map(addr, range, edit),
            MappingChange::Unmap(addr, range) => self.unmap(addr, range.size_bytes, edit),
        }
    }

    /// The range that holds all of `size_bytes` bytes from `addr`.
    pub(super) fn find(
        &self,
        addr: Addr,
        size_bytes: u64,
    ) -> Result<(Addr, &MappedRange), Problem> {
        let end = end_of(addr, size_bytes)?;
        match self.by_addr.range(..=addr).next_back() {
            Some((&segment, range)) if end.0 <= segment.0 + range.size_bytes => {
                Ok((segment, range))
            }
            _ => Err(Problem::NotMapped { addr, size_bytes }),
        }
    }

    fn expect_unmapped(&self, addr: Addr, size_bytes: u64) -> Result<(), Problem> {
        let end = end_of(addr, size_bytes)?;
        match self.by_addr.range(..end).next_back() {
            Some((&segment, other)) if segment.0 + other.size_bytes > addr.0 => {
                Err(Problem::AlreadyMapped { addr, size_bytes, segment })
            }
            _ => Ok(()),
        }
    }

    /// That the range is a whole segment, or any part of a mapped run.
    fn expect_mapped(&self, addr: Addr, range: &MappedRange) -> Result<(), Problem> {
        let size_bytes = range.size_bytes;
        let (segment, found) = self.find(addr, size_bytes)?;
        let is_whole = segment == addr && found.size_bytes == size_bytes;
        if found.is_like(range) && (range.is_expandable || is_whole) {
            Ok(())
        } else {
            Err(Problem::OtherSegment { addr, size_bytes, segment })
        }
    }

    fn map(&mut self, addr: Addr, range: MappedRange, edit: &mut impl FnMut(RangeEdit)) {
        let Ok(end) = end_of(addr, range.size_bytes) else { return };
        self.unmap(addr, range.size_bytes, edit);
        self.bytes += range.size_bytes;
        let merges = |other: &MappedRange| range.is_expandable && other.is_like(&range);
        let next = self.by_addr.get(&end).copied().filter(merges);
        let size_bytes = range.size_bytes + next.map_or(0, |next| next.size_bytes);
        let before = self.by_addr.range(..addr).next_back().map(|(start, left)| (*start, *left));
        let (start, grown) = match before {
            Some((start, left)) if start.0 + left.size_bytes == addr.0 && merges(&left) => {
                (start, MappedRange { size_bytes: left.size_bytes + size_bytes, ..left })
            }
            _ => (addr, MappedRange { size_bytes, ..range }),
        };
        self.set(start, grown, edit);
        if next.is_some() {
            self.remove(end, edit);
        }
    }

    fn unmap(&mut self, addr: Addr, size_bytes: u64, edit: &mut impl FnMut(RangeEdit)) {
        let end = Addr(addr.0.saturating_add(size_bytes));
        while let Some((&start, &range)) = self.by_addr.range(..end).next_back()
            && start.0 + range.size_bytes > addr.0
        {
            let range_end = Addr(start.0 + range.size_bytes);
            self.bytes -= range_end.min(end).0 - start.max(addr).0;
            if range_end > end {
                let size_bytes = range_end.0 - end.0;
                self.set(end, MappedRange { size_bytes, ..range }, edit);
            }
            if start < addr {
                let size_bytes = addr.0 - start.0;
                self.set(start, MappedRange { size_bytes, ..range }, edit);
            } else {
                self.remove(start, edit);
            }
        }
    }

    fn set(&mut self, addr: Addr, range: MappedRange, edit: &mut impl FnMut(RangeEdit)) {
        if self.by_addr.insert(addr, range).is_none() {
            *self.counts.entry(range.pool).or_default() += 1;
        }
        edit(RangeEdit::Set(addr, range));
    }

    fn remove(&mut self, addr: Addr, edit: &mut impl FnMut(RangeEdit)) {
        if let Some(range) = self.by_addr.remove(&addr)
            && let Entry::Occupied(mut count) = self.counts.entry(range.pool)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        edit(RangeEdit::Remove(addr));
    }
}
