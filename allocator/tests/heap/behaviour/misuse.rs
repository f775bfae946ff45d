//! Calls that make no sense change nothing.

use allocator::heap::{AllocError, HeapError};
use settings::Config;
use trace_format::{Addr, PoolId, StackId, Stream};

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

/// Everything one can see of a heap.
fn seen(heap: &mut TestHeap) -> (Vec<(String, i64)>, Vec<trace_format::SegmentState>, usize) {
    heap.check().expect("consistent");
    let events = heap.recorder_mut().events.len();
    (heap.stats().flat(), heap.segments(PoolId::DEFAULT), events)
}

fn busy() -> (TestHeap, Addr) {
    let mut heap = heap(GIB, Config::default());
    let gone = heap.take(5 * MIB);
    heap.take(3 * MIB);
    heap.give(gone);
    (heap, gone)
}

#[test]
fn a_double_free_is_an_error_that_names_the_address() {
    let (mut heap, gone) = busy();
    let before = seen(&mut heap);
    let error = heap.free(gone, StackId::NONE).expect_err("free already");
    assert_eq!(error, AllocError::Heap(HeapError::UnknownPointer { addr: gone }));
    assert!(error.to_string().contains(&gone.to_string()));
    assert_eq!(seen(&mut heap), before);
}

#[test]
fn an_address_inside_a_block_is_unknown() {
    let (mut heap, _) = busy();
    let live = heap.take(8 * MIB);
    let before = seen(&mut heap);
    let inside = Addr(live.0 + 512);
    assert!(heap.free(inside, StackId::NONE).is_err());
    assert!(heap.record_stream(inside, Stream(16)).is_err());
    assert!(heap.free_deferred(inside, StackId::NONE).is_err());
    assert!(heap.base_allocation(inside).is_err());
    assert_eq!(seen(&mut heap), before);
}

#[test]
fn a_fraction_outside_0_to_1_is_refused_in_pytorchs_words() {
    let (mut heap, _) = busy();
    for fraction in [-0.1, 1.5, f64::NAN] {
        let error = heap.set_memory_fraction(fraction).expect_err("no fraction");
        let words = format!("invalid fraction:{fraction}. Please set within [0, 1].");
        assert_eq!(error.to_string(), words);
    }
    assert!((heap.memory_fraction() - 1.0).abs() < f64::EPSILON);
}

#[test]
fn pools_that_do_not_exist_or_are_over_are_errors() {
    let (mut heap, _) = busy();
    let pool = PoolId(7, 0);
    assert_eq!(heap.release_pool(pool), Err(HeapError::UnknownPool { pool }));
    assert_eq!(heap.pool_use_count(pool), Err(HeapError::UnknownPool { pool }));
    assert_eq!(heap.end_pool(pool), Err(HeapError::NotOpen { pool }));
    assert_eq!(heap.capture_begin(pool), Err(HeapError::NotOpen { pool }));
    heap.create_pool(pool, None).expect("a new pool");
    heap.release_pool(pool).expect("its only user");
    assert_eq!(heap.release_pool(pool), Err(HeapError::Released { pool }));
    assert_eq!(heap.create_pool(pool, None), Err(HeapError::Released { pool }));
    heap.flush();
    heap.create_pool(pool, None).expect("ended, so new again");
}

#[test]
fn opening_a_scope_twice_changes_no_use_count() {
    let (mut heap, _) = busy();
    let pool = PoolId(7, 0);
    let none = || std::sync::Arc::new(|_| false);
    heap.begin_pool(pool, trace_format::ScopeFilter::Thread, none()).expect("a new pool");
    let again = heap.begin_pool(pool, trace_format::ScopeFilter::Thread, none());
    assert_eq!(again, Err(HeapError::AlreadyOpen { pool }));
    assert_eq!(heap.pool_use_count(pool), Ok(1));
}

#[test]
fn the_base_of_an_allocation_is_its_segment() {
    let mut heap = heap(GIB, Config::default());
    let first = heap.take(2 * MIB);
    let second = heap.take(3 * MIB);
    assert_eq!(heap.base_allocation(second), Ok((first, 20 * MIB)));
    heap.set_config(Config { expandable_segments: true, ..Config::default() });
    let grown = heap.take(30 * MIB);
    assert_eq!(heap.base_allocation(grown), Err(HeapError::Expandable { addr: grown }));
}
