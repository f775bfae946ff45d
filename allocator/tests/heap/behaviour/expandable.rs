//! Expandable segments: growth at the tail, partial unmapping, trimming.

use allocator::heap::AllocError;
use device::DeviceCall;
use settings::{Compat, Config};
use sim_device::Fault;
use trace_format::{DeviceId, PoolId, StackId};

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

fn growing(capacity_bytes: u64) -> TestHeap {
    heap(capacity_bytes, Config { expandable_segments: true, ..Config::default() })
}

/// The mapped runs, as (offset from the first, size).
fn runs(heap: &TestHeap) -> Vec<(u64, u64)> {
    let segments = heap.segments(PoolId::DEFAULT);
    segments.iter().map(|s| (s.addr.0 - segments[0].addr.0, s.size_bytes)).collect()
}

#[test]
fn a_segment_grows_at_its_tail_by_whole_pages() {
    let mut heap = growing(GIB);
    let first = heap.take(30 * MIB);
    assert_eq!(runs(&heap), [(0, 40 * MIB)]);
    let second = heap.take(30 * MIB);
    assert_eq!(second.0, first.0 + 30 * MIB, "right behind, over the page border");
    assert_eq!(runs(&heap), [(0, 60 * MIB)]);
    assert_eq!(heap.stats().num_device_alloc, 2);
    assert_eq!(heap.stats().segment.all.current, 0, "expandable segments do not count");
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Reserve), 1);
}

#[test]
fn small_and_large_requests_grow_segments_with_their_own_pages() {
    let mut heap = growing(GIB);
    heap.take(512);
    heap.take(2 * MIB);
    let sizes: Vec<_> = heap.segments(PoolId::DEFAULT).iter().map(|s| s.size_bytes).collect();
    assert_eq!(sizes, [2 * MIB, 20 * MIB]);
}

#[test]
fn each_stream_has_a_segment_of_its_own() {
    let mut heap = growing(GIB);
    heap.take_on(16, 2 * MIB);
    heap.take_on(32, 2 * MIB);
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Reserve), 2);
}

#[test]
fn a_flush_unmaps_the_whole_pages_inside_a_free_block() {
    let mut heap = growing(GIB);
    let front = heap.take(10 * MIB);
    let middle = heap.take(60 * MIB);
    heap.take(10 * MIB);
    heap.give(middle);
    heap.flush();
    assert_eq!(runs(&heap), [(0, 20 * MIB), (60 * MIB, 20 * MIB)]);
    assert_eq!(heap.stats().reserved_bytes.all.current, 40 << 20);
    assert!(heap.device_mut().accessible(front, DeviceId(0)));
}

#[test]
fn a_gap_is_mapped_again_before_the_tail_grows() {
    let mut heap = growing(GIB);
    heap.take(10 * MIB);
    let middle = heap.take(60 * MIB);
    heap.take(10 * MIB);
    heap.give(middle);
    heap.flush();
    assert_eq!(heap.take(60 * MIB), middle);
    assert_eq!(runs(&heap), [(0, 80 * MIB)]);
}

#[test]
fn a_flush_trims_the_tail_and_gives_an_empty_segment_up() {
    let mut heap = growing(GIB);
    let held = heap.take(10 * MIB);
    let tail = heap.take(50 * MIB);
    heap.give(tail);
    heap.flush();
    assert_eq!(runs(&heap), [(0, 20 * MIB)]);
    assert_eq!(heap.device_mut().counts().of(DeviceCall::StreamSynchronize), 1, "before unmapping");
    heap.give(held);
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn a_complete_block_wins_over_a_growable_tail() {
    let mut heap = growing(GIB);
    let inner = heap.take(24 * MIB);
    heap.take(10 * MIB);
    heap.give(inner);
    // The tail of 6 MiB is the smaller fit, but it can become as large as the device.
    assert_eq!(heap.take(5 * MIB), inner);
}

#[test]
fn pages_mapped_before_memory_ran_out_stay_mapped() {
    let mut heap = growing(100 * MIB);
    heap.take(30 * MIB);
    assert!(matches!(heap.try_take(90 * MIB), Err(AllocError::OutOfMemory(_))));
    heap.take(70 * MIB);
    assert_eq!(heap.stats().reserved_bytes.all.current, 100 << 20);
}

#[test]
fn a_refused_first_page_leaves_no_addresses_after_a_flush() {
    let mut heap = growing(10 * MIB);
    assert!(matches!(heap.try_take(5 * MIB), Err(AllocError::OutOfMemory(_))));
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn a_segment_reserves_what_the_settings_say_and_no_request_spans_two() {
    let text = "expandable_segments:True,expandable_segments_reserve:0.1G";
    let config = Config::parse(text, Compat::V2_15).expect("valid settings").config;
    let mut heap = heap(GIB, config);
    heap.take(60 * MIB);
    heap.take(70 * MIB);
    let segments = heap.segments(PoolId::DEFAULT);
    assert_eq!(segments.len(), 2, "130 MiB are more than one segment has addresses for");
    assert_eq!(segments[1].addr.0 - segments[0].addr.0, 120 * MIB, "0.1 GiB in pages of 20 MiB");
    let error = heap.try_take(130 * MIB).expect_err("no segment is so large").to_string();
    assert!(
        error.contains("exceeds the expandable-segment reserve of 102.40 MiB for this stream"),
        "{error}"
    );
    assert!(error.ends_with("so that a segment is at least 130.00 MiB."), "{error}");
}

#[test]
fn a_request_beyond_any_segment_reserves_no_addresses() {
    let mut heap = growing(100 * MIB);
    for _ in 0..3 {
        assert!(matches!(heap.try_take(200 * MIB), Err(AllocError::OutOfMemory(_))));
    }
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Reserve), 0);
}

#[test]
fn addresses_that_the_device_does_not_take_back_go_with_the_next_flush() {
    let mut heap = growing(GIB);
    let block = heap.take(30 * MIB);
    heap.give(block);
    let fault = Fault::Driver(719);
    heap.device_mut().faults_mut().fail_nth(DeviceCall::Unreserve, 1, fault);
    assert!(heap.empty_cache(PoolId::DEFAULT, StackId::NONE).is_err());
    heap.check().expect("consistent");
    assert_eq!(heap.stats().reserved_bytes.all.current, 0, "the memory is back");
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn switched_off_only_plain_segments_serve() {
    let mut heap = growing(GIB);
    let grown = heap.take(30 * MIB);
    heap.give(grown);
    heap.set_config(Config::default());
    let plain = heap.take(30 * MIB);
    assert!(!heap.segments(PoolId::DEFAULT).iter().any(|s| s.addr == plain && s.is_expandable));
    heap.set_config(Config { expandable_segments: true, ..Config::default() });
    assert_eq!(heap.take(30 * MIB), grown);
}

#[test]
fn switched_on_plain_segments_still_serve_and_split_finely() {
    let mut heap = heap(GIB, Config::default());
    let plain = heap.take(20 * MIB);
    heap.give(plain);
    heap.set_config(Config { expandable_segments: true, ..Config::default() });
    assert_eq!(heap.take(19 * MIB + 512 * 1024), plain);
    assert_eq!(heap.stats().allocated_bytes.all.current, (19 << 20) + (512 << 10));
}

#[test]
fn a_peer_reaches_the_pages_of_before_and_after() {
    let mut heap = growing(GIB);
    let before = heap.take(30 * MIB);
    heap.add_peer(DeviceId(1)).expect("a peer");
    let after = heap.take(30 * MIB);
    for addr in [before, after] {
        assert!(heap.device_mut().accessible(addr, DeviceId(1)));
    }
    assert!(heap.add_peer(DeviceId(7)).is_err(), "no such peer");
}

#[test]
fn pages_keep_the_size_their_segment_began_with() {
    let mut heap = growing(GIB);
    heap.take(30 * MIB);
    heap.set_config(Config {
        expandable_segments: true,
        large_segment_size_bytes: 64 * MIB,
        ..Config::default()
    });
    heap.take(30 * MIB);
    assert_eq!(runs(&heap), [(0, 60 * MIB)]);
}
