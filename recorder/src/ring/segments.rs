//! The table of segments, and of the mapped runs of expandable ones: a row for each, written when the device is asked.
//!
//! What is added is written before what it replaces is cut, so that a
//! process killed in between leaves rows that hold too much, never too little; the last record says what to cut.

use std::sync::atomic::{AtomicU64, Ordering};

use events::{MappedRange, MappedRanges, MappingChange, RangeEdit};
use trace_format::{Addr, PoolId, SegmentState, StackId, Stream};

use super::layout::{HeaderField, Part, SEGMENT_WORDS};
use super::look::Look;
use super::mappings::{LOCK, Rows};
use super::protocol::store_all;
use super::region::Region;

const TAKEN: u64 = 1;
const LARGE: u64 = 2;
const EXPANDABLE: u64 = 4;

type Row = [AtomicU64; SEGMENT_WORDS];

/// The writer's side: the ranges, and the row of each.
#[derive(Debug, Default)]
pub(super) struct Table {
    ranges: MappedRanges,
    rows: Rows,
}

impl Table {
    /// Appends at most `max` ranges from an address on, and returns the address to go on from; `None` at the end.
    pub(super) fn ranges_from(
        &self,
        addr: u64,
        max: usize,
        into: &mut Vec<SegmentState>,
    ) -> Option<u64> {
        let mut ranges = self.ranges.from(Addr(addr));
        into.extend(ranges.by_ref().take(max));
        ranges.next().map(|segment| segment.addr.0)
    }

    /// Whether the pool has segments.
    pub(super) fn any_of(&self, pool: PoolId) -> bool {
        self.ranges.any_of(pool)
    }

    /// Enters a change whose record was published.
    pub(super) fn apply(&mut self, region: &Region, change: MappingChange) {
        let mut ranges = std::mem::take(&mut self.ranges);
        LOCK.write(region.words(), || {
            ranges.overwrite(change, &mut |edit| match edit {
                RangeEdit::Set(addr, range) => self.set(region, addr, &range),
                RangeEdit::Remove(addr) => self.remove(region, addr),
            });
        });
        self.ranges = ranges;
    }

    fn set(&mut self, region: &Region, addr: Addr, range: &MappedRange) {
        let rows = region.rows::<SEGMENT_WORDS>(Part::Segments);
        if let Some(at) = self.rows.get(addr) {
            // The rest stays: only a range's size changes in place.
            if let Some(row) = rows.get(at) {
                row[2].store(range.size_bytes, Ordering::Relaxed);
            }
            return;
        }
        match rows.get(self.rows.begin(addr)) {
            Some(row) => store(row, addr, range),
            None => region.count_missing(HeaderField::SegmentsMissing, 1),
        }
    }

    fn remove(&mut self, region: &Region, addr: Addr) {
        let Some(at) = self.rows.end(addr) else { return };
        match region.rows::<SEGMENT_WORDS>(Part::Segments).get(at) {
            Some(row) => row[0].store(0, Ordering::Relaxed),
            None => region.count_missing(HeaderField::SegmentsMissing, -1),
        }
    }
}

fn store(row: &Row, addr: Addr, range: &MappedRange) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = TAKEN | flag(range.is_large, LARGE) | flag(range.is_expandable, EXPANDABLE);
    let words = [addr.0, range.size_bytes, range.stream.0, range.pool.0, range.pool.1];
    store_all(&row[1..], &words);
    row[0].store(flags | u64::from(range.stack.0) << 32, Ordering::Release);
}

/// The rows in use, to be read under the lock.
pub(super) fn rows(look: &impl Look) -> Vec<(Addr, MappedRange)> {
    let mut rows = Vec::new();
    look.each_row(Part::Segments, |row| rows.extend(range_of(row)));
    rows
}

/// The ranges of the rows.
pub(super) fn ranges_of(mut rows: Vec<(Addr, MappedRange)>) -> MappedRanges {
    rows.sort_unstable_by_key(|(addr, _)| *addr);
    let mut ranges = MappedRanges::default();
    for (addr, range) in rows {
        ranges.overwrite(MappingChange::Map(addr, range), &mut |_| ());
    }
    ranges
}

fn range_of(row: [u64; SEGMENT_WORDS]) -> Option<(Addr, MappedRange)> {
    let [head, addr, size_bytes, stream, major, minor, ..] = row;
    let range = MappedRange {
        size_bytes,
        stream: Stream(stream),
        pool: PoolId(major, minor),
        is_large: head & LARGE != 0,
        is_expandable: head & EXPANDABLE != 0,
        stack: StackId((head >> 32) as u32),
    };
    (head & TAKEN != 0).then_some((Addr(addr), range))
}

#[cfg(test)]
mod tests {
    use trace_format::{Event, Record, State, ThreadId};

    use super::super::layout::Shape;
    use super::super::mappings;
    use super::*;

    const PAGE: u64 = 2 << 20;

    fn region() -> Region {
        Region::anonymous(Shape::new(64, 0)).unwrap()
    }

    fn event(is_map: bool, page: u64, pages: u64) -> Event {
        let (addr, size_bytes) = (Addr(page * PAGE), pages * PAGE);
        let (stream, pool, is_large) = (Stream(3), PoolId(0, 1), true);
        if is_map {
            Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
        } else {
            Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large }
        }
    }

    fn change(event: &Event) -> MappingChange {
        MappingChange::of(event, StackId(9)).unwrap()
    }

    fn in_pages(segment: &SegmentState) -> (u64, u64) {
        (segment.addr.0 / PAGE, segment.size_bytes / PAGE)
    }

    fn read(region: &Region, may_be_unfinished: bool) -> Option<MappedRanges> {
        mappings::read(region, may_be_unfinished).map(|(ranges, _)| ranges)
    }

    fn as_seen(ranges: &MappedRanges) -> Vec<(u64, u64)> {
        ranges.from(Addr(0)).map(|segment| in_pages(&segment)).collect()
    }

    proptest::proptest! {
        #[test]
        fn the_table_is_what_the_events_led_to(pages in proptest::collection::vec((0..40_u64, 1..6_u64), 1..60)) {
            let (region, mut table, mut state) = (region(), Table::default(), State::new());
            for (page, count) in pages {
                for is_map in [true, false] {
                    let event = event(is_map, page, count);
                    let (time_ns, thread, stack) = (0, ThreadId(0), StackId(9));
                    if state.apply(&Record { time_ns, thread, stack, event }).is_ok() {
                        table.apply(&region, change(&event));
                        break;
                    }
                }
                let ranges = read(&region, false).expect("nothing is under way");
                let expected: Vec<_> = state.segments().iter().map(in_pages).collect();
                proptest::prop_assert_eq!(as_seen(&ranges), expected);
            }
        }
    }

    #[test]
    fn a_change_that_was_killed_in_the_middle_is_finished_by_doing_it_again() {
        let region = region();
        let mut table = Table::default();
        table.apply(&region, change(&event(true, 0, 10)));
        // Pages 4 and 5 go: the row for what is behind them is there, the one before them is not cut yet.
        region.set(HeaderField::MappingsVersion, 3);
        let rest = event(true, 6, 4);
        let MappingChange::Map(addr, range) = change(&rest) else { panic!("{rest:?}") };
        table.set(&region, addr, &range);
        assert_eq!(read(&region, false), None);
        let mut ranges = read(&region, true).unwrap();
        ranges.overwrite(change(&event(false, 4, 2)), &mut |_| ());
        assert_eq!(as_seen(&ranges), [(0, 4), (6, 4)]);
    }

    #[test]
    fn segments_beyond_the_table_are_counted_as_missing() {
        let region = region();
        let mut table = Table::default();
        let rows = region.rows::<SEGMENT_WORDS>(Part::Segments).len() as u64;
        (0..rows + 3).for_each(|n| table.apply(&region, change(&event(true, 2 * n, 1))));
        assert_eq!(region.get(HeaderField::SegmentsMissing), 3);
        (0..rows + 3).for_each(|n| table.apply(&region, change(&event(false, 2 * n, 1))));
        assert_eq!(region.get(HeaderField::SegmentsMissing), 0);
        assert_eq!(as_seen(&read(&region, false).unwrap()), []);
    }

    #[test]
    fn a_segment_beyond_the_table_that_grows_is_missing_once() {
        let region = region();
        let mut table = Table::default();
        let rows = region.rows::<SEGMENT_WORDS>(Part::Segments).len() as u64;
        (0..=rows).for_each(|n| table.apply(&region, change(&event(true, 3 * n, 1))));
        table.apply(&region, change(&event(true, 3 * rows + 1, 1)));
        assert_eq!(region.get(HeaderField::SegmentsMissing), 1);
        table.apply(&region, change(&event(false, 3 * rows, 2)));
        assert_eq!(region.get(HeaderField::SegmentsMissing), 0);
    }
}
