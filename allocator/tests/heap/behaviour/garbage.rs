//! Garbage collection: which cached segments go before memory is short.

use settings::Config;
use trace_format::Addr;

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

/// Collects above half of 1 GiB.
fn collecting() -> TestHeap {
    let config = Config {
        garbage_collection_threshold: 0.5,
        per_process_memory_fraction: 0.5,
        ..Config::default()
    };
    heap(2 * GIB, config)
}

fn holds(heap: &mut TestHeap, addr: Addr) -> bool {
    heap.device_mut().allocation_bytes(addr).is_some()
}

#[test]
fn nothing_is_collected_below_the_threshold() {
    let mut heap = collecting();
    let old = heap.take(200 * MIB);
    heap.give(old);
    heap.take(250 * MIB);
    assert!(holds(&mut heap, old));
    assert_eq!(heap.stats().num_device_free, 0);
}

#[test]
fn blocks_older_than_the_average_go_and_younger_ones_stay() {
    let mut heap = collecting();
    let old = heap.take(200 * MIB);
    let young = heap.take(300 * MIB);
    let held = heap.take(100 * MIB);
    heap.give(old);
    // Each search of the large pool makes `old` one older; `held` is taken from the cache again and again.
    for _ in 0..4 {
        heap.give(held);
        assert_eq!(heap.take(100 * MIB), held);
    }
    heap.give(young);
    heap.take(302 * MIB);
    assert!(!holds(&mut heap, old), "older than the average");
    assert!(holds(&mut heap, young));
    assert_eq!(heap.stats().num_device_free, 1);
}

#[test]
fn a_pass_does_not_stop_at_the_target() {
    let mut heap = collecting();
    let blocks = [100, 110, 120, 130].map(|mib| heap.take(mib * MIB));
    heap.take(100 * MIB);
    for block in blocks {
        heap.give(block);
    }
    // 560 MiB are held, 48 too many: any one block would do, but all are of one age.
    heap.take(200 * MIB);
    assert_eq!(heap.stats().num_device_free, 4);
}

#[test]
fn a_part_of_a_segment_is_never_collected() {
    let mut heap = collecting();
    let block = heap.take(500 * MIB);
    heap.give(block);
    let part = heap.take(100 * MIB);
    assert_eq!(part, block);
    heap.take(450 * MIB);
    assert_eq!(heap.stats().num_device_free, 0);
}

#[test]
fn without_a_memory_fraction_the_threshold_does_nothing() {
    let config = Config { garbage_collection_threshold: 0.01, ..Config::default() };
    let mut heap = heap(2 * GIB, config);
    let old = heap.take(500 * MIB);
    heap.give(old);
    heap.take(600 * MIB);
    assert!(holds(&mut heap, old));
}
