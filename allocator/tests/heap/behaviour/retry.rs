//! What is tried, and counted, when the device has no memory.

use allocator::heap::AllocError;
use device::DeviceCall;
use settings::Config;
use trace_format::{Event, Stream};

use crate::support::{Calls, MIB, TestHeap, heap};

fn counts(heap: &TestHeap) -> (i64, i64, i64) {
    let stats = heap.stats();
    (stats.num_alloc_retries, stats.num_sync_all_streams, stats.num_ooms)
}

#[test]
fn a_flush_makes_room_and_counts_one_retry_and_one_sync() {
    let mut heap = heap(100 * MIB, Config::default());
    let cached = heap.take(60 * MIB);
    heap.give(cached);
    heap.take(80 * MIB);
    assert_eq!(counts(&heap), (1, 1, 0));
    assert_eq!(heap.stats().num_device_free, 1);
}

#[test]
fn a_refusal_counts_one_retry_one_sync_and_one_oom() {
    let mut heap = heap(100 * MIB, Config::default());
    assert!(matches!(heap.try_take(120 * MIB), Err(AllocError::OutOfMemory(_))));
    assert_eq!(counts(&heap), (1, 1, 1));
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Malloc), 2);
}

#[test]
fn enough_oversize_blocks_go_before_everything_does() {
    let config = Config { max_split_size_bytes: 20 * MIB, ..Config::default() };
    let mut heap = heap(130 * MIB, config);
    let [small, middle, large] = [24, 36, 44].map(|mib| heap.take(mib * MIB));
    let other = heap.take_on(16, 20 * MIB);
    for addr in [small, middle, large, other] {
        heap.give(addr);
    }
    // 6 MiB are free. 70 need the largest two, and the other stream's block is left alone.
    let taken = heap.take(70 * MIB);
    assert_eq!(counts(&heap), (0, 0, 0), "no flush");
    let device = heap.device_mut();
    let kept = [small, other].map(|addr| device.allocation_bytes(addr).is_some());
    assert_eq!(kept, [true, true]);
    assert!([middle, large].contains(&taken), "in the place of what went");
}

#[test]
fn one_oversize_block_that_is_large_enough_goes_alone() {
    let config = Config { max_split_size_bytes: 20 * MIB, ..Config::default() };
    let mut heap = heap(160 * MIB, config);
    let [wide, wider] = [60, 90].map(|mib| heap.take(mib * MIB));
    heap.give(wide);
    heap.give(wider);
    heap.take(40 * MIB);
    assert_eq!(heap.stats().num_device_free, 1);
    assert!(heap.device_mut().allocation_bytes(wider).is_some());
}

#[test]
fn a_part_of_a_segment_stays_however_large_it_is() {
    let config = Config {
        max_split_size_bytes: 32 * MIB,
        large_segment_size_bytes: 64 * MIB,
        ..Config::default()
    };
    let mut heap = heap(130 * MIB, config);
    let front = heap.take(5 * MIB);
    assert!(matches!(heap.try_take(70 * MIB), Err(AllocError::OutOfMemory(_))));
    assert_eq!(heap.stats().num_device_free, 0);
    heap.give(front);
    heap.take(70 * MIB);
    assert_eq!(heap.stats().num_device_free, 1, "whole again, it goes");
}

#[test]
fn a_fraction_refuses_without_asking_the_device() {
    let mut heap = heap(100 * MIB, Config::default());
    heap.set_memory_fraction(0.5).expect("a fraction");
    assert!(matches!(heap.try_take(60 * MIB), Err(AllocError::OutOfMemory(_))));
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Malloc), 0);
    let within = heap.take(50 * MIB);
    heap.give(within);
    heap.set_memory_fraction(1.0).expect("no limit");
    heap.take(60 * MIB);
}

/// A block in use by another stream fits; everything else of the device is in use.
fn fits_after_flush(search_after_flush: bool) -> (TestHeap, trace_format::Addr) {
    let mut heap = heap(100 * MIB, Config { search_after_flush, ..Config::default() });
    let segment = heap.take(60 * MIB);
    heap.give(segment);
    let pending = heap.take(50 * MIB);
    heap.take(10 * MIB);
    heap.record_stream(pending, Stream(16)).expect("it is live");
    heap.give(pending);
    heap.take(30 * MIB);
    (heap, pending)
}

#[test]
fn without_the_search_after_the_flush_a_fitting_block_is_refused() {
    let (mut heap, _) = fits_after_flush(false);
    assert!(matches!(heap.try_take(50 * MIB), Err(AllocError::OutOfMemory(_))));
    heap.take(50 * MIB);
    assert_eq!(counts(&heap), (1, 1, 1), "pytorch#189504: the next request finds it");
}

#[test]
fn the_search_after_the_flush_finds_what_the_flush_freed() {
    let (mut heap, pending) = fits_after_flush(true);
    assert_eq!(heap.take(50 * MIB), pending);
    assert_eq!(counts(&heap), (1, 1, 0));
}

#[test]
fn the_tape_shows_each_refusal_before_what_followed() {
    let mut heap = heap(100 * MIB, Config::default());
    let cached = heap.take(60 * MIB);
    heap.give(cached);
    heap.recorder_mut().events.clear();
    heap.take(80 * MIB);
    let names: Vec<_> =
        heap.recorder_mut().events.iter().map(|(_, event)| Event::name(event)).collect();
    assert_eq!(names, ["driver_refused", "segment_free", "segment_alloc", "alloc"]);
}
