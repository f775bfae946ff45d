//! Memory of expandable segments between processes: two heaps on one device stand for two of them.

use allocator::heap::{AllocError, HeapError};
use device::DeviceCall;
use settings::Config;
use sim_device::Fault;
use trace_format::{Addr, DeviceId};

use crate::support::{Calls, GIB, MIB, TestHeap, heap};

fn growing() -> TestHeap {
    heap(GIB, Config { expandable_segments: true, ..Config::default() })
}

#[test]
fn the_pages_that_an_allocation_lies_in_are_shared() {
    let mut heap = growing();
    let first = heap.take(15 * MIB);
    let second = heap.take(30 * MIB);
    let pages = heap.share(first).expect("it is live").expect("it is mapped");
    assert_eq!((pages.page_bytes, pages.offset_bytes, pages.handles.len()), (20 * MIB, 0, 1));
    let over = heap.share(second).expect("it is live").expect("it is mapped");
    assert_eq!((over.offset_bytes, over.handles.len()), (second.0 - first.0, 3));
    assert_eq!(over.handles[0], pages.handles[0], "a page has one handle, however often");
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Export), 3);
}

#[test]
fn a_segment_of_one_piece_is_shared_in_another_way() {
    let mut heap = heap(GIB, Config::default());
    let whole = heap.take(30 * MIB);
    assert_eq!(heap.share(whole), Ok(None));
    let unknown = Addr(whole.0 + MIB);
    let refused = heap.share(unknown);
    assert_eq!(refused, Err(AllocError::Heap(HeapError::UnknownPointer { addr: unknown })));
}

#[test]
fn pages_made_without_handles_are_not_shared() {
    let config = Config {
        expandable_segments: true,
        shares_expandable_segments: false,
        ..Config::default()
    };
    let mut heap = heap(GIB, config);
    let mapped = heap.take(30 * MIB);
    assert_eq!(heap.share(mapped), Err(AllocError::Heap(HeapError::NotShared)));
    assert_eq!(heap.device_mut().counts().of(DeviceCall::Export), 0);
}

#[test]
fn handles_are_closed_when_their_pages_are_unmapped() {
    let mut heap = growing();
    let kept = heap.take(15 * MIB);
    let gone = heap.take(65 * MIB);
    for addr in [kept, gone] {
        heap.share(addr).expect("it is live");
    }
    heap.give(gone);
    heap.flush();
    let again = heap.take(65 * MIB);
    heap.share(again).expect("new memory has new handles");
    let exported = heap.device_mut().counts().of(DeviceCall::Export);
    assert_eq!(exported, 4 + 3, "the first page stayed mapped");
    heap.give(again);
    heap.give(kept);
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn pages_of_others_are_mapped_but_not_this_heaps() {
    let mut heap = growing();
    let theirs = heap.take(30 * MIB);
    let pages = heap.share(theirs).expect("it is live").expect("it is mapped");
    let before = heap.stats();
    let addr = heap.open_shared(pages.page_bytes, &pages.handles).expect("they are there");
    let device = heap.device_mut();
    assert!(device.accessible(Addr(addr.0 + 40 * MIB - 1), DeviceId(0)));
    assert_eq!(device.range_of(addr), Some((addr, 40 * MIB)), "no more addresses than pages");
    assert_eq!(heap.stats(), before);
    assert!(heap.allocation(addr).is_err());
    heap.add_peer(DeviceId(1)).expect("peers reach what is open too");
    assert!(heap.device_mut().accessible(addr, DeviceId(1)));

    // Their owner may free them meanwhile.
    heap.give(theirs);
    heap.flush();
    assert!(heap.device_mut().accessible(addr, DeviceId(0)));
    heap.close_shared(addr).expect("it is open");
    let again = heap.close_shared(addr);
    assert_eq!(again, Err(AllocError::Heap(HeapError::NotOpened { addr })));
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}

#[test]
fn a_flush_releases_memory_that_the_device_did_not_take_back() {
    let mut heap = growing();
    let theirs = heap.take(30 * MIB);
    let pages = heap.share(theirs).expect("it is live").expect("it is mapped");
    let addr = heap.open_shared(pages.page_bytes, &pages.handles).expect("they are there");
    heap.device_mut().faults_mut().fail_nth(DeviceCall::Unmap, 2, Fault::Driver(719));
    let refused = heap.close_shared(addr);
    assert!(matches!(refused, Err(AllocError::Device(_))), "{refused:?}");
    heap.give(theirs);
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
}
