//! Mapped memory over time: the ranges of addresses that the allocator held from the device.

use std::collections::BTreeMap;

use replay::tape::Device;
use trace_format::{Event, PoolId, Record, SegmentState, Stream};

use crate::chunk::{Arrays, Chunk};
use crate::follow::{Followed, NO_END};

/// A mapped range, or what is left of one from which pages were unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u32,
    end: u32,
    addr: u64,
    size_bytes: u64,
    owner: (PoolId, Stream),
    is_expandable: bool,
}

/// The ranges as a chunk; their owners are pools with their streams.
pub(crate) fn chunk(id: String, device: &Device, followed: &Followed) -> Chunk {
    let ranges = ranges(&device.base.segments, followed.others(&device.records));
    let owners = &followed.pool_streams;
    let owner = |range: &Range| owners.iter().position(|it| *it == range.owner).unwrap_or_default();
    let mut arrays = Arrays::default();
    arrays.rising(ranges.iter().map(|range| u64::from(range.start)));
    arrays.plain(ranges.iter().map(|range| match range.end {
        NO_END => 0,
        end => u64::from(end - range.start),
    }));
    arrays.bytes_delta(ranges.iter().map(|range| range.addr));
    arrays.bytes(ranges.iter().map(|range| range.size_bytes));
    arrays.plain(ranges.iter().map(|range| owner(range) as u64));
    arrays.plain(ranges.iter().map(|range| u64::from(range.is_expandable)));
    Chunk::of(id, &arrays)
}

/// The ranges in order of their starts: those of the start, and those of records at their moments.
fn ranges<'r>(
    base: &[SegmentState],
    records: impl Iterator<Item = (u32, &'r Record)>,
) -> Vec<Range> {
    let mut mapped = BTreeMap::new();
    let mut ended = Vec::new();
    for segment in base {
        mapped.insert(segment.addr.0, at_start(segment));
    }
    for (moment, record) in records {
        match record.event {
            Event::SegmentAlloc { addr, size_bytes, stream, pool, .. }
            | Event::SegmentMap { addr, size_bytes, stream, pool, .. } => {
                let (start, end, addr, owner) = (moment, NO_END, addr.0, (pool, stream));
                let is_expandable = matches!(record.event, Event::SegmentMap { .. });
                let range = Range { start, end, addr, size_bytes, owner, is_expandable };
                mapped.insert(addr, range);
            }
            Event::SegmentFree { addr, size_bytes, .. }
            | Event::SegmentUnmap { addr, size_bytes, .. } => {
                unmap(&mut mapped, &mut ended, moment, addr.0, size_bytes);
            }
            _ => {}
        }
    }
    ended.extend(mapped.into_values());
    ended.sort_by_key(|range| (range.start, range.addr));
    ended
}

fn at_start(segment: &SegmentState) -> Range {
    Range {
        start: 0,
        end: NO_END,
        addr: segment.addr.0,
        size_bytes: segment.size_bytes,
        owner: (segment.pool, segment.stream),
        is_expandable: segment.is_expandable,
    }
}

/// Ends the ranges within `size_bytes` from `addr`. What is left of one at either side goes on from here.
fn unmap(
    mapped: &mut BTreeMap<u64, Range>,
    ended: &mut Vec<Range>,
    moment: u32,
    addr: u64,
    size_bytes: u64,
) {
    let end = addr.saturating_add(size_bytes);
    let hit = mapped.range(..end).rev();
    let hit = hit.take_while(|(_, range)| range.addr.saturating_add(range.size_bytes) > addr);
    let hit: Vec<Range> = hit.map(|(_, range)| *range).collect();
    for range in hit {
        mapped.remove(&range.addr);
        ended.push(Range { end: moment, ..range });
        let range_end = range.addr.saturating_add(range.size_bytes);
        for (from, to) in [(range.addr, addr), (end, range_end)] {
            if from < to {
                let rest = Range { start: moment, addr: from, size_bytes: to - from, ..range };
                mapped.insert(from, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trace_format::{Addr, StackId, ThreadId};

    use super::*;

    fn records(events: &[Event]) -> Vec<Record> {
        let (thread, stack) = (ThreadId(1), StackId::NONE);
        events.iter().map(|event| Record { time_ns: 0, thread, stack, event: *event }).collect()
    }

    #[test]
    fn unmapped_pages_leave_what_lies_beside_them() {
        let (stream, pool, is_large) = (Stream(0), PoolId::DEFAULT, true);
        let map = |addr, size_bytes| Event::SegmentMap { addr, size_bytes, stream, pool, is_large };
        let unmap = Event::SegmentUnmap { addr: Addr(30), size_bytes: 50, stream, pool, is_large };
        let records = records(&[map(Addr(0), 40), map(Addr(40), 60), unmap]);
        let found = ranges(&[], (1..).zip(&records));
        let found: Vec<_> =
            found.iter().map(|it| (it.start, it.end, it.addr, it.size_bytes)).collect();
        let expected = [(1, 3, 0, 40), (2, 3, 40, 60), (3, NO_END, 0, 30), (3, NO_END, 80, 20)];
        assert_eq!(found, expected);
    }
}
