//! Which mapped runs of a state are of one expandable segment: a snapshot shows runs only, a tape of ours has the
//! address ranges too.

use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;

use events::{Addr, BaseState, PoolId, RangeState, SegmentState, Stream};

use super::order::is_page;
use crate::expandable::Range;
use crate::size::SMALL_SEGMENT_BYTES;
use crate::stitch::PAGE_BYTES;

/// An expandable segment of a state: the addresses it reserved, and its mapped runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseRange<'s> {
    /// Where it starts, as recorded; where that is not known, at its first run.
    pub addr: Addr,
    /// Size of its pages.
    pub page_bytes: u64,
    /// The stream it serves.
    pub stream: Stream,
    /// The pool it serves.
    pub pool: PoolId,
    /// Whether it serves large requests.
    pub is_large: bool,
    /// Its mapped runs, ascending.
    pub runs: Vec<&'s SegmentState>,
}

/// The expandable segments of a state: the recorded ranges in their order, then what is inferred from runs that lie in
/// none of them.
pub fn base_ranges(
    base: &BaseState,
    large_page_bytes: u64,
    reserve_bytes: u64,
) -> Vec<BaseRange<'_>> {
    let has_parts = !base.pages.is_empty();
    // Parts of pages are known by where whole pages begin.
    let is_aligned = |range: &&RangeState| !has_parts || range.addr.0.is_multiple_of(PAGE_BYTES);
    let known = base.order.ranges.iter().filter(|range| is_page(range.page_bytes));
    let known = known.filter(is_aligned);
    let of = |range: &RangeState| BaseRange {
        addr: range.addr,
        page_bytes: range.page_bytes,
        stream: range.stream,
        pool: range.pool,
        is_large: range.is_large,
        runs: Vec::new(),
    };
    let mut ranges: Vec<_> = known.map(of).collect();
    ranges.sort_by_key(|range| range.addr); // A hostile state may have them in any order.
    ranges.dedup_by_key(|range| range.addr);
    let mut others = Vec::new();
    let mut runs: Vec<_> = base.segments.iter().filter(|segment| segment.is_expandable).collect();
    runs.sort_by_key(|run| run.addr);
    for run in runs {
        let behind = ranges.partition_point(|range| range.addr <= run.addr);
        let range = behind.checked_sub(1).map(|at| &mut ranges[at]);
        match range.filter(|range| range.holds(run, reserve_bytes, has_parts)) {
            Some(range) => range.runs.push(run),
            None => others.push(run),
        }
    }
    if !others.is_empty() {
        // A smaller device: ranges that do not reach their runs are of no use.
        ranges.retain(|range| !range.runs.is_empty());
    }
    // All runs of `stitch` have small pages.
    let usual_bytes = if has_parts { PAGE_BYTES } else { large_page_bytes };
    let large_page_bytes = inferred_page_bytes(&others, usual_bytes);
    let inferred = group_runs(others, large_page_bytes, reserve_bytes, has_parts);
    ranges.extend(inferred.into_iter().map(|runs| BaseRange {
        addr: first_page(runs[0], has_parts),
        page_bytes: if runs[0].is_large { large_page_bytes } else { SMALL_SEGMENT_BYTES },
        stream: runs[0].stream,
        pool: runs[0].pool,
        is_large: runs[0].is_large,
        runs,
    }));
    ranges
}

/// The pages of large runs whose ranges are not known: those of the settings if all can be made of them, else the
/// smaller ones that `stitch` has for all runs.
fn inferred_page_bytes(runs: &[&SegmentState], usual_bytes: u64) -> u64 {
    let is_whole =
        |run: &&SegmentState| !run.is_large || run.size_bytes.is_multiple_of(usual_bytes);
    if runs.iter().all(is_whole) { usual_bytes } else { PAGE_BYTES }
}

/// Where the first page of a run begins. `stitch`, whose states have pages, may have the first bytes of it elsewhere.
pub(super) const fn first_page(run: &SegmentState, has_parts: bool) -> Addr {
    Addr(if has_parts { run.addr.0 / PAGE_BYTES * PAGE_BYTES } else { run.addr.0 })
}

impl BaseRange<'_> {
    /// Whether a run behind its start can be one of its own.
    fn holds(&self, run: &SegmentState, reserve_bytes: u64, has_parts: bool) -> bool {
        let kind = (run.stream, run.pool, run.is_large);
        let offset_bytes = run.addr.0 - self.addr.0;
        let reach_bytes = Range::reach_bytes(self.page_bytes, reserve_bytes);
        let are_pages = [offset_bytes, run.size_bytes]
            .iter()
            .all(|bytes| bytes.is_multiple_of(self.page_bytes));
        kind == (self.stream, self.pool, self.is_large)
            && (are_pages || (has_parts && self.pool.is_default()))
            && offset_bytes.saturating_add(run.size_bytes) <= reach_bytes
    }
}

/// The mapped runs that one expandable segment can hold, ascending, for each segment of the state. A segment begins at
/// its lowest run and reaches over its reserve; its runs begin at whole pages.
fn group_runs(
    runs: Vec<&SegmentState>,
    large_page_bytes: u64,
    reserve_bytes: u64,
    has_parts: bool,
) -> Vec<Vec<&SegmentState>> {
    let mut groups: Vec<Vec<&SegmentState>> = Vec::new();
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    for run in runs {
        let page = if run.is_large { large_page_bytes } else { SMALL_SEGMENT_BYTES };
        let reach_bytes = Range::reach_bytes(page, reserve_bytes);
        let kind = (run.stream, run.pool, run.is_large, first_page(run, has_parts).0 % page);
        let alike = alike.entry(kind).or_default();
        // Of those that serve the same and have their pages in the same places, one that begins later reaches further:
        // the first that reaches far enough is found without asking each.
        let end = run.addr.0.saturating_add(run.size_bytes);
        let reaches = |group: &usize| {
            first_page(groups[*group][0], has_parts).0.saturating_add(reach_bytes) >= end
        };
        // Mapped bytes of `stitch` that touch are one run, if they are of one segment.
        let is_apart = |group: &&usize| {
            let last = groups[**group].last().expect("a group has a run");
            !has_parts || last.addr.0.saturating_add(last.size_bytes) < run.addr.0
        };
        let group = alike.get(alike.partition_point(|group| !reaches(group)));
        if let Some(group) = group.filter(is_apart) {
            groups[*group].push(run);
        } else {
            alike.push(groups.len());
            groups.push(vec![run]);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use events::StackId;
    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = SMALL_SEGMENT_BYTES;

    fn run(addr: u64, size_bytes: u64, stream: u64, is_large: bool) -> SegmentState {
        SegmentState {
            addr: Addr(addr),
            size_bytes,
            stream: Stream(stream),
            pool: PoolId::DEFAULT,
            is_large,
            is_expandable: true,
            stack: StackId::NONE,
            blocks: Vec::new(),
        }
    }

    fn starts(groups: &[Vec<&SegmentState>]) -> Vec<Vec<u64>> {
        groups.iter().map(|group| group.iter().map(|run| run.addr.0).collect()).collect()
    }

    fn expandable_runs(
        segments: &[SegmentState],
        large_page_bytes: u64,
        reserve_bytes: u64,
    ) -> Vec<Vec<&SegmentState>> {
        let mut runs: Vec<_> = segments.iter().collect();
        runs.sort_by_key(|run| run.addr);
        group_runs(runs, large_page_bytes, reserve_bytes, false)
    }

    /// The same, asking each segment so far.
    fn one_by_one(runs: &[SegmentState], large_page: u64, total_bytes: u64) -> Vec<Vec<u64>> {
        let mut groups: Vec<Vec<&SegmentState>> = Vec::new();
        for run in runs {
            let page = if run.is_large { large_page } else { PAGE };
            let holds = |group: &&mut Vec<&SegmentState>| {
                let first = group[0];
                let offset_bytes = run.addr.0 - first.addr.0;
                (first.stream, first.is_large) == (run.stream, run.is_large)
                    && offset_bytes.is_multiple_of(page)
                    && offset_bytes + run.size_bytes <= Range::reach_bytes(page, total_bytes)
            };
            match groups.iter_mut().find(holds) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        starts(&groups)
    }

    #[test]
    fn a_range_of_stitch_that_begins_within_a_page_is_not_one() {
        let page_bytes = PAGE_BYTES;
        let segments = vec![run(8 * PAGE, PAGE, 0, true)];
        let (stream, pool, is_large) = (Stream(0), PoolId::DEFAULT, true);
        let mut base = BaseState { segments, ..BaseState::default() };
        let addr = Addr(4 * PAGE + 512);
        base.order.ranges.push(RangeState { addr, page_bytes, stream, pool, is_large });
        base.pages.push((addr, events::PageNumber(7)));
        let ranges = base_ranges(&base, PAGE, 1 << 30);
        assert_eq!(ranges.iter().map(|range| range.addr.0).collect::<Vec<_>>(), [8 * PAGE]);
    }

    #[test]
    fn runs_of_stitch_that_touch_are_of_two_segments() {
        let segments =
            [run(0, PAGE, 0, true), run(PAGE, PAGE, 0, true), run(3 * PAGE, PAGE, 0, true)];
        let group = |has_parts| group_runs(segments.iter().collect(), PAGE, 1 << 30, has_parts);
        assert_eq!(starts(&group(false)), [[0, PAGE, 3 * PAGE]]);
        assert_eq!(starts(&group(true)), [vec![0, 3 * PAGE], vec![PAGE]]);
        let last = [run(u64::MAX - PAGE + 1, PAGE, 0, true), run(u64::MAX - 511, 512, 0, true)];
        assert_eq!(group_runs(last.iter().collect(), PAGE, 1 << 30, true).len(), 2);
    }

    proptest! {
        #[test]
        fn a_run_is_of_the_first_segment_that_reaches_it(
            steps in prop::collection::vec((0..5_u64, 1..4_u64, 0..3_u64, any::<bool>(), 0..2_u64), 0..60),
            total_pages in 1..40_u64,
        ) {
            let mut addr = 1 << 40;
            let runs: Vec<_> = steps.into_iter().map(|(gap, pages, stream, is_large, odd)| {
                addr += gap * PAGE + odd * 512;
                let run = run(addr, pages * PAGE, stream, is_large);
                addr += pages * PAGE;
                run
            }).collect();
            let (large_page, total_bytes) = (5 * PAGE, total_pages * PAGE);
            let expected = one_by_one(&runs, large_page, total_bytes);
            prop_assert_eq!(starts(&expandable_runs(&runs, large_page, total_bytes)), expected);
            let backwards: Vec<_> = runs.into_iter().rev().collect();
            let found = starts(&expandable_runs(&backwards, large_page, total_bytes));
            prop_assert_eq!(found.iter().flatten().count(), backwards.len());
        }
    }

    #[test]
    fn large_runs_of_stitch_are_made_of_its_pages() {
        let [whole, odd, small] =
            [run(0, 20 * PAGE, 0, true), run(0, 7 * PAGE, 0, true), run(0, 7 * PAGE, 0, false)];
        assert_eq!(inferred_page_bytes(&[&whole, &small], 10 * PAGE), 10 * PAGE);
        assert_eq!(inferred_page_bytes(&[&whole, &odd], 10 * PAGE), PAGE_BYTES);
    }

    /// Asking each segment for each run, as this once did, would take 10^11 steps.
    #[test]
    fn half_a_million_segments_of_one_run_take_no_longer_than_sorting_them() {
        let far = 64 * PAGE;
        let runs: Vec<_> = (1..500_000).map(|at| run(at * far, PAGE, 0, false)).collect();
        let groups = expandable_runs(&runs, 10 * PAGE, 8 * PAGE);
        assert_eq!(groups.len(), runs.len());
    }

    #[test]
    fn runs_at_the_end_of_the_address_space_are_no_surprise() {
        let runs = [run(u64::MAX - PAGE, u64::MAX, 0, false), run(u64::MAX, 1, 0, true)];
        assert_eq!(expandable_runs(&runs, 10 * PAGE, PAGE).len(), 2);
    }
}
