//! The table of segments, and of the mapped runs of expandable ones: a row for each, written when the device is asked.
//!
//! What is added is written before what it replaces is cut, so that a
//! process killed in between leaves rows that hold too much, never too little; the last record says what to cut.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};

use trace_format::{Addr, Event, PoolId, SegmentState, StackId, Stream};

use super::layout::{HeaderField, Part, SEGMENT_WORDS};
use super::look::Look;
use super::protocol::seq_lock::SeqLock;
use super::protocol::store_all;
use super::region::Region;

const TAKEN: u64 = 1;
const LARGE: u64 = 2;
const EXPANDABLE: u64 = 4;

/// Around all rows.
const LOCK: SeqLock = SeqLock { version_at: HeaderField::SegmentsVersion as usize };

type Row = [AtomicU64; SEGMENT_WORDS];

/// A mapped run of memory, without its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) size_bytes: u64,
    pub(super) stream: Stream,
    pub(super) pool: PoolId,
    pub(super) is_large: bool,
    pub(super) is_expandable: bool,
    pub(super) stack: StackId,
}

impl Run {
    /// The segment's.
    pub(super) fn of(segment: &SegmentState) -> Self {
        let SegmentState { size_bytes, stream, pool, is_large, is_expandable, stack, .. } =
            *segment;
        Self { size_bytes, stream, pool, is_large, is_expandable, stack }
    }

    /// As a segment without blocks.
    pub(super) fn at(&self, addr: u64) -> SegmentState {
        let Self { size_bytes, stream, pool, is_large, is_expandable, stack } = *self;
        let (addr, blocks) = (Addr(addr), Vec::new());
        SegmentState { addr, size_bytes, stream, pool, is_large, is_expandable, stack, blocks }
    }

    /// Whether both could be parts of one segment.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let kind = |run: &Self| (run.stream, run.pool, run.is_large, run.is_expandable);
        self.is_expandable && kind(self) == kind(other)
    }
}

/// What an event does to the mapped memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// Memory is there from here on.
    Map(u64, Run),
    /// As many bytes from an address on are gone.
    Unmap(u64, u64),
}

impl Change {
    /// `None` for events that map and unmap nothing.
    pub(super) fn of(event: &Event, stack: StackId) -> Option<Self> {
        let is_expandable = matches!(event, Event::SegmentMap { .. });
        match *event {
            Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
            | Event::SegmentMap { addr, size_bytes, stream, pool, is_large } => {
                let run = Run { size_bytes, stream, pool, is_large, is_expandable, stack };
                Some(Self::Map(addr.0, run))
            }
            Event::SegmentFree { addr, size_bytes, .. }
            | Event::SegmentUnmap { addr, size_bytes, .. } => Some(Self::Unmap(addr.0, size_bytes)),
            _ => None,
        }
    }
}

/// Runs by address, which never overlap. Like runs of an expandable segment that touch are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(BTreeMap<u64, Run>);

/// What a change did to the runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    /// A run is new here, or has another size.
    Set(u64, Run),
    /// There is none here any more.
    Remove(u64),
}

impl Runs {
    /// In order of address.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (u64, Run)> {
        self.0.into_iter()
    }

    /// Makes memory mapped or unmapped whatever it was before; says how, additions first.
    pub(super) fn apply(&mut self, change: Change, edit: &mut impl FnMut(Edit)) {
        match change {
            Change::Map(addr, run) => self.map(addr, run, edit),
            Change::Unmap(addr, size_bytes) => self.unmap(addr, size_bytes, edit),
        }
    }

    fn map(&mut self, addr: u64, run: Run, edit: &mut impl FnMut(Edit)) {
        let Some(end) = addr.checked_add(run.size_bytes).filter(|end| *end > addr) else { return };
        self.unmap(addr, run.size_bytes, edit);
        let next = self.0.get(&end).copied().filter(|next| run.is_like(next));
        let size_bytes = run.size_bytes + next.map_or(0, |next| next.size_bytes);
        let before = self.0.range(..addr).next_back().map(|(start, run)| (*start, *run));
        let (start, grown) = match before {
            Some((start, left)) if start + left.size_bytes == addr && left.is_like(&run) => {
                (start, Run { size_bytes: left.size_bytes + size_bytes, ..left })
            }
            _ => (addr, Run { size_bytes, ..run }),
        };
        self.0.insert(start, grown);
        edit(Edit::Set(start, grown));
        if next.is_some() {
            self.0.remove(&end);
            edit(Edit::Remove(end));
        }
    }

    fn unmap(&mut self, addr: u64, size_bytes: u64, edit: &mut impl FnMut(Edit)) {
        let end = addr.saturating_add(size_bytes);
        while let Some((start, run)) = self.0.range(..end).next_back().map(|(at, run)| (*at, *run))
            && start + run.size_bytes > addr
        {
            let run_end = start + run.size_bytes;
            if run_end > end {
                let rest = Run { size_bytes: run_end - end, ..run };
                self.0.insert(end, rest);
                edit(Edit::Set(end, rest));
            }
            if start < addr {
                let rest = Run { size_bytes: addr - start, ..run };
                self.0.insert(start, rest);
                edit(Edit::Set(start, rest));
            } else {
                self.0.remove(&start);
                edit(Edit::Remove(start));
            }
        }
    }
}

/// The writer's side: the runs, and the row of each.
#[derive(Debug, Default)]
pub(super) struct Table {
    runs: Runs,
    rows: BTreeMap<u64, (usize, PoolId)>,
    /// Runs of each pool that has any.
    counts: BTreeMap<PoolId, usize>,
    vacant: Vec<usize>,
    rows_used: usize,
}

impl Table {
    /// Appends at most `max` runs from an address on, and returns the address to go on from; `None` at the end.
    pub(super) fn runs_from(
        &self,
        addr: u64,
        max: usize,
        into: &mut Vec<SegmentState>,
    ) -> Option<u64> {
        let mut runs = self.runs.0.range(addr..);
        into.extend(runs.by_ref().take(max).map(|(addr, run)| run.at(*addr)));
        runs.next().map(|(addr, _)| *addr)
    }

    /// Whether the pool has segments.
    pub(super) fn any_of(&self, pool: PoolId) -> bool {
        self.counts.contains_key(&pool)
    }

    /// Enters a change whose record was published.
    pub(super) fn apply(&mut self, region: &Region, change: Change) {
        let mut runs = std::mem::take(&mut self.runs);
        LOCK.write(region.words(), || {
            runs.apply(change, &mut |edit| match edit {
                Edit::Set(addr, run) => self.set(region, addr, &run),
                Edit::Remove(addr) => self.remove(region, addr),
            });
        });
        self.runs = runs;
    }

    fn set(&mut self, region: &Region, addr: u64, run: &Run) {
        let rows = region.rows::<SEGMENT_WORDS>(Part::Segments);
        if let Some(row) = self.rows.get(&addr) {
            // The rest stays: only a run's size changes in place.
            if let Some(row) = rows.get(row.0) {
                row[2].store(run.size_bytes, Ordering::Relaxed);
            }
            return;
        }
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.rows_used += 1;
            self.rows_used - 1
        });
        self.rows.insert(addr, (at, run.pool));
        *self.counts.entry(run.pool).or_default() += 1;
        match rows.get(at) {
            Some(row) => store(row, addr, run),
            None => region
                .set(HeaderField::SegmentsMissing, region.get(HeaderField::SegmentsMissing) + 1),
        }
    }

    fn remove(&mut self, region: &Region, addr: u64) {
        let Some((at, pool)) = self.rows.remove(&addr) else { return };
        if let Entry::Occupied(mut count) = self.counts.entry(pool) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.vacant.push(at);
        match region.rows::<SEGMENT_WORDS>(Part::Segments).get(at) {
            Some(row) => row[0].store(0, Ordering::Relaxed),
            None => region
                .set(HeaderField::SegmentsMissing, region.get(HeaderField::SegmentsMissing) - 1),
        }
    }
}

fn store(row: &Row, addr: u64, run: &Run) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = TAKEN | flag(run.is_large, LARGE) | flag(run.is_expandable, EXPANDABLE);
    let words = [addr, run.size_bytes, run.stream.0, run.pool.0, run.pool.1];
    store_all(&row[1..], &words);
    row[0].store(flags | u64::from(run.stack.0) << 32, Ordering::Release);
}

/// The runs in the table; `None` while it changes. Of a dead process `may_be_unfinished`: the last change may be done
/// in part then, and has to be done again.
pub(super) fn read(look: &impl Look, may_be_unfinished: bool) -> Option<Runs> {
    let mut read = LOCK.read(look, may_be_unfinished, || {
        let mut read = Vec::new();
        look.each_row(Part::Segments, |row| read.extend(run_of(row)));
        read
    })?;
    read.sort_unstable_by_key(|(addr, _)| *addr);
    let mut runs = Runs::default();
    for (addr, run) in read {
        runs.apply(Change::Map(addr, run), &mut |_| ());
    }
    Some(runs)
}

fn run_of(row: [u64; SEGMENT_WORDS]) -> Option<(u64, Run)> {
    let [head, addr, size_bytes, stream, major, minor, ..] = row;
    let run = Run {
        size_bytes,
        stream: Stream(stream),
        pool: PoolId(major, minor),
        is_large: head & LARGE != 0,
        is_expandable: head & EXPANDABLE != 0,
        stack: StackId((head >> 32) as u32),
    };
    (head & TAKEN != 0).then_some((addr, run))
}

#[cfg(test)]
mod tests {
    use trace_format::{Addr, Record, SegmentState, State, ThreadId};

    use super::super::layout::Shape;
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

    fn change(event: &Event) -> Change {
        Change::of(event, StackId(9)).unwrap()
    }

    fn as_seen(runs: Runs) -> Vec<(u64, u64)> {
        runs.into_iter().map(|(addr, run)| (addr / PAGE, run.size_bytes / PAGE)).collect()
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
                let runs = read(&region, false).expect("nothing is under way");
                let segment = |segment: &SegmentState| (segment.addr.0 / PAGE, segment.size_bytes / PAGE);
                let expected: Vec<_> = state.segments().iter().map(segment).collect();
                proptest::prop_assert_eq!(as_seen(runs), expected);
            }
        }
    }

    #[test]
    fn a_change_that_was_killed_in_the_middle_is_finished_by_doing_it_again() {
        let region = region();
        let mut table = Table::default();
        table.apply(&region, change(&event(true, 0, 10)));
        // Pages 4 and 5 go: the row for what is behind them is there, the one before them is not cut yet.
        region.set(HeaderField::SegmentsVersion, 3);
        let rest = event(true, 6, 4);
        let Change::Map(addr, run) = change(&rest) else { panic!("{rest:?}") };
        table.set(&region, addr, &run);
        assert_eq!(read(&region, false), None);
        let mut runs = read(&region, true).unwrap();
        runs.apply(change(&event(false, 4, 2)), &mut |_| ());
        assert_eq!(as_seen(runs), [(0, 4), (6, 4)]);
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
        assert_eq!(as_seen(read(&region, false).unwrap()), []);
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
