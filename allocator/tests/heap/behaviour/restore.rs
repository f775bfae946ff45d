//! Starting from a recorded state.

use allocator::heap::RestoredBlock;
use settings::{Compat, Config};
use trace_format::{
    Addr, BaseOrder, PoolId, RangeState, ScopeFilter, SegmentState, StackId, Stream,
};

use crate::support::{Calls, GIB, KIB, MIB, TestHeap, heap};

const POOL: PoolId = PoolId(0, 1);

/// A heap with holes, several streams, a private pool, both kinds of segment and a free that waits.
fn lived_in() -> (TestHeap, Vec<Addr>) {
    let mut heap = heap(GIB, Config::default());
    let mut live = Vec::new();
    let mut holes = Vec::new();
    for n in 0..30 {
        let expandable_segments = n % 3 == 0;
        heap.set_config(Config { expandable_segments, ..Config::default() });
        let addr =
            heap.take_on(n % 2 * 16, [300, 700 * KIB, 3 * MIB, 15 * MIB][n as usize % 4] + n);
        if n % 5 < 2 { holes.push(addr) } else { live.push(addr) }
    }
    heap.begin_pool(POOL, ScopeFilter::Thread, std::sync::Arc::new(|_| true)).expect("a new pool");
    live.push(heap.take(5 * MIB));
    heap.end_pool(POOL).expect("open");
    for addr in holes {
        heap.give(addr);
    }
    heap.flush();
    let pending = live.swap_remove(3);
    heap.record_stream(pending, Stream(48)).expect("live");
    heap.give(pending);
    (heap, live)
}

/// A state without its addresses: for each segment in a fixed order, its blocks.
pub(crate) fn shape(segments: &[SegmentState]) -> Vec<String> {
    let mut shapes: Vec<_> = segments
        .iter()
        .map(|segment| {
            let blocks: Vec<_> = segment
                .blocks
                .iter()
                .map(|block| (block.size_bytes, block.requested_bytes, block.status))
                .collect();
            let key = (segment.stream, segment.pool, segment.is_large, segment.is_expandable);
            format!("{key:?} {blocks:?}")
        })
        .collect();
    shapes.sort_unstable();
    shapes
}

#[test]
fn a_restored_heap_looks_like_the_recorded_one() {
    let (original, live) = lived_in();
    let mut copy = heap(GIB, Config::default());
    let restored = copy.restore(&original.base_state()).expect("memory");
    copy.check().expect("consistent");
    let (ours, theirs) = (copy.segments(PoolId::DEFAULT), original.segments(PoolId::DEFAULT));
    assert_eq!(shape(&ours), shape(&theirs));
    assert_eq!(restored.len(), live.len() + 1, "and the pending free");
    for stat in ["allocated_bytes", "active_bytes", "reserved_bytes", "inactive_split_bytes"] {
        let key = format!("{stat}.all.current");
        let of = |heap: &TestHeap| {
            heap.stats().flat().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        assert_eq!(of(&copy), of(&original), "{stat}");
    }
}

#[test]
fn a_restored_heap_places_as_the_recorded_one() {
    let (mut original, live) = lived_in();
    let mut copy = heap(GIB, Config::default());
    let restored = copy.restore(&original.base_state()).expect("memory");
    let twin = |addr: &Addr| {
        let (_, block) = restored.iter().find(|(recorded, _)| recorded == addr).expect("restored");
        match block {
            RestoredBlock::Allocated(twin) => *twin,
            RestoredBlock::PendingFree(_) => panic!("{addr} was live"),
        }
    };
    for (n, bytes) in [200, 2 * MIB, 14 * MIB, 40 * MIB, 900 * KIB, 5 * MIB].into_iter().enumerate()
    {
        let on = |expandable_segments| Config { expandable_segments, ..Config::default() };
        for heap in [&mut original, &mut copy] {
            heap.set_config(on(n % 2 == 0));
            heap.take_on(16 * (n as u64 % 2), bytes);
        }
        original.give(live[n]);
        copy.give(twin(&live[n]));
        let (ours, theirs) = (copy.segments(PoolId::DEFAULT), original.segments(PoolId::DEFAULT));
        assert_eq!(shape(&ours), shape(&theirs), "after request {n}");
    }
}

#[test]
fn a_restored_pending_free_waits_for_the_word() {
    let (original, _) = lived_in();
    let mut copy = heap(GIB, Config::default());
    let restored = copy.restore(&original.base_state()).expect("memory");
    let ticket = restored.iter().find_map(|(_, block)| match block {
        RestoredBlock::PendingFree(ticket) => Some(*ticket),
        RestoredBlock::Allocated(_) => None,
    });
    let before = copy.stats().active.all.current;
    copy.complete_free(ticket.expect("one free was pending"));
    copy.check().expect("consistent");
    assert_eq!(copy.stats().active.all.current, before - 1);
}

#[test]
fn a_restored_heap_gives_everything_back() {
    let (original, _) = lived_in();
    let mut copy = heap(GIB, Config { max_split_size_bytes: 20 * MIB, ..Config::default() });
    for (_, block) in copy.restore(&original.base_state()).expect("memory") {
        match block {
            RestoredBlock::Allocated(addr) => copy.free(addr, StackId::NONE).expect("live"),
            RestoredBlock::PendingFree(ticket) => copy.complete_free(ticket),
        }
    }
    copy.release_pool(POOL).expect("its only user");
    copy.flush();
    assert_eq!(copy.device_mut().check_empty(), Ok(()));
    assert_eq!(copy.stats().oversize_segments.current, 0);
    assert_eq!(copy.stats().oversize_allocations.current, 0);
}

#[test]
fn a_state_that_does_not_fit_is_an_error_and_leaves_no_range_behind() {
    let mut original = heap(GIB, Config { expandable_segments: true, ..Config::default() });
    original.take(300 * MIB);
    let mut copy = heap(200 * MIB, Config::default());
    assert!(copy.restore(&original.base_state()).is_err());
    copy.check().expect("consistent");
    assert_eq!(copy.device_mut().check_empty(), Ok(()));
}

#[test]
fn an_order_that_fits_nothing_is_left_aside() {
    let (original, _) = lived_in();
    let mut base = original.base_state();
    let strange = [Addr(0), Addr(1), base.segments[0].addr, Addr(u64::MAX)];
    let range = |addr, page_bytes| RangeState {
        addr,
        page_bytes,
        stream: Stream(7),
        pool: POOL,
        is_large: true,
    };
    let pages = [0, 1, 2 * MIB, 1 << 40, 1 << 63, u64::MAX];
    let ranges = strange.iter().flat_map(|addr| pages.map(|page_bytes| range(*addr, page_bytes)));
    base.order = BaseOrder {
        begun: strange.repeat(2),
        ranges: ranges.collect(),
        ages: strange.map(|addr| (addr, u32::MAX)).to_vec(),
        pending: strange.repeat(2),
        released_pools: vec![PoolId(9, 9), POOL, POOL],
        lending_pools: vec![PoolId(9, 9); 2],
        unsplit_pools: vec![PoolId(9, 9); 2],
    };
    let mut copy = heap(GIB, Config { compat: Compat::V2_15, ..Config::default() });
    copy.restore(&base).expect("memory");
    copy.check().expect("consistent");
    assert_eq!(shape(&copy.segments(PoolId::DEFAULT)), shape(&original.segments(PoolId::DEFAULT)));
}
