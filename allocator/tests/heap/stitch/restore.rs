//! Starting `stitch` from a recorded state of its own: homes, ghosts and blocks.

use std::collections::BTreeMap;

use allocator::heap::{Restored, RestoredBlock};
use settings::StitchConfig;
use trace_format::{
    Addr, BaseOrder, BlockStatus, PageNumber, PoolId, ScopeFilter, StackId, Stream,
};

use super::stitched;
use crate::behaviour::restore::shape;
use crate::rebuilt::Rebuilt;
use crate::support::{Calls, GIB, KIB, MIB, TestHeap};

const POOL: PoolId = PoolId(0, 1);

/// A heap with ghosts, holes, runs of two streams and of small blocks, a private pool and a free that waits.
fn lived_in() -> TestHeap {
    let mut heap = stitched(GIB, StitchConfig::default());
    let mut live = Vec::new();
    for n in 0..40 {
        let size = [300, 700 * KIB, 3 * MIB, 15 * MIB, 37 * MIB][n as usize % 5] + n;
        live.push(heap.take_on(n % 2 * 16, size));
        if n % 3 == 2 {
            let addr = live.swap_remove(n as usize % live.len());
            heap.give(addr);
        }
    }
    heap.begin_pool(POOL, ScopeFilter::Thread, std::sync::Arc::new(|_| true)).expect("a new pool");
    heap.take(5 * MIB);
    heap.end_pool(POOL).expect("open");
    let pending = live.swap_remove(3);
    heap.record_stream(pending, Stream(48)).expect("live");
    heap.give(pending);
    heap
}

/// Segments and blocks without addresses, and without what was requested last of free blocks.
fn memory(heap: &TestHeap) -> Vec<String> {
    let mut segments = heap.segments(PoolId::DEFAULT);
    let blocks = segments.iter_mut().flat_map(|segment| &mut segment.blocks);
    for block in blocks.filter(|block| block.status == BlockStatus::Inactive) {
        block.requested_bytes = 0;
    }
    shape(&segments)
}

/// The same memory with nothing in it.
fn copy_of(original: &TestHeap, knows_ranges: bool) -> (TestHeap, Restored) {
    let mut base = original.base_state();
    if !knows_ranges {
        base.order = BaseOrder::default(); // As a ring of a killed process has it.
    }
    let mut copy = stitched(GIB, StitchConfig::default());
    let restored = copy.restore(&base).expect("memory");
    copy.check().expect("consistent");
    (copy, restored)
}

#[test]
fn a_restored_heap_has_the_recorded_homes_and_blocks() {
    let original = lived_in();
    for knows_ranges in [true, false] {
        let (copy, _) = copy_of(&original, knows_ranges);
        assert_eq!(memory(&copy), memory(&original));
        assert_eq!(copy.reserved_bytes(), original.reserved_bytes());
        for stat in ["allocated_bytes", "active_bytes", "reserved_bytes"] {
            let key = format!("{stat}.all.current");
            let of = |heap: &TestHeap| {
                let flat = heap.stats().flat();
                flat.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
            };
            assert_eq!(of(&copy), of(&original), "{stat}");
        }
    }
}

/// For each page, the runs and slots where it is mapped.
fn aliases(heap: &TestHeap) -> Vec<Vec<(usize, u64)>> {
    let base = heap.base_state();
    let mut slots: BTreeMap<PageNumber, Vec<(usize, u64)>> = BTreeMap::new();
    for (addr, page) in base.pages {
        let run = base.order.ranges.partition_point(|range| range.addr <= addr) - 1;
        let start = base.order.ranges[run].addr;
        slots.entry(page).or_default().push((run, (addr.0 - start.0) / (2 * MIB)));
    }
    let mut aliases: Vec<_> = slots.into_values().collect();
    aliases.sort_unstable();
    aliases
}

#[test]
fn a_restored_heap_has_the_recorded_ghosts() {
    let original = lived_in();
    assert!(aliases(&original).iter().any(|slots| slots.len() > 1), "it has ghosts");
    let (mut copy, _) = copy_of(&original, true);
    assert_eq!(aliases(&copy), aliases(&original));
    assert!(copy.recorder_mut().events.is_empty(), "a start is not recorded");
    Rebuilt::starting_as(&copy).check(&mut copy).expect("the device agrees");
}

#[test]
fn pages_that_contradict_the_runs_are_ignored() {
    let original = lived_in();
    let mut base = original.base_state();
    let (first, _) = base.pages[0];
    base.pages = vec![
        (Addr(8), PageNumber(1)),             // In front of all runs.
        (Addr(first.0 + 512), PageNumber(1)), // In the middle of a page.
        (Addr(first.0 + (1 << 60)), PageNumber(1)),
        (Addr(u64::MAX), PageNumber(u32::MAX)),
    ];
    let mut copy = stitched(GIB, StitchConfig::default());
    copy.restore(&base).expect("memory");
    copy.check().expect("consistent");
    assert_eq!(memory(&copy), memory(&original));
}

#[test]
fn a_restored_heap_reuses_its_pages_and_gives_all_back() {
    let (mut copy, restored) = copy_of(&lived_in(), true);
    let mut rebuilt = Rebuilt::starting_as(&copy);
    let before = copy.reserved_bytes();
    for (_, block) in restored {
        match block {
            RestoredBlock::Allocated(addr) => copy.free(addr, StackId::NONE).expect("live"),
            RestoredBlock::PendingFree(ticket) => copy.complete_free(ticket),
        }
        copy.check().expect("consistent");
    }
    let large: Addr = copy.take(100 * MIB);
    copy.check().expect("consistent");
    assert_eq!(copy.reserved_bytes(), before, "no page was created for it");
    rebuilt.check(&mut copy).expect("the tape agrees");
    copy.give(large);
    copy.release_pool(POOL).expect("its only user");
    copy.flush();
    assert_eq!(copy.device_mut().check_empty(), Ok(()));
}

#[test]
fn a_state_with_impossible_blocks_is_an_error() {
    let original = lived_in();
    let mut base = original.base_state();
    let run =
        base.segments.iter_mut().find(|run| run.is_expandable && run.is_large).expect("a run");
    let block = run.blocks.last_mut().expect("a block");
    block.size_bytes += 64 * MIB;
    block.status = BlockStatus::Allocated;
    let mut copy = stitched(GIB, StitchConfig::default());
    assert!(copy.restore(&base).is_err());

    let mut base = original.base_state();
    let run = base.segments.iter_mut().find(|run| run.is_expandable).expect("a run");
    (run.size_bytes, run.blocks) = (0, Vec::new());
    let mut copy = stitched(GIB, StitchConfig::default());
    assert!(copy.restore(&base).is_err());
}
