//! Requests that begin and end in the free ends of pages in use, where memory is short.

use std::sync::Arc;

use allocator::heap::RestoredBlock;
use device::DeviceCall;
use settings::{Config, Plan, StitchConfig};
use trace_format::{Addr, PoolId, StackId};

use super::stitched;
use crate::rebuilt::Rebuilt;
use crate::support::{Calls, GIB, KIB, MIB, TestHeap, heap};

/// What the request takes without edges: 17 pages behind the last block, which leaves half a page free.
const WIDE_BYTES: u64 = 34 * MIB + 512 * KIB;
/// A page too little for that.
const CAPACITY_BYTES: u64 = 42 * MIB;

/// Three blocks side by side, of which the middle one is given back: it leaves the last MiB of one page and the first
/// 1.5 MiB of the next, with blocks on both sides.
fn with_edges(heap: &mut TestHeap) -> [Addr; 2] {
    let [first, middle, last] =
        [3 * MIB, 2 * MIB + 512 * KIB, 3 * MIB].map(|bytes| heap.take(bytes));
    heap.give(middle);
    [first, last]
}

fn maps(heap: &mut TestHeap) -> u64 {
    heap.device_mut().counts().of(DeviceCall::Map)
}

fn page(heap: &mut TestHeap, addr: Addr) -> device::PhysicalHandle {
    let slot = Addr(addr.0 / (2 * MIB) * (2 * MIB));
    heap.device_mut().mapped_at(slot).expect("it is mapped")
}

#[test]
fn a_request_takes_the_free_ends_of_two_pages_in_place_of_a_new_one() {
    let mut heap = stitched(CAPACITY_BYTES, StitchConfig::default());
    let mut rebuilt = Rebuilt::default();
    let [first, last] = with_edges(&mut heap);
    assert_eq!(last.0 - first.0, 5 * MIB + 512 * KIB, "side by side");
    let before = (heap.reserved_bytes(), maps(&mut heap));
    let wide = heap.take(WIDE_BYTES);
    assert_eq!(heap.reserved_bytes(), before.0 + 32 * MIB, "16 new pages");
    assert_eq!(maps(&mut heap), before.1 + 18, "and two that are mapped once more");
    let ends = [wide.0, wide.0 + WIDE_BYTES - 1].map(|addr| page(&mut heap, Addr(addr)));
    assert_eq!(ends[0], page(&mut heap, Addr(first.0 + 3 * MIB - 1)));
    assert_eq!(ends[1], page(&mut heap, last));
    heap.check().expect("consistent");
    rebuilt.check(&mut heap).expect("the tape agrees");

    // The parts of a page are wholly free again only together.
    heap.give(wide);
    let whole = heap.take(32 * MIB);
    assert_eq!(heap.reserved_bytes(), before.0 + 32 * MIB, "no page was created for it");
    for addr in [first, last, whole] {
        heap.give(addr);
    }
    heap.flush();
    rebuilt.check(&mut heap).expect("the tape agrees");
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn the_edges_of_a_repeated_step_need_no_driver_call_again() {
    let mut heap = stitched(CAPACITY_BYTES + 10 * MIB, StitchConfig::default());
    let other = heap.take(10 * MIB);
    let step = |heap: &mut TestHeap| {
        // By which a step is found again.
        for mib in 2..10 {
            let addr = heap.take(mib * MIB);
            heap.give(addr);
        }
        let kept = with_edges(heap);
        let wide = heap.take(WIDE_BYTES);
        heap.give(wide);
        let next = heap.take(21 * MIB);
        kept.into_iter().chain([next]).for_each(|addr| heap.give(addr));
    };
    step(&mut heap);
    heap.give(other);
    let settled = (maps(&mut heap), heap.reserved_bytes());
    (0..5).for_each(|_| step(&mut heap));
    assert_eq!((maps(&mut heap), heap.reserved_bytes()), settled);
    heap.check().expect("consistent");
}

/// New pages for a request that takes two behind the last block.
fn new_bytes(mut heap: TestHeap, other_bytes: u64) -> u64 {
    heap.take(other_bytes);
    with_edges(&mut heap);
    let reserved_bytes = heap.reserved_bytes();
    heap.take(4 * MIB + 512 * KIB);
    heap.reserved_bytes() - reserved_bytes
}

#[test]
fn edges_are_taken_only_where_memory_is_short_or_will_soon_be() {
    let serve = |bytes| new_bytes(stitched(bytes, StitchConfig::default()), 60 * MIB);
    assert_eq!((serve(GIB), serve(72 * MIB)), (4 * MIB, 2 * MIB));
    // There are 70 MiB before: less than nine tenths, and more.
    assert_eq!((serve(100 * MIB), serve(76 * MIB)), (4 * MIB, 2 * MIB));
}

#[test]
fn a_run_with_a_plan_takes_edges_also_where_new_pages_would_be_a_waste() {
    let serve = |other_bytes| {
        let plan = Some(Arc::new(Plan { sequences: Vec::new() }));
        let config = Config { stitch: Some(StitchConfig::default()), plan, ..Config::default() };
        new_bytes(heap(8 * GIB, config), other_bytes)
    };
    assert_eq!((serve(60 * MIB), serve(GIB)), (2 * MIB, 4 * MIB));
}

#[test]
fn a_page_with_two_homes_is_restored_as_it_was() {
    for knows_ranges in [true, false] {
        let mut original = stitched(CAPACITY_BYTES, StitchConfig::default());
        with_edges(&mut original);
        original.take(WIDE_BYTES);
        let mut base = original.base_state();
        if !knows_ranges {
            base.order = trace_format::BaseOrder::default(); // As a ring of a killed process has it.
        }
        let mut copy = stitched(GIB, StitchConfig::default());
        let restored = copy.restore(&base).expect("memory");
        copy.check().expect("consistent");
        assert_eq!(copy.reserved_bytes(), original.reserved_bytes());
        assert_eq!(copy.base_state().segments.len(), base.segments.len());
        Rebuilt::starting_as(&copy).check(&mut copy).expect("the device agrees");
        for (_, block) in restored {
            let RestoredBlock::Allocated(addr) = block else { panic!("nothing waits") };
            copy.free(addr, StackId::NONE).expect("live");
        }
        copy.flush();
        assert_eq!(copy.device_mut().check_empty(), Ok(()));
    }
}

/// One block keeps the last bytes of a page, and the one behind it ends in the first bytes of the same page.
#[test]
fn a_run_with_both_parts_of_a_page_is_restored_with_one_page() {
    let mut original = stitched(36 * MIB, StitchConfig::default());
    let [first, kept] = [2 * MIB + 512 * KIB, MIB + 512 * KIB].map(|bytes| original.take(bytes));
    original.give(first);
    let wide = original.take(WIDE_BYTES);
    assert_eq!(wide.0, kept.0 + MIB + 512 * KIB, "side by side");
    let mut copy = stitched(36 * MIB, StitchConfig::default());
    copy.restore(&original.base_state()).expect("memory");
    copy.check().expect("consistent");
    assert_eq!(copy.reserved_bytes(), original.reserved_bytes());
}

/// Another strategy has whole pages, and so has a state that does not know where the other bytes of a page are.
#[test]
fn pages_with_two_homes_are_whole_ones_where_they_cannot_be_restored() {
    let mut original = stitched(CAPACITY_BYTES, StitchConfig::default());
    with_edges(&mut original);
    original.take(WIDE_BYTES);
    let known = original.base_state();
    let mut unknown = known.clone();
    unknown.pages.pop();
    for (base, stitch) in [(known, None), (unknown, Some(StitchConfig::default()))] {
        let mut copy = heap(GIB, Config { stitch, ..Config::default() });
        let live = copy.restore(&base).expect("memory");
        copy.check().expect("consistent");
        assert_eq!((live.len(), copy.reserved_bytes()), (3, original.reserved_bytes() + 4 * MIB));
        assert!(copy.segments(PoolId::DEFAULT).iter().all(|run| run.size_bytes % (2 * MIB) == 0));
    }
}
