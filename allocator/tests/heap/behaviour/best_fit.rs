//! Which block serves a request.

use settings::{Compat, Config};
use trace_format::{BlockStatus, PoolId};

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

fn plain() -> TestHeap {
    heap(4 * GIB, Config::default())
}

/// Blocks of 32 MiB and more are never split, and round up by less than 8 MiB.
fn split_limited() -> TestHeap {
    let config = Config {
        max_split_size_bytes: 32 * MIB,
        max_non_split_rounding_bytes: 8 * MIB,
        ..Config::default()
    };
    heap(4 * GIB, config)
}

fn segments(heap: &TestHeap) -> usize {
    heap.segments(PoolId::DEFAULT).len()
}

#[test]
fn of_equal_blocks_the_lowest_address_serves() {
    let mut heap = plain();
    let taken: Vec<_> = (0..4).map(|_| heap.take(40 * MIB)).collect();
    for at in [3, 1, 2] {
        heap.give(taken[at]);
    }
    assert_eq!(heap.take(40 * MIB), taken[1]);
    assert_eq!(heap.take(40 * MIB), taken[2]);
    assert_eq!(heap.take(40 * MIB), taken[3]);
}

#[test]
fn of_equal_blocks_2_11_takes_the_lowest_and_2_15_that_of_the_oldest_segment() {
    for compat in [Compat::V2_11, Compat::V2_15] {
        let mut heap = heap(4 * GIB, Config { compat, ..Config::default() });
        let hole = heap.take(40 * MIB);
        let oldest = heap.take(40 * MIB);
        heap.give(hole);
        heap.flush();
        let lowest = heap.take(40 * MIB);
        assert!(lowest < oldest);
        heap.give(lowest);
        heap.give(oldest);
        let expected = if compat == Compat::V2_11 { lowest } else { oldest };
        assert_eq!(heap.take(40 * MIB), expected, "{compat:?}");
    }
}

#[test]
fn the_smallest_fitting_block_serves_wherever_it_lies() {
    let mut heap = plain();
    let large = heap.take(60 * MIB);
    let small = heap.take(42 * MIB);
    heap.give(large);
    heap.give(small);
    assert_eq!(heap.take(41 * MIB), small);
    assert_eq!(heap.take(43 * MIB), large);
}

#[test]
fn a_large_block_is_split_only_if_more_than_1_mib_remains() {
    let mut heap = plain();
    let block = heap.take(20 * MIB);
    heap.give(block);
    let whole = heap.take(19 * MIB);
    assert_eq!(heap.stats().allocated_bytes.all.current, 20 << 20);
    heap.give(whole);
    heap.take(19 * MIB - 512);
    assert_eq!(heap.stats().allocated_bytes.all.current, (19 << 20) - 512);
}

#[test]
fn a_small_block_is_split_down_to_512_bytes() {
    let mut heap = plain();
    let first = heap.take(1);
    let second = heap.take(513);
    assert_eq!(second.0 - first.0, 512);
    let third = heap.take(MIB);
    assert_eq!(third.0 - second.0, 1024);
    let blocks = &heap.segments(PoolId::DEFAULT)[0].blocks;
    assert_eq!(blocks.last().map(|block| block.status), Some(BlockStatus::Inactive));
}

#[test]
fn one_mib_is_small_and_one_byte_more_is_large() {
    let mut heap = plain();
    heap.take(MIB);
    heap.take(MIB + 1);
    let sizes: Vec<_> =
        heap.segments(PoolId::DEFAULT).iter().map(|s| (s.size_bytes, s.is_large)).collect();
    assert_eq!(sizes, [(2 * MIB, false), (20 * MIB, true)]);
}

#[test]
fn a_small_request_takes_no_oversize_block() {
    let mut heap = split_limited();
    let oversize = heap.take(32 * MIB);
    heap.give(oversize);
    assert_ne!(heap.take(30 * MIB), oversize);
    assert_eq!(segments(&heap), 2);
    assert_eq!(heap.take(32 * MIB), oversize, "an oversize request does");
}

#[test]
fn an_oversize_request_takes_a_block_larger_by_less_than_the_rounding() {
    let mut heap = split_limited();
    let block = heap.take(48 * MIB);
    heap.give(block);
    assert_ne!(heap.take(40 * MIB), block, "8 MiB larger is too much");
    assert_eq!(heap.take(40 * MIB + 512), block);
    assert_eq!(heap.stats().oversize_allocations.current, 2);
}

#[test]
fn a_rejected_first_fit_ends_the_search() {
    let mut heap = split_limited();
    // Within the limit there is only the tail of a 20 MiB segment; the next larger free block is oversize.
    let small = heap.take(12 * MIB);
    let oversize = heap.take(33 * MIB);
    heap.give(oversize);
    let fresh = heap.take(13 * MIB);
    assert!(fresh != small && fresh != oversize);
    assert_eq!(segments(&heap), 3);
}

#[test]
fn streams_share_no_blocks() {
    let mut heap = plain();
    let block = heap.take_on(16, 5 * MIB);
    heap.give(block);
    assert_ne!(heap.take_on(32, 5 * MIB), block);
    assert_eq!(heap.take_on(16, 5 * MIB), block);
    let streams: Vec<_> =
        heap.segments(PoolId::DEFAULT).iter().map(|segment| segment.stream.0).collect();
    assert_eq!(streams, [16, 32]);
}

#[test]
fn free_neighbours_merge_on_both_sides() {
    let mut heap = plain();
    let parts: Vec<_> = (0..3).map(|_| heap.take(6 * MIB)).collect();
    for at in [0, 2, 1] {
        heap.give(parts[at]);
    }
    let segment = &heap.segments(PoolId::DEFAULT)[0];
    assert_eq!(segment.blocks.len(), 1);
    assert_eq!(segment.blocks[0].size_bytes, 20 * MIB);
    assert_eq!(heap.stats().inactive_split.all.current, 0);
}
