//! Graph captures: what waits for their end, and what a graph's own order lets go.

use std::sync::Arc;

use allocator::heap::AllocError;
use device::{CaptureMode, Device};
use settings::{Compat, Config};
use trace_format::{Addr, PoolId, ScopeFilter, Stream};

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

const POOL: PoolId = PoolId(1, 0);
const MAIN: Stream = Stream(16);
const SIDE: Stream = Stream(32);
const BOTH: [Compat; 2] = [Compat::V2_11, Compat::V2_15];

/// A capture on the main stream that the side stream has joined, with one node on each.
fn capturing(capacity_bytes: u64, config: Config) -> TestHeap {
    let mut heap = heap(capacity_bytes, config);
    let captured = Arc::new(|stream: Stream| [MAIN, SIDE].contains(&stream));
    heap.begin_pool(POOL, ScopeFilter::Capture, captured).expect("a new pool");
    heap.device_mut().begin_capture(MAIN, CaptureMode::Global).expect("a capture");
    launch(&mut heap, MAIN);
    join(&mut heap, MAIN, SIDE);
    heap
}

fn with(compat: Compat, reuse: bool) -> Config {
    Config { compat, graph_capture_record_stream_reuse: reuse, ..Config::default() }
}

fn launch(heap: &mut TestHeap, stream: Stream) {
    heap.device_mut().launch(stream).expect("a valid capture");
}

fn join(heap: &mut TestHeap, from: Stream, to: Stream) {
    let device = heap.device_mut();
    let event = device.event_record(from).expect("an event");
    device.wait_event(to, event).expect("a join");
    device.event_release(event);
}

fn end(heap: &mut TestHeap) {
    join(heap, SIDE, MAIN);
    heap.device_mut().end_capture(MAIN).expect("nothing invalidated the capture");
    heap.end_pool(POOL).expect("open");
}

/// A block used on the side stream within the graph, and given back.
fn side_block(heap: &mut TestHeap) -> Addr {
    let block = heap.take_on(MAIN.0, 40 * MIB);
    launch(heap, SIDE);
    heap.record_stream(block, SIDE).expect("live");
    heap.give(block);
    block
}

#[test]
fn a_captured_free_waits_for_the_end_of_the_capture() {
    for compat in BOTH {
        let mut heap = capturing(GIB, with(compat, false));
        let block = side_block(&mut heap);
        join(&mut heap, SIDE, MAIN);
        assert_ne!(heap.take_on(MAIN.0, 40 * MIB), block);
        end(&mut heap);
        heap.take(512);
        assert_eq!(heap.stats().active.all.current, 2, "{compat:?}: no event for a captured use");
    }
}

#[test]
fn with_reuse_a_block_comes_back_once_the_graph_has_joined_its_uses() {
    for compat in BOTH {
        let mut heap = capturing(GIB, with(compat, true));
        let block = side_block(&mut heap);
        let other = heap.take_on(MAIN.0, 40 * MIB);
        assert_ne!(other, block, "{compat:?}: the side stream may still use it");
        join(&mut heap, SIDE, MAIN);
        assert_eq!(heap.take_on(MAIN.0, 40 * MIB), block, "{compat:?}");
        end(&mut heap);
    }
}

#[test]
fn with_reuse_only_2_15_completes_held_frees_at_the_end_of_the_capture() {
    for (compat, active) in [(Compat::V2_11, 1), (Compat::V2_15, 0)] {
        let mut heap = capturing(GIB, with(compat, true));
        side_block(&mut heap);
        end(&mut heap);
        assert_eq!(heap.stats().active.all.current, active, "{compat:?}");
        heap.take(512);
        assert_eq!(heap.stats().active.all.current, 1, "{compat:?}");
    }
}

#[test]
fn a_use_outside_the_capture_is_awaited_after_its_end() {
    let outside = Stream(48);
    for reuse in [false, true] {
        let mut heap = capturing(GIB, with(Compat::V2_15, reuse));
        let block = heap.take_on(MAIN.0, 40 * MIB);
        heap.record_stream(block, outside).expect("live");
        heap.give(block);
        end(&mut heap);
        heap.take(512);
        assert_eq!(heap.stats().active.all.current, 2, "the outside stream is not done");
        heap.device_mut().stream_synchronize(outside).expect("done");
        heap.take(512);
        assert_eq!(heap.stats().active.all.current, 2);
    }
}

#[test]
fn a_block_used_by_a_capturing_stream_is_held_back_with_the_capture() {
    let mut heap = capturing(GIB, with(Compat::V2_15, false));
    // Allocated and freed outside the capture: pytorch#193982 asks a captured event here, and fails.
    let block = heap.take(40 * MIB);
    heap.record_stream(block, SIDE).expect("live");
    heap.give(block);
    let other = heap.take(40 * MIB);
    assert_ne!(other, block);
    end(&mut heap);
    heap.take(512);
    heap.give(other);
    heap.flush();
    assert_eq!(heap.stats().active.all.current, 1);
}

#[test]
fn allocating_beside_a_capture_does_not_invalidate_it() {
    let mut heap = capturing(100 * MIB, with(Compat::V2_15, false));
    let block = heap.take(40 * MIB);
    heap.record_stream(block, Stream(48)).expect("live");
    heap.give(block);
    // A miss, a refused segment, a flush that waits for an event and frees.
    heap.take(80 * MIB);
    assert_eq!(heap.stats().num_sync_all_streams, 1);
    end(&mut heap);
}

#[test]
fn in_a_capture_nothing_is_flushed() {
    for compat in BOTH {
        let mut heap = heap(100 * MIB, with(compat, false));
        let cached = heap.take(60 * MIB);
        heap.give(cached);
        heap.begin_pool(POOL, ScopeFilter::Capture, Arc::new(|_| true)).expect("a new pool");
        assert!(matches!(heap.try_take(80 * MIB), Err(AllocError::OutOfMemory(_))), "{compat:?}");
        heap.flush();
        assert!(heap.device_mut().allocation_bytes(cached).is_some(), "{compat:?}");
        heap.end_pool(POOL).expect("open");
        heap.take(80 * MIB);
    }
}

#[test]
fn a_mem_pool_counts_as_a_capture_in_2_11_only() {
    for (compat, flushes) in [(Compat::V2_11, false), (Compat::V2_15, true)] {
        let mut heap = heap(100 * MIB, with(compat, false));
        let cached = heap.take(60 * MIB);
        heap.give(cached);
        heap.begin_pool(POOL, ScopeFilter::Thread, Arc::new(|_| true)).expect("a new pool");
        assert_eq!(heap.try_take(80 * MIB).is_ok(), flushes, "{compat:?}");
    }
}

#[test]
fn a_mem_pool_inside_a_capture_is_part_of_it() {
    let mut heap = capturing(GIB, with(Compat::V2_15, false));
    heap.begin_pool(PoolId(0, 1), ScopeFilter::Thread, Arc::new(|_| true)).expect("a new pool");
    let block = side_block(&mut heap);
    heap.end_pool(PoolId(0, 1)).expect("open");
    assert_ne!(heap.take_on(MAIN.0, 40 * MIB), block);
    end(&mut heap);
    heap.take(512);
    assert_eq!(heap.stats().active.all.current, 2, "the held block came back");
}

#[test]
fn an_unknown_scope_asks_the_device() {
    let mut heap = heap(100 * MIB, with(Compat::V2_15, false));
    let cached = heap.take_on(MAIN.0, 60 * MIB);
    heap.give(cached);
    heap.begin_pool(POOL, ScopeFilter::Unknown, Arc::new(|_| true)).expect("a new pool");
    heap.device_mut().begin_capture(MAIN, CaptureMode::Global).expect("a capture");
    let captured = heap.malloc(&crate::support::request(80 * MIB, MAIN));
    assert!(matches!(captured, Err(AllocError::OutOfMemory(_))));
    heap.device_mut().end_capture(MAIN).expect("nothing invalidated the capture");
    heap.take_on(MAIN.0, 80 * MIB);
}
