//! Private pools and the scopes that lead to them.

use std::sync::Arc;

use allocator::heap::{AllocError, Filter, PoolChoice, Request};
use settings::Config;
use trace_format::{Addr, PoolId, ScopeFilter, Stream};

use crate::support::{Calls, GIB, MIB, Source, TestHeap, heap, request};

const POOL: PoolId = PoolId(0, 1);
const INNER: PoolId = PoolId(0, 2);

fn everyone() -> Filter {
    Arc::new(|_| true)
}

fn only(stream: u64) -> Filter {
    Arc::new(move |other: Stream| other.0 == stream)
}

fn scoped(capacity_bytes: u64, config: Config) -> TestHeap {
    let mut heap = heap(capacity_bytes, config);
    heap.begin_pool(POOL, ScopeFilter::Thread, everyone()).expect("a new pool");
    heap
}

fn pool_of(heap: &TestHeap, addr: Addr) -> PoolId {
    let segments = heap.segments(PoolId::DEFAULT);
    let holds = |segment: &&trace_format::SegmentState| {
        (segment.addr.0..segment.addr.0 + segment.size_bytes).contains(&addr.0)
    };
    segments.iter().find(holds).expect("it is held").pool
}

#[test]
fn a_scope_takes_the_streams_of_its_filter() {
    let mut heap = heap(GIB, Config::default());
    heap.begin_pool(POOL, ScopeFilter::Thread, only(16)).expect("a new pool");
    let (inside, outside) = (heap.take_on(16, MIB), heap.take_on(32, MIB));
    assert_eq!((pool_of(&heap, inside), pool_of(&heap, outside)), (POOL, PoolId::DEFAULT));
}

#[test]
fn the_newest_scope_wins_and_the_older_one_follows() {
    let mut heap = scoped(GIB, Config::default());
    heap.begin_pool(INNER, ScopeFilter::Thread, everyone()).expect("a new pool");
    let inner = heap.take(MIB);
    heap.end_pool(INNER).expect("open");
    let outer = heap.take(MIB);
    assert_eq!((pool_of(&heap, inner), pool_of(&heap, outer)), (INNER, POOL));
}

#[test]
fn a_request_may_name_its_pool() {
    let mut heap = heap(GIB, Config::default());
    heap.create_pool(POOL, None).expect("a new pool");
    let exactly =
        |pool| Request { pool: PoolChoice::Exactly(pool), ..request(MIB, Stream::default()) };
    let named = heap.malloc(&exactly(POOL)).expect("memory");
    let unknown = heap.malloc(&exactly(PoolId(9, 9))).expect("memory");
    assert_eq!((pool_of(&heap, named), pool_of(&heap, unknown)), (POOL, PoolId::DEFAULT));
}

#[test]
fn a_pool_keeps_its_cache_until_its_last_user_leaves() {
    let mut heap = scoped(GIB, Config::default());
    let block = heap.take(40 * MIB);
    heap.give(block);
    heap.end_pool(POOL).expect("open");
    heap.flush();
    assert!(heap.device_mut().allocation_bytes(block).is_some());
    heap.release_pool(POOL).expect("its only user");
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
    assert!(heap.pool_use_count(POOL).is_err(), "the pool is over");
}

#[test]
fn a_released_pool_lives_as_long_as_its_last_block() {
    let mut heap = scoped(GIB, Config::default());
    let held = heap.take(40 * MIB);
    heap.end_pool(POOL).expect("open");
    heap.release_pool(POOL).expect("its only user");
    heap.flush();
    assert_eq!(heap.pool_use_count(POOL), Ok(0));
    heap.give(held);
    heap.empty_cache(POOL, trace_format::StackId::NONE).expect("a flush");
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn a_lending_pool_serves_others_before_a_flush() {
    let mut heap = scoped(100 * MIB, Config::default());
    let lent = heap.take(60 * MIB);
    heap.give(lent);
    heap.end_pool(POOL).expect("open");
    assert!(matches!(heap.try_take(50 * MIB), Err(AllocError::OutOfMemory(_))));
    heap.set_use_on_oom(POOL, true);
    assert_eq!(heap.take(50 * MIB), lent);
    assert_eq!(pool_of(&heap, lent), POOL);
    assert_eq!(heap.stats().num_alloc_retries, 1, "that of the refusal");
    heap.give(lent);
    heap.set_use_on_oom(POOL, false);
    assert!(matches!(heap.try_take(50 * MIB), Err(AllocError::OutOfMemory(_))));
}

#[test]
fn a_pool_that_does_not_split_hands_out_whole_segments() {
    let mut heap = scoped(GIB, Config::default());
    heap.set_no_split(POOL);
    let (first, second) = (heap.take(512), heap.take(512));
    assert!(first.0.abs_diff(second.0) >= 2 * MIB);
    assert_eq!(heap.stats().allocated_bytes.all.current, 4 << 20);
    assert_eq!(heap.stats().requested_bytes.all.current, 1024);
}

#[test]
fn the_options_of_a_pool_end_with_it() {
    let mut heap = scoped(GIB, Config::default());
    heap.set_no_split(POOL);
    heap.set_use_on_oom(POOL, true);
    heap.end_pool(POOL).expect("open");
    heap.release_pool(POOL).expect("a user");
    heap.flush();
    assert_eq!((heap.base_state().pools, heap.base_state().order), <_>::default());
    heap.begin_pool(POOL, ScopeFilter::Thread, everyone()).expect("a new pool");
    let (first, second) = (heap.take(512), heap.take(512));
    assert!(first.0.abs_diff(second.0) < MIB, "its segments are split");
}

#[test]
fn a_pool_with_a_source_takes_its_segments_there_and_returns_them() {
    let mut heap = heap(GIB, Config { expandable_segments: true, ..Config::default() });
    let source = Source::shared(0, 50 * MIB);
    heap.create_pool(POOL, Some(source.clone())).expect("a new pool");
    heap.begin_pool(POOL, ScopeFilter::Thread, everyone()).expect("an open scope");
    let block = heap.take(40 * MIB);
    assert_eq!(source.lock().live, [(block, 40 * MIB)]);
    assert!(!heap.segments(POOL)[0].is_expandable, "its memory cannot be mapped");
    assert!(matches!(heap.try_take(20 * MIB), Err(AllocError::OutOfMemory(_))));
    heap.give(block);
    heap.end_pool(POOL).expect("open");
    for _ in 0..2 {
        heap.release_pool(POOL).expect("a user");
    }
    heap.flush();
    assert!(source.lock().live.is_empty());
}

#[test]
fn a_released_pool_serves_on_while_a_scope_still_leads_to_it() {
    let mut heap = scoped(100 * MIB, Config::default());
    let block = heap.take(60 * MIB);
    heap.give(block);
    heap.release_pool(POOL).expect("its only user");
    heap.set_config(Config::default());
    let grown = heap.take(90 * MIB);
    assert_eq!(pool_of(&heap, grown), POOL);
}

#[test]
fn a_pools_snapshot_shows_that_pool_only() {
    let mut heap = scoped(GIB, Config::default());
    heap.take(MIB);
    heap.end_pool(POOL).expect("open");
    heap.take(MIB);
    let pools = |id| heap.segments(id).iter().map(|s| s.pool).collect::<Vec<_>>();
    assert_eq!(pools(POOL), [POOL]);
    assert_eq!(pools(PoolId::DEFAULT).len(), 2);
}
