//! The rules of `stitch`, one by one.

use std::sync::Arc;

use device::{CaptureMode, Device, DeviceCall};
use settings::{Config, Plan, PlannedRequest, PlannedSequence, StitchConfig};
use trace_format::{Addr, PoolId, ScopeFilter, Stream};

use super::{MANY_REQUESTS, begin_step, stitched};
use crate::support::{Calls, GIB, KIB, MIB, TestHeap, heap};

fn calls(heap: &mut TestHeap) -> u64 {
    let counts = heap.device_mut().counts();
    counts.of(DeviceCall::Create) + counts.of(DeviceCall::Map) + counts.of(DeviceCall::Unmap)
}

/// One step of a program whose result lives until the next step's replaces it.
fn step(heap: &mut TestHeap, sizes: &[u64], result: &mut Option<Addr>) {
    let blocks: Vec<Addr> = sizes.iter().map(|size| heap.take(*size)).collect();
    let next = heap.take(9 * MIB);
    if let Some(last) = result.replace(next) {
        heap.give(last);
    }
    // In another order than they came.
    let (even, odd): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    even.into_iter().chain(odd).for_each(|(_, addr)| heap.give(*addr));
}

#[test]
fn a_repeated_step_makes_no_driver_call_from_its_fourth_execution() {
    let mut heap = stitched(4 * GIB, StitchConfig::default());
    let sizes: Vec<u64> = (0..40).map(|n| (n * 977 % 23 + 2) * MIB + n * 12_345).collect();
    let mut result = None;
    for _ in 0..3 {
        step(&mut heap, &sizes, &mut result);
    }
    let settled = calls(&mut heap);
    for _ in 0..10 {
        step(&mut heap, &sizes, &mut result);
    }
    assert_eq!(calls(&mut heap), settled);
}

/// New addresses would take 20 mappings.
#[test]
fn a_place_that_lost_a_page_in_a_step_that_repeats_gets_another_page() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let (spare, whole, _wall) = (heap.take(10 * MIB), heap.take(40 * MIB), heap.take(4 * MIB));
    heap.give(whole);
    let step = |heap: &mut TestHeap| {
        for size in 9..=20 {
            let addr = heap.take(size * 2 * MIB);
            heap.give(addr);
        }
    };
    for _ in 0..6 {
        step(&mut heap);
    }
    heap.give(spare);
    // The page that is free for longest is one of the step's.
    heap.take(512 * KIB);
    let maps = |heap: &mut TestHeap| heap.device_mut().counts().of(DeviceCall::Map);
    let (before, reserved) = (maps(&mut heap), heap.reserved_bytes());
    step(&mut heap);
    assert_eq!((maps(&mut heap) - before, heap.reserved_bytes()), (1, reserved));
    step(&mut heap);
    assert_eq!(maps(&mut heap) - before, 1, "it has all its pages again");
}

/// Eight pages of small requests are part of a large one's place. One of them is in use from the seventh execution on,
/// and another one from the eighth on.
#[test]
fn a_place_that_lost_a_page_of_small_requests_gets_pages_of_large_ones_for_all_of_these() {
    let maps_with = |spare_bytes| {
        let mut heap = stitched(GIB, StitchConfig::default());
        let spare = heap.take(spare_bytes);
        let step = |heap: &mut TestHeap, kept: usize| {
            let before = heap.device_mut().counts().of(DeviceCall::Map);
            begin_step(heap, MANY_REQUESTS);
            let small: Vec<Addr> = (0..16).map(|_| heap.take(MIB)).collect();
            small.iter().skip(kept).for_each(|addr| heap.give(*addr));
            let large = heap.take(32 * MIB);
            heap.give(large);
            small.iter().take(kept).for_each(|addr| heap.give(*addr));
            heap.device_mut().counts().of(DeviceCall::Map) - before
        };
        for _ in 0..6 {
            step(&mut heap, 0);
        }
        heap.give(spare);
        let reserved_bytes = heap.reserved_bytes();
        let maps = [1, 3, 3].map(|kept| step(&mut heap, kept));
        assert_eq!(heap.reserved_bytes(), reserved_bytes);
        heap.check().expect("consistent");
        maps
    };
    assert_eq!(maps_with(16 * MIB), [8, 0, 0]);
    assert_eq!(maps_with(4 * MIB), [1, 1, 0], "two pages are free");
}

/// A loader begins to alternate between two buffers, and the step's largest request needs the pages of the other one:
/// the memory has no page for more.
#[test]
fn a_request_whose_pages_another_stream_takes_in_turns_gets_a_second_place() {
    const LOADER: u64 = 16;
    let mut heap = stitched(88 * MIB, StitchConfig::default());
    let mut held = heap.take_on(LOADER, 24 * MIB);
    let mut maps = Vec::new();
    for n in 0..24 {
        if n >= 8 {
            let next = heap.take_on(LOADER, 24 * MIB);
            heap.give(held);
            held = next;
        }
        heap.device_mut().stream_synchronize(Stream(LOADER)).expect("it is not captured");
        for size in (9..=20).chain([32]) {
            let addr = heap.take(size * 2 * MIB);
            heap.give(addr);
        }
        heap.device_mut().stream_synchronize(Stream(0)).expect("it is not captured");
        maps.push(heap.device_mut().counts().of(DeviceCall::Map));
    }
    assert_eq!(maps[15], maps[23], "pages that were mapped: {maps:?}");
}

#[test]
fn free_pages_of_scattered_blocks_serve_a_request_of_their_sum() {
    let mut heap = stitched(200 * MIB, StitchConfig::default());
    let blocks: Vec<Addr> = (0..10).map(|_| heap.take(20 * MIB)).collect();
    for addr in blocks.iter().step_by(2) {
        heap.give(*addr);
    }
    let wide = heap.take(100 * MIB);
    assert_eq!(heap.reserved_bytes(), 200 * MIB, "no page was created for it");
    heap.give(wide);
}

#[test]
fn free_pages_of_small_requests_serve_a_large_one_after_those_of_large_ones() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let small: Vec<Addr> = (0..8).map(|_| heap.take(MIB)).collect();
    let (large, _wall) = (heap.take(8 * MIB), heap.take(2 * MIB));
    for addr in small {
        heap.give(addr);
    }
    heap.give(large);
    let reserved_bytes = heap.reserved_bytes();
    heap.take(12 * MIB);
    assert_eq!(heap.reserved_bytes(), reserved_bytes, "four pages of one and two of the others");
    let before = calls(&mut heap);
    for _ in 0..4 {
        heap.take(MIB);
    }
    assert_eq!(calls(&mut heap), before, "the other two are where they were");
}

/// Each block lives until the third one after it exists. Another free block of the same size has a lower address.
#[test]
fn a_request_returns_to_its_place_of_three_steps_back_where_those_of_two_are_live() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let (other, _wall) = (heap.take(8 * MIB), heap.take(4 * MIB));
    let mut addrs = Vec::new();
    for execution in 0..8 {
        begin_step(&mut heap, MANY_REQUESTS);
        if execution == 7 {
            heap.give(other);
        }
        addrs.push(heap.take(8 * MIB));
        if let [.., third, _, _] = addrs[..] {
            heap.give(third);
        }
    }
    assert_eq!(addrs[7], addrs[4], "{addrs:?}");
}

/// Eight pages of small requests become free before a large one. Its block of the execution before is not freed.
#[test]
fn free_pages_of_small_requests_stay_there_in_the_fourth_execution_of_a_step_that_is_followed() {
    let step = |heap: &mut TestHeap, requests| {
        begin_step(heap, requests);
        let small: Vec<Addr> = (0..16).map(|_| heap.take(MIB)).collect();
        for addr in small {
            heap.give(addr);
        }
        let reserved_bytes = heap.reserved_bytes();
        let large = heap.take(32 * MIB);
        (large, heap.reserved_bytes() - reserved_bytes)
    };
    let new_bytes = |requests, executions, capacity_bytes| {
        let mut heap = stitched(capacity_bytes, StitchConfig::default());
        for _ in 2..executions {
            let (large, _) = step(&mut heap, requests);
            heap.give(large);
        }
        step(&mut heap, requests);
        let (_, new_bytes) = step(&mut heap, requests);
        heap.check().expect("consistent");
        new_bytes
    };
    let third_and_fourth = |requests| [3, 4].map(|execution| new_bytes(requests, execution, GIB));
    assert_eq!(third_and_fourth(2 * MANY_REQUESTS), [16 * MIB, 32 * MIB]);
    // Fewer than 256 requests in a row correspond, and more.
    let fourth = [80, 90].map(|requests| new_bytes(requests, 4, GIB));
    assert_eq!(fourth, [16 * MIB, 32 * MIB]);
    assert_eq!(new_bytes(MANY_REQUESTS, 4, 64 * MIB), 16 * MIB, "memory is short");
}

#[test]
fn only_new_pages_count_against_the_fraction_of_the_settings() {
    let config = Config {
        stitch: Some(StitchConfig::default()),
        throw_on_cudamalloc_oom: true,
        per_process_memory_fraction: 0.5,
        ..Config::default()
    };
    let mut heap = heap(64 * MIB, config);
    let addr = heap.take(20 * MIB);
    heap.give(addr);
    heap.take(32 * MIB);
    assert_eq!(heap.reserved_bytes(), 32 * MIB);
    heap.try_take(2 * MIB).expect_err("it needs a page beyond the fraction");
}

#[test]
fn blocks_smaller_than_a_page_share_pages() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let size = MIB + 512 * KIB;
    for _ in 0..64 {
        heap.take(size);
    }
    assert_eq!(heap.reserved_bytes(), 64 * size, "packed without a hole");
}

#[test]
fn the_partly_used_pages_of_a_hole_serve_what_fits_between_them() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let size = 10 * MIB + 512 * KIB;
    let blocks: Vec<Addr> = (0..3).map(|_| heap.take(size)).collect();
    heap.give(blocks[1]);
    // The whole pages of the hole go to another block; what is left of it are the ends.
    heap.take(12 * MIB);
    let reserved = heap.reserved_bytes();
    heap.device_mut().stream_synchronize(Stream(0)).expect("it is not captured");
    heap.take(size);
    assert_eq!(heap.reserved_bytes() - reserved, 8 * MIB, "the ends hold the rest");
}

#[test]
fn pages_of_another_stream_wait_for_its_work() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let theirs = heap.take_on(16, 40 * MIB);
    heap.give(theirs);
    heap.take_on(0, 40 * MIB);
    assert_eq!(heap.reserved_bytes(), 80 * MIB, "stream 16 may not have passed the free");
    let ours = heap.take_on(0, 2 * MIB);
    heap.device_mut().stream_synchronize(Stream(16)).expect("it is not captured");
    heap.take_on(0, 20 * MIB);
    assert_eq!(heap.reserved_bytes(), 82 * MIB, "its pages serve");
    heap.give(ours);
}

#[test]
fn memory_that_is_short_waits_for_other_streams() {
    let mut heap = stitched(64 * MIB, StitchConfig::default());
    let theirs = heap.take_on(16, 60 * MIB);
    heap.give(theirs);
    heap.take_on(0, 62 * MIB);
    assert!(heap.stats().num_alloc_retries == 1 && heap.stats().num_ooms == 0);
}

#[test]
fn an_emptied_cache_returns_pages_and_keeps_blocks() {
    let mut heap = stitched(GIB, StitchConfig::default());
    let kept = heap.take(3 * MIB);
    let freed = heap.take(30 * MIB);
    heap.give(freed);
    heap.flush();
    assert_eq!(heap.reserved_bytes(), 4 * MIB);
    heap.give(kept);
    heap.flush();
    assert_eq!(heap.reserved_bytes(), 0);
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

/// The ghosts of the place are unmapped after a wait for the kernels that may use them. While a graph is captured, no
/// stream is waited for.
#[test]
fn a_planned_place_with_busy_ghosts_is_left_out_while_a_graph_is_captured() {
    let size_bytes = 20 * MIB;
    let planned =
        |offset_bytes, freed_before| PlannedRequest { size_bytes, offset_bytes, freed_before };
    let requests = vec![planned(0, Some(1)), planned(2 * size_bytes, None), planned(0, None)];
    let plan = Arc::new(Plan { sequences: vec![PlannedSequence { stream: 0, requests }] });
    for is_captured in [false, true] {
        let (stitch, plan) = (Some(StitchConfig::default()), Some(Arc::clone(&plan)));
        let mut heap = heap(GIB, Config { stitch, plan, ..Config::default() });
        let first = heap.take(size_bytes);
        heap.give(first);
        // Its pages move to the second place.
        let second = heap.take(size_bytes);
        assert_eq!((second.0 - first.0, heap.reserved_bytes()), (2 * size_bytes, size_bytes));
        if is_captured {
            let other = Arc::new(|stream: Stream| stream == Stream(16));
            heap.begin_pool(PoolId(1, 0), ScopeFilter::Capture, other).expect("a new pool");
            heap.device_mut().begin_capture(Stream(16), CaptureMode::Global).expect("a capture");
        }
        let waits =
            |heap: &mut TestHeap| heap.device_mut().counts().of(DeviceCall::StreamSynchronize);
        let before = waits(&mut heap);
        let third = heap.take(size_bytes);
        assert_eq!((third == first, waits(&mut heap) > before), (!is_captured, !is_captured));
    }
}
