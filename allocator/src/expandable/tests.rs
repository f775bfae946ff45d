//! A range on a device that fails.

use super::*;
use device::DeviceCall;
use sim_device::{Fault, SimConfig, SimDevice};

const PAGE: u64 = 2 << 20;

fn range() -> (SimDevice, Range) {
    let mut device = SimDevice::new(SimConfig::with_capacity(8 * PAGE));
    let range = Range::reserve(&mut device, Stream(0), PAGE, 9 * PAGE - 1, HandleType::None)
        .expect("addresses");
    (device, range)
}

fn fail(device: &mut SimDevice, call: DeviceCall, nth: u64) {
    device.faults_mut().fail_nth(call, nth, Fault::Driver(1));
}

#[test]
fn it_reserves_whole_pages() {
    let (_, range) = range();
    assert_eq!(range.size_bytes(), 9 * PAGE);
}

#[test]
fn mapping_takes_whole_pages_and_unmapping_those_inside() {
    let (mut device, mut range) = range();
    let span = range.map(&mut device, range.addr, PAGE + 1, &[]).expect("memory");
    assert_eq!(span, Span { addr: range.addr, size_bytes: 2 * PAGE });
    let from = Addr(range.addr.0 + 512);
    let (span, result) = range.unmap(&mut device, from, 2 * PAGE - 512);
    assert_eq!((span.addr.0 - range.addr.0, span.size_bytes), (PAGE, PAGE));
    assert_eq!(result, Ok(()));
    assert_eq!(device.used_bytes(), PAGE);
}

#[test]
fn a_mapping_that_fails_anywhere_holds_no_memory() {
    for (call, nth) in [
        (DeviceCall::Create, 3),
        (DeviceCall::Map, 2),
        (DeviceCall::SetAccess, 1),
        (DeviceCall::SetAccess, 2),
    ] {
        let (mut device, mut range) = range();
        fail(&mut device, call, nth);
        let addr = range.addr;
        assert!(range.map(&mut device, addr, 3 * PAGE, &[DeviceId(0)]).is_err());
        assert_eq!(device.used_bytes(), 0, "{call}");
        range.unreserve(&mut device).expect("addresses go back");
        assert_eq!(device.check_empty(), Ok(()));
    }
}

#[test]
fn short_memory_maps_nothing_and_says_so() {
    let (mut device, mut range) = range();
    let addr = range.addr;
    let span = range.map(&mut device, addr, 9 * PAGE, &[]).expect("no failure");
    assert_eq!((span.size_bytes, device.used_bytes()), (0, 0));
}

#[test]
fn memory_that_could_not_be_taken_back_serves_the_next_mapping() {
    for (undo, held_bytes) in [(DeviceCall::Unmap, PAGE), (DeviceCall::Release, PAGE)] {
        let (mut device, mut range) = range();
        let addr = range.addr;
        fail(&mut device, DeviceCall::SetAccess, 1);
        fail(&mut device, undo, 1);
        assert!(range.map(&mut device, addr, 2 * PAGE, &[]).is_err());
        assert_eq!(device.used_bytes(), held_bytes, "{undo}");
        let span = range.map(&mut device, addr, 2 * PAGE, &[]).expect("memory");
        assert_eq!((span.size_bytes, device.used_bytes()), (2 * PAGE, 2 * PAGE));
        assert_eq!(device.counts().of(DeviceCall::Create), 3, "one page was there");
    }
}

#[test]
fn unreserving_takes_back_what_an_unmapping_left() {
    let (mut device, mut range) = range();
    let addr = range.addr;
    range.map(&mut device, addr, 2 * PAGE, &[]).expect("memory");
    fail(&mut device, DeviceCall::Release, 1);
    let (span, result) = range.unmap(&mut device, addr, 2 * PAGE);
    assert_eq!((span.size_bytes, result), (2 * PAGE, Ok(())));
    assert_eq!(device.used_bytes(), PAGE);
    fail(&mut device, DeviceCall::Release, 1);
    assert!(range.unreserve(&mut device).is_err());
    range.unreserve(&mut device).expect("at the second attempt");
    assert_eq!(device.check_empty(), Ok(()));
}

#[test]
fn an_unmapping_that_fails_halfway_says_how_far_it_came() {
    let (mut device, mut range) = range();
    let addr = range.addr;
    range.map(&mut device, addr, 3 * PAGE, &[]).expect("memory");
    fail(&mut device, DeviceCall::Unmap, 3);
    let (span, result) = range.unmap(&mut device, addr, 3 * PAGE);
    assert_eq!(span.size_bytes, 2 * PAGE);
    assert!(result.is_err());
}
