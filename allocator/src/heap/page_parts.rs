//! Recorded pages of `stitch` with two homes: whether a state has both parts of each, and the state with whole pages.

use alloc::vec;
use alloc::vec::Vec;

use events::{Addr, BaseState, BlockState, BlockStatus, PageNumber, SegmentState, StackId};
use rustc_hash::FxHashMap;

use super::runs::first_page;
use crate::stitch::PAGE_BYTES;

/// Whether each page of `stitch` that has some of its bytes in one place has the others in another.
pub(super) fn has_all_parts(base: &BaseState) -> bool {
    let numbers: FxHashMap<Addr, PageNumber> = base.pages.iter().copied().collect();
    let mut parts: FxHashMap<PageNumber, Vec<(u64, u64)>> = FxHashMap::default();
    for run in base.segments.iter().filter(|one| is_stitched(one)) {
        let end = run.addr.0.saturating_add(run.size_bytes);
        let mut ends = vec![first_page(run, true).0, end / PAGE_BYTES * PAGE_BYTES];
        ends.dedup();
        for start in ends {
            let bytes = (run.addr.0.saturating_sub(start), (end - start).min(PAGE_BYTES));
            if bytes.0 < bytes.1 && bytes != (0, PAGE_BYTES) {
                let Some(number) = numbers.get(&Addr(start)) else { return false };
                parts.entry(*number).or_default().push(bytes);
            }
        }
    }
    parts.into_values().all(|mut parts| {
        parts.sort_unstable();
        matches!(parts[..], [(0, cut), (begin, PAGE_BYTES)] if cut == begin)
    })
}

const fn is_stitched(segment: &SegmentState) -> bool {
    segment.is_expandable && segment.pool.is_default()
}

/// The state with whole pages, where a page may have its bytes in two runs: both have all of it then. Other strategies
/// have no such pages.
pub(super) fn with_whole_pages(base: &BaseState) -> BaseState {
    let mut base = base.clone();
    let segments = core::mem::take(&mut base.segments).into_iter();
    let (mut runs, rest): (Vec<_>, Vec<_>) = segments.partition(is_stitched);
    runs.sort_by_key(|run| run.addr);
    (base.segments, base.pages) = (rest, Vec::new());
    let first = base.segments.len();
    let mut end = 0;
    let mut runs = runs.into_iter().peekable();
    while let Some(mut run) = runs.next() {
        // In a hostile state, two runs may be in one page.
        let start = Addr(first_page(&run, true).0.max(run.addr.0.min(end)));
        let run_end = run.addr.0.saturating_add(run.size_bytes);
        let next = runs.peek().map_or(u64::MAX, |next| next.addr.0.max(run_end));
        end = run_end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(run_end).min(next);
        let mut blocks = Vec::new();
        push_free(&mut blocks, start.0, run.addr.0);
        run.blocks.drain(..).for_each(|block| push(&mut blocks, block));
        push_free(&mut blocks, run_end, end);
        let kind = |run: &SegmentState| (run.stream, run.is_large);
        let last = base.segments[first..].last_mut();
        let last = last.filter(|last| last.addr.0 + last.size_bytes == start.0);
        if let Some(last) = last.filter(|last| kind(last) == kind(&run)) {
            last.size_bytes += end - start.0;
            for block in blocks {
                push(&mut last.blocks, block);
            }
        } else {
            let (addr, size_bytes) = (start, end - start.0);
            base.segments.push(SegmentState { addr, size_bytes, blocks, ..run });
        }
    }
    base
}

/// Adds a free block, if it has bytes.
fn push_free(blocks: &mut Vec<BlockState>, start: u64, end: u64) {
    if start < end {
        let (addr, size_bytes) = (Addr(start), end - start);
        let (status, stack) = (BlockStatus::Inactive, StackId::NONE);
        push(blocks, BlockState { addr, size_bytes, requested_bytes: 0, status, stack });
    }
}

/// Adds a block behind the others. Free blocks side by side are one.
fn push(blocks: &mut Vec<BlockState>, block: BlockState) {
    match blocks.last_mut() {
        Some(last) if [last.status, block.status] == [BlockStatus::Inactive; 2] => {
            last.size_bytes += block.size_bytes;
        }
        _ => blocks.push(block),
    }
}
