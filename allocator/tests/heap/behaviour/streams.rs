//! Blocks that other streams used.

use device::{Device, DeviceCall};
use settings::Config;
use trace_format::{BlockStatus, Event, PoolId, StackId, Stream};

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

const OTHER: Stream = Stream(16);
const SLOW: Stream = Stream(32);

fn plain() -> TestHeap {
    heap(GIB, Config::default())
}

fn done(heap: &mut TestHeap, stream: Stream) {
    heap.device_mut().stream_synchronize(stream).expect("the device answers");
}

#[test]
fn a_block_that_another_stream_used_comes_back_when_that_stream_is_done() {
    let mut heap = plain();
    let block = heap.take(40 * MIB);
    heap.record_stream(block, OTHER).expect("live");
    heap.give(block);
    assert_ne!(heap.take(40 * MIB), block);
    let status = |heap: &TestHeap| heap.segments(PoolId::DEFAULT)[0].blocks[0].status;
    assert_eq!(status(&heap), BlockStatus::PendingFree);
    done(&mut heap, OTHER);
    assert_eq!(heap.take(40 * MIB), block);
}

#[test]
fn the_allocation_stream_itself_needs_no_event() {
    let mut heap = plain();
    let block = heap.take_on(OTHER.0, 40 * MIB);
    heap.record_stream(block, OTHER).expect("live");
    heap.give(block);
    assert_eq!(heap.device_mut().counts().of(DeviceCall::EventRecord), 0);
    assert_eq!(heap.take_on(OTHER.0, 40 * MIB), block);
}

#[test]
fn a_stream_recorded_twice_gets_one_event() {
    let mut heap = plain();
    let block = heap.take(40 * MIB);
    for stream in [OTHER, OTHER, SLOW] {
        heap.record_stream(block, stream).expect("live");
    }
    heap.give(block);
    assert_eq!(heap.device_mut().counts().of(DeviceCall::EventRecord), 2);
}

#[test]
fn a_slow_stream_holds_up_its_own_blocks_only() {
    let mut heap = plain();
    let [slow, quick] = [40, 50].map(|mib| heap.take(mib * MIB));
    heap.record_stream(slow, SLOW).expect("live");
    heap.record_stream(quick, OTHER).expect("live");
    heap.give(slow);
    heap.give(quick);
    done(&mut heap, OTHER);
    assert_eq!(heap.take(50 * MIB), quick);
    assert_ne!(heap.take(40 * MIB), slow);
}

#[test]
fn a_free_is_complete_with_the_last_of_its_events() {
    let mut heap = plain();
    let block = heap.take(40 * MIB);
    heap.record_stream(block, SLOW).expect("live");
    heap.record_stream(block, OTHER).expect("live");
    heap.give(block);
    done(&mut heap, OTHER);
    heap.take(512);
    assert_eq!(heap.stats().active.all.current, 2);
    done(&mut heap, SLOW);
    heap.take(512);
    assert_eq!(heap.stats().active.all.current, 2);
    let completed = |event: &(StackId, Event)| matches!(event.1, Event::FreeCompleted { .. });
    assert_eq!(heap.recorder_mut().events.iter().filter(|event| completed(event)).count(), 1);
}

#[test]
fn allocated_falls_at_the_request_and_active_at_the_completion() {
    let mut heap = plain();
    let block = heap.take(40 * MIB);
    heap.record_stream(block, OTHER).expect("live");
    heap.give(block);
    let stats = heap.stats();
    assert_eq!((stats.allocated_bytes.all.current, stats.active_bytes.all.current), (0, 40 << 20));
    done(&mut heap, OTHER);
    heap.flush();
    assert_eq!(heap.stats().active_bytes.all.current, 0);
}

#[test]
fn a_flush_waits_for_every_stream() {
    let mut heap = plain();
    let block = heap.take(40 * MIB);
    heap.record_stream(block, SLOW).expect("live");
    heap.give(block);
    heap.flush();
    assert_eq!(heap.device_mut().counts().of(DeviceCall::EventSynchronize), 1);
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn a_deferred_free_waits_for_its_completion_or_for_a_flush() {
    let mut heap = plain();
    let [first, second] = [40, 50].map(|mib| heap.take(mib * MIB));
    let ticket = heap.free_deferred(first, StackId::NONE).expect("live");
    let flushed = heap.free_deferred(second, StackId::NONE).expect("live");
    assert_ne!(heap.take(40 * MIB), first);
    heap.complete_free(ticket);
    assert_eq!(heap.take(40 * MIB), first);
    heap.flush();
    assert_eq!(heap.device_mut().allocation_bytes(second), None);
    heap.complete_free(flushed);
    heap.check().expect("a second completion does nothing");
}
