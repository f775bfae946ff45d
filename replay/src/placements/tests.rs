use trace_format::{Addr, Event, PoolId, Stream};

use super::{Report, Run, compare as placements};

const MIB: u64 = 1 << 20;

fn alloc(addr: u64, requested_bytes: u64) -> Event {
    let size_bytes = requested_bytes.next_multiple_of(512);
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    Event::Alloc { addr: Addr(addr), requested_bytes, size_bytes, stream, pool }
}

fn free(addr: u64, requested_bytes: u64, pending: bool) -> Event {
    let size_bytes = requested_bytes.next_multiple_of(512);
    Event::Free { addr: Addr(addr), requested_bytes, size_bytes, pending }
}

fn completed(addr: u64, requested_bytes: u64) -> Event {
    let size_bytes = requested_bytes.next_multiple_of(512);
    Event::FreeCompleted { addr: Addr(addr), requested_bytes, size_bytes }
}

fn segment(addr: u64, size_bytes: u64) -> Event {
    let (stream, pool, is_large) = (Stream(0), PoolId::DEFAULT, true);
    Event::SegmentAlloc { addr: Addr(addr), size_bytes, stream, pool, is_large }
}

fn map(addr: u64, size_bytes: u64) -> Event {
    let (stream, pool, is_large) = (Stream(0), PoolId::DEFAULT, true);
    Event::SegmentMap { addr: Addr(addr), size_bytes, stream, pool, is_large }
}

fn unmap(addr: u64, size_bytes: u64) -> Event {
    let (stream, pool, is_large) = (Stream(0), PoolId::DEFAULT, true);
    Event::SegmentUnmap { addr: Addr(addr), size_bytes, stream, pool, is_large }
}

fn compare(expected: &[Event], actual: &[Event]) -> Report {
    let run = |events: &[Event]| Run { base: &[], events: events.to_vec() };
    placements(run(expected), run(actual))
}

#[test]
fn the_same_offsets_of_segments_elsewhere_are_the_same() {
    let run = |base: u64| {
        [
            segment(base, 20 * MIB),
            alloc(base, 3 * MIB),
            alloc(base + 3 * MIB, 700),
            free(base, 3 * MIB, false),
        ]
    };
    let report = compare(&run(0x1000_0000), &run(0x7000_0000));
    assert_eq!(report.difference, None);
    assert_eq!((report.allocations, report.frees, report.segment_events), (2, 2, 1));
}

#[test]
fn another_offset_is_reported_as_a_difference() {
    let one = [segment(0, 20 * MIB), alloc(512, 512)];
    let other = [segment(64 * MIB, 20 * MIB), alloc(64 * MIB + 1024, 512)];
    let difference = compare(&one, &other).difference.unwrap();
    assert_eq!(difference.after_steps, 1);
    assert!(difference.expected.ends_with("(segment 0, offset 512)"), "{difference}");
    assert!(difference.actual.ends_with("(segment 0, offset 1024)"), "{difference}");
}

#[test]
fn the_same_offset_of_another_segment_is_a_difference() {
    let one = [segment(0, 2 * MIB), segment(2 * MIB, 2 * MIB), alloc(0, 512)];
    let other = [segment(0, 2 * MIB), segment(2 * MIB, 2 * MIB), alloc(2 * MIB, 512)];
    assert!(compare(&one, &other).difference.is_some());
}

#[test]
fn a_free_completed_at_another_moment_is_a_difference() {
    let begin = [segment(0, 2 * MIB), alloc(0, 512), alloc(512, 512)];
    let late =
        [&begin[..], &[free(0, 512, true), free(512, 512, false), completed(0, 512)]].concat();
    let soon =
        [&begin[..], &[free(0, 512, true), completed(0, 512), free(512, 512, false)]].concat();
    let at_once = [&begin[..], &[free(0, 512, false), free(512, 512, false)]].concat();
    assert!(compare(&late, &soon).difference.is_some());
    assert_eq!(compare(&soon, &at_once).difference, None, "a snapshot cannot tell these apart");
}

#[test]
fn frees_that_complete_together_may_do_so_in_any_order() {
    let run = |base: u64, order: [u64; 2]| {
        let begin = [segment(base, 2 * MIB), alloc(base, 512), alloc(base + 512, 512)];
        let freed = [free(base, 512, true), free(base + 512, 512, true)];
        let done = order.map(|offset| completed(base + offset, 512));
        [&begin[..], &freed, &done, &[alloc(base, 1024)]].concat()
    };
    assert_eq!(compare(&run(0, [0, 512]), &run(1 << 40, [512, 0])).difference, None);
    let one_only = [&run(0, [0, 512])[..6], &[alloc(0, 512), completed(512, 512)]].concat();
    assert!(compare(&run(0, [0, 512]), &one_only).difference.is_some());
}

#[test]
fn a_block_may_lie_across_pieces_that_were_mapped_apart() {
    let run =
        |base: u64| [map(base, 20 * MIB), map(base + 20 * MIB, 20 * MIB), alloc(base, 30 * MIB)];
    assert_eq!(compare(&run(0), &run(1 << 40)).difference, None);
    let torn = [map(0, 20 * MIB), map(80 * MIB, 20 * MIB), alloc(0, 30 * MIB)];
    assert!(compare(&run(0), &torn).difference.is_some());
}

#[test]
fn unmapping_part_of_a_piece_keeps_the_rest_in_place() {
    let run = |base: u64| {
        [
            map(base, 60 * MIB),
            unmap(base + 20 * MIB, 20 * MIB),
            alloc(base + 40 * MIB, 20 * MIB),
            map(base + 20 * MIB, 20 * MIB),
            alloc(base + 10 * MIB, 20 * MIB),
        ]
    };
    assert_eq!(compare(&run(0), &run(1 << 40)).difference, None);
}

#[test]
fn a_run_that_ends_early_differs() {
    let one = [segment(0, 2 * MIB), alloc(0, 512)];
    let difference = compare(&one, &one[..1]).difference.unwrap();
    assert_eq!(difference.actual, "the end");
    assert!(compare(&one[..1], &one).difference.is_some());
}
