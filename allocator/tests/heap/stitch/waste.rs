//! Requests before which new pages would leave more than one reserved byte in 32 unused.

use device::DeviceCall;
use settings::StitchConfig;
use trace_format::Addr;

use super::{MANY_REQUESTS, begin_step, stitched};
use crate::support::{Calls, GIB, MIB, TestHeap};

/// A block beside which no new page is a waste.
const LARGE_BYTES: u64 = 3 * GIB;

fn with_live(live_bytes: u64) -> TestHeap {
    let mut heap = stitched(8 * GIB, StitchConfig::default());
    if live_bytes > 0 {
        heap.take(live_bytes);
    }
    heap
}

/// Eight pages of small requests become free, and a large one follows.
fn step(heap: &mut TestHeap, requests: u64) -> Addr {
    begin_step(heap, requests);
    let small: Vec<Addr> = (0..16).map(|_| heap.take(MIB)).collect();
    for addr in small {
        heap.give(addr);
    }
    heap.take(32 * MIB)
}

#[test]
fn pages_of_small_requests_serve_a_large_one_twice_before_new_ones_are_a_waste() {
    let grown_bytes = |live_bytes, steps| {
        let mut heap = with_live(live_bytes);
        for _ in 0..steps {
            let addr = step(&mut heap, MANY_REQUESTS);
            heap.give(addr);
        }
        // The pages of the steps before.
        heap.take(34 * MIB);
        let reserved_bytes = heap.reserved_bytes();
        step(&mut heap, MANY_REQUESTS);
        heap.check().expect("consistent");
        heap.reserved_bytes() - reserved_bytes
    };
    assert_eq!(grown_bytes(0, 2) + 16 * MIB, grown_bytes(LARGE_BYTES, 2), "in the third step");
    assert_eq!(grown_bytes(0, 3), grown_bytes(LARGE_BYTES, 3), "in the fourth");
}

#[test]
fn pages_that_served_both_once_serve_both_without_a_driver_call_in_steps_that_are_certain() {
    let maps = |requests| {
        let mut heap = with_live(0);
        let run = |heap: &mut TestHeap, steps| {
            for _ in 0..steps {
                let addr = step(heap, requests);
                heap.give(addr);
            }
            heap.device_mut().counts().of(DeviceCall::Map)
        };
        run(&mut heap, 2);
        heap.take(34 * MIB);
        let before = run(&mut heap, 1);
        let maps = run(&mut heap, 4) - before;
        heap.check().expect("consistent");
        maps
    };
    assert_eq!(maps(MANY_REQUESTS), 0);
    assert!(maps(30) > 0, "few requests correspond");
}

#[test]
fn a_place_that_uses_up_more_free_pages_is_given_up_only_after_a_waste() {
    let is_given_up = |live_bytes| {
        let mut heap = with_live(live_bytes);
        // The middle one leaves two whole pages, and a half of another. Behind the last one, a request takes three.
        let [_, middle, _] = [3 * MIB, 5 * MIB, 4 * MIB].map(|bytes| heap.take(bytes));
        begin_step(&mut heap, MANY_REQUESTS);
        let first = heap.take(5 * MIB);
        heap.give(first);
        heap.give(middle);
        begin_step(&mut heap, MANY_REQUESTS);
        let second = heap.take(5 * MIB);
        assert!(second == first || second == middle, "{first:?} {middle:?} {second:?}");
        heap.check().expect("consistent");
        second == middle
    };
    assert_eq!((is_given_up(0), is_given_up(LARGE_BYTES)), (true, false));
}
