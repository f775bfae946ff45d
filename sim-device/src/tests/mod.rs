//! What the simulated device promises, call by call.

use super::*;
use device::{Device, HandleType, Result, ShareableHandle};

mod capture;
mod model;

const MIB: u64 = 1 << 20;
const GRANULE: u64 = 2 * MIB;

fn device(capacity_bytes: u64) -> SimDevice {
    SimDevice::new(SimConfig::with_capacity(capacity_bytes))
}

fn with_events(events: EventPolicy) -> SimDevice {
    SimDevice::new(SimConfig { events, ..SimConfig::default() })
}

/// The driver code of a refusal; panics on any other answer.
fn refusal<T: std::fmt::Debug>(answer: Result<T>) -> u32 {
    match answer {
        Err(DeviceError::Driver { code, .. }) => code,
        other => panic!("a driver error was expected, not {other:?}"),
    }
}

#[test]
fn allocations_take_whole_granules_from_the_lowest_address() {
    let mut sim = device(10 * GRANULE);
    let first = sim.malloc(1).unwrap();
    let second = sim.malloc(GRANULE + 1).unwrap();
    assert_eq!(second.0 - first.0, GRANULE);
    assert_eq!(sim.used_bytes(), 3 * GRANULE);
    sim.free(first).unwrap();
    assert_eq!(sim.malloc(GRANULE).unwrap(), first);
    assert_eq!(sim.memory_info().unwrap().free_bytes, 7 * GRANULE);
}

#[test]
fn memory_taken_for_good_is_any_number_of_bytes_and_counts_as_used() {
    let mut device = device(4 * GRANULE);
    device.take(GRANULE + 1).unwrap();
    assert_eq!(device.memory_info().unwrap().free_bytes, 3 * GRANULE - 1);
    assert!(device.malloc(3 * GRANULE).is_err() && device.take(3 * GRANULE).is_err());
    device.malloc(2 * GRANULE).unwrap();
    assert_eq!((device.used_bytes(), device.peak_used_bytes()), (3 * GRANULE + 1, 3 * GRANULE + 1));
}

#[test]
fn memory_beyond_the_capacity_is_refused_and_changes_nothing() {
    let mut sim = device(4 * GRANULE);
    let handle = sim.create(2 * GRANULE, HandleType::None).unwrap();
    for (answer, call) in [
        (sim.malloc(3 * GRANULE).map(|_| ()), DeviceCall::Malloc),
        (sim.create(4 * GRANULE, HandleType::None).map(|_| ()), DeviceCall::Create),
    ] {
        assert!(
            matches!(answer, Err(DeviceError::OutOfMemory { call: c, .. }) if c == call),
            "{answer:?}"
        );
    }
    assert!(matches!(sim.malloc(u64::MAX), Err(DeviceError::OutOfMemory { .. })));
    assert_eq!(sim.used_bytes(), 2 * GRANULE);
    sim.release(handle).unwrap();
    assert!(sim.is_empty());
    assert_eq!(sim.peak_used_bytes(), 2 * GRANULE);
}

#[test]
fn misuse_of_allocations_shows() {
    let mut sim = device(10 * GRANULE);
    let addr = sim.malloc(GRANULE).unwrap();
    assert_eq!(refusal(sim.malloc(0)), code::INVALID_VALUE);
    assert_eq!(refusal(sim.free(Addr(addr.0 + 512))), code::INVALID_VALUE);
    sim.free(addr).unwrap();
    assert_eq!(refusal(sim.free(addr)), code::INVALID_VALUE);
}

#[test]
fn a_chunk_lives_while_a_handle_or_a_mapping_refers_to_it() {
    let mut sim = device(10 * GRANULE);
    let range = sim.reserve(4 * GRANULE).unwrap();
    let handle = sim.create(GRANULE, HandleType::None).unwrap();
    sim.map(range, GRANULE, handle).unwrap();
    sim.release(handle).unwrap();
    assert_eq!(sim.used_bytes(), GRANULE);
    let message = refusal(sim.map(Addr(range.0 + GRANULE), GRANULE, handle));
    assert_eq!(message, code::INVALID_VALUE);
    sim.unmap(range, GRANULE).unwrap();
    assert_eq!(sim.used_bytes(), 0);
    sim.unreserve(range, 4 * GRANULE).unwrap();
    assert!(sim.is_empty());
}

#[test]
fn one_chunk_can_be_mapped_twice() {
    let mut sim = device(10 * GRANULE);
    let range = sim.reserve(4 * GRANULE).unwrap();
    let handle = sim.create(GRANULE, HandleType::None).unwrap();
    sim.map(range, GRANULE, handle).unwrap();
    sim.map(Addr(range.0 + GRANULE), GRANULE, handle).unwrap();
    assert_eq!(sim.used_bytes(), GRANULE);
    sim.set_access(range, 2 * GRANULE, DeviceId(0)).unwrap();
    sim.unmap(range, 2 * GRANULE).unwrap();
    assert_eq!(sim.check_empty().unwrap_err().split("; ").count(), 2);
}

#[test]
fn misuse_of_mappings_shows() {
    let mut sim = device(100 * GRANULE);
    let range = sim.reserve(8 * GRANULE).unwrap();
    let handle = sim.create(2 * GRANULE, HandleType::None).unwrap();
    let at = |granules: u64| Addr(range.0 + granules * GRANULE);
    assert_eq!(refusal(sim.map(at(0), GRANULE, handle)), code::INVALID_VALUE);
    assert_eq!(refusal(sim.map(at(7), 2 * GRANULE, handle)), code::INVALID_VALUE);
    assert_eq!(refusal(sim.map(Addr(range.0 + 1), 2 * GRANULE, handle)), code::INVALID_VALUE);
    sim.map(at(2), 2 * GRANULE, handle).unwrap();
    for granules in [1, 2, 3] {
        assert_eq!(refusal(sim.map(at(granules), 2 * GRANULE, handle)), code::ALREADY_MAPPED);
    }
    for (granules, length) in [(0, 2), (1, 3), (2, 1), (3, 1), (2, 3)] {
        assert_eq!(refusal(sim.unmap(at(granules), length * GRANULE)), code::NOT_MAPPED);
        let answer = sim.set_access(at(granules), length * GRANULE, DeviceId(0));
        assert_eq!(refusal(answer), code::NOT_MAPPED);
    }
    assert_eq!(refusal(sim.unreserve(range, 8 * GRANULE)), code::INVALID_VALUE);
    assert_eq!(refusal(sim.unreserve(at(1), GRANULE)), code::INVALID_VALUE);
    sim.release(handle).unwrap();
    assert_eq!(refusal(sim.release(handle)), code::INVALID_VALUE);
}

#[test]
fn access_is_per_device_and_needs_a_peer() {
    let mut sim = SimDevice::new(SimConfig { peers: vec![DeviceId(1)], ..SimConfig::default() });
    assert!(sim.can_access_peer(DeviceId(1)).unwrap());
    assert!(!sim.can_access_peer(DeviceId(2)).unwrap());
    let range = sim.reserve(GRANULE).unwrap();
    let handle = sim.create(GRANULE, HandleType::None).unwrap();
    sim.map(range, GRANULE, handle).unwrap();
    assert!(!sim.accessible(range, DeviceId(0)));
    sim.set_access(range, GRANULE, DeviceId(1)).unwrap();
    assert!(sim.accessible(Addr(range.0 + GRANULE - 1), DeviceId(1)));
    assert!(!sim.accessible(range, DeviceId(0)));
    assert_eq!(refusal(sim.set_access(range, GRANULE, DeviceId(2))), code::INVALID_DEVICE);
}

#[test]
fn an_exported_handle_is_imported_as_one_more_reference() {
    let mut sim = device(10 * GRANULE);
    for share in [HandleType::PosixFd, HandleType::Fabric] {
        let handle = sim.create(GRANULE, share).unwrap();
        let name = sim.export(handle, share).unwrap();
        assert_eq!(sim.import(name).unwrap(), handle);
        sim.close(name);
        for _ in 0..2 {
            assert_eq!(sim.used_bytes(), GRANULE);
            sim.release(handle).unwrap();
        }
        assert!(sim.is_empty());
        assert_eq!(refusal(sim.import(name)), code::INVALID_VALUE);
    }
    assert_eq!(refusal(sim.import(ShareableHandle::PosixFd(-1))), code::INVALID_VALUE);
}

#[test]
fn memory_is_shared_as_it_was_created_for_and_in_no_other_way() {
    let mut sim = device(10 * GRANULE);
    let kinds = [HandleType::None, HandleType::PosixFd, HandleType::Fabric];
    for made in kinds {
        let handle = sim.create(GRANULE, made).unwrap();
        assert_eq!(sim.share_of(handle), Some(made));
        for asked in kinds.into_iter().filter(|&asked| asked != made || asked == HandleType::None) {
            assert_eq!(refusal(sim.export(handle, asked)), code::INVALID_VALUE);
        }
    }
}

#[test]
fn memory_of_another_process_is_used_here_and_charged_there() {
    let mut sim = device(GRANULE);
    let handle = sim.adopt(4 * GRANULE).unwrap();
    let range = sim.reserve(4 * GRANULE).unwrap();
    sim.map(range, 4 * GRANULE, handle).unwrap();
    sim.set_access(range, 4 * GRANULE, DeviceId(0)).unwrap();
    assert!(sim.accessible(range, DeviceId(0)));
    assert_eq!(sim.used_bytes(), 0);
    sim.release(handle).unwrap();
    assert!(sim.is_alive(handle), "it is still mapped");
    sim.unmap(range, 4 * GRANULE).unwrap();
    assert!(!sim.is_alive(handle));
    sim.unreserve(range, 4 * GRANULE).unwrap();
    assert!(sim.is_empty());
}

#[test]
fn scripted_addresses_come_in_order_and_give_way_when_taken() {
    let mut sim = device(100 * GRANULE);
    let lowest = Addr(0x7a00_0000_0000);
    let high = Addr(lowest.0 + 50 * GRANULE);
    sim.set_scripts([high, high, lowest].into(), [Addr(high.0 + 10 * GRANULE)].into());
    assert_eq!(sim.malloc(1).unwrap(), high);
    assert_eq!(sim.malloc(1).unwrap(), lowest, "taken, so first fit");
    assert_eq!(sim.malloc(1).unwrap().0, lowest.0 + GRANULE, "taken, so first fit");
    assert_eq!(sim.reserve(GRANULE).unwrap().0, high.0 + 10 * GRANULE);
    assert_eq!(sim.reserve(GRANULE).unwrap().0, lowest.0 + 2 * GRANULE, "script is over");
}

#[test]
fn a_scripted_reservation_that_was_never_used_is_the_next_answer_again() {
    let mut sim = device(100 * GRANULE);
    let [first, second] = [30, 60].map(|at| Addr(0x7a00_0000_0000 + at * GRANULE));
    sim.set_scripts([].into(), [first, second].into());
    for _ in 0..2 {
        assert_eq!(sim.reserve(GRANULE).unwrap(), first);
        sim.unreserve(first, GRANULE).unwrap();
    }
    assert_eq!(sim.reserve(GRANULE).unwrap(), first);
    let handle = sim.create(GRANULE, HandleType::None).unwrap();
    sim.map(first, GRANULE, handle).unwrap();
    sim.unmap(first, GRANULE).unwrap();
    sim.unreserve(first, GRANULE).unwrap();
    assert_eq!(sim.reserve(GRANULE).unwrap(), second, "the first was used");
}

#[test]
fn events_are_done_at_once_by_default() {
    let mut sim = device(GRANULE);
    let event = sim.event_record(Stream(0)).unwrap();
    assert!(sim.event_query(event).unwrap());
    sim.event_release(event);
    assert!(sim.is_empty());
}

#[test]
fn a_lagging_event_says_not_ready_that_many_times() {
    let mut sim = with_events(EventPolicy::AfterQueries(2));
    let event = sim.event_record(Stream(7)).unwrap();
    let answers: Vec<_> = (0..4).map(|_| sim.event_query(event).unwrap()).collect();
    assert_eq!(answers, [false, false, true, true]);
}

#[test]
fn a_done_event_means_that_earlier_ones_of_its_stream_are_done() {
    let mut sim = with_events(EventPolicy::OnRequest);
    let early = sim.event_record(Stream(7)).unwrap();
    let other = sim.event_record(Stream(8)).unwrap();
    let late = sim.event_record(Stream(7)).unwrap();
    let last = sim.event_record(Stream(7)).unwrap();
    sim.complete(late).unwrap();
    let done = |sim: &mut SimDevice, event| sim.event_query(event).unwrap();
    assert!(done(&mut sim, early) && done(&mut sim, late));
    assert!(!done(&mut sim, other) && !done(&mut sim, last));
    sim.stream_synchronize(Stream(8)).unwrap();
    assert!(done(&mut sim, other) && !done(&mut sim, last));
    sim.device_synchronize().unwrap();
    assert!(done(&mut sim, last));
}

#[test]
fn freeing_memory_waits_for_the_device() {
    let mut sim = with_events(EventPolicy::OnRequest);
    let addr = sim.malloc(1).unwrap();
    let event = sim.event_record(Stream(7)).unwrap();
    sim.free(addr).unwrap();
    assert!(sim.event_query(event).unwrap());
}

#[test]
fn misuse_of_events_shows() {
    let mut sim = device(GRANULE);
    let event = sim.event_record(Stream(0)).unwrap();
    assert_eq!(sim.check_empty().unwrap_err(), "1 events not released");
    sim.event_release(event);
    assert_eq!(refusal(sim.event_query(event)), code::INVALID_HANDLE);
    assert_eq!(refusal(sim.event_synchronize(event)), code::INVALID_HANDLE);
    sim.event_release(event);
    assert_eq!(sim.check_empty().unwrap_err(), "1 releases of events that were not live");
}

#[test]
fn calls_are_counted_and_priced_failed_ones_too() {
    let mut sim = device(GRANULE);
    let addr = sim.malloc(GRANULE).unwrap();
    assert!(sim.malloc(GRANULE).is_err());
    sim.free(addr).unwrap();
    let prices = PriceList::default();
    let malloc_ns = prices.of(DeviceCall::Malloc).ns(GRANULE);
    let free_ns = prices.of(DeviceCall::Free).ns(GRANULE);
    assert_eq!(sim.counts().of(DeviceCall::Malloc), 2);
    assert_eq!(sim.counts().total(), 3);
    assert_eq!(sim.counts().price_ns(), 2 * malloc_ns + free_ns);
}

#[test]
fn a_run_of_pages_counts_and_costs_as_its_pages_one_by_one() {
    let (mut whole, mut single) = (device(6 * GRANULE), device(6 * GRANULE));
    for sim in [&mut whole, &mut single] {
        let range = sim.reserve(20 * GRANULE).unwrap();
        assert_eq!(range, Addr(0x7a00_0000_0000));
    }
    let at = |granules: u64| Addr(0x7a00_0000_0000 + granules * GRANULE);
    let mut handles = Vec::new();
    // The last is refused.
    for page in 0..7 {
        let Ok(handle) = single.create(GRANULE, HandleType::None) else { break };
        single.map(at(page), GRANULE, handle).unwrap();
        single.set_access(at(page), GRANULE, DeviceId(0)).unwrap();
        handles.push(handle);
    }
    assert_eq!(whole.map_pages(at(0), GRANULE, 9).unwrap(), 6);
    for page in 2..5 {
        single.unmap(at(page), GRANULE).unwrap();
        single.map(at(page + 8), GRANULE, handles[page as usize]).unwrap();
        single.set_access(at(page + 8), GRANULE, DeviceId(0)).unwrap();
    }
    whole.move_pages(at(2), at(10), GRANULE, 3).unwrap();
    assert_eq!(refusal(whole.unmap_pages(at(10), GRANULE, 4)), code::NOT_MAPPED);
    assert_eq!(refusal(whole.map_pages(at(11), GRANULE, 1)), code::ALREADY_MAPPED);
    assert_eq!(refusal(whole.unreserve(at(0), 20 * GRANULE)), code::INVALID_VALUE);
    for (page, handle) in [0, 1, 10, 11, 12, 5].into_iter().zip([0, 1, 2, 3, 4, 5]) {
        assert!(
            whole.accessible(at(page), DeviceId(0)) && !whole.accessible(at(page), DeviceId(1))
        );
        single.unmap(at(page), GRANULE).unwrap();
        single.release(handles[handle]).unwrap();
    }
    for (page, count) in [(0, 2), (10, 3), (5, 1)] {
        whole.unmap_pages(at(page), GRANULE, count).unwrap();
    }
    for sim in [&mut whole, &mut single] {
        sim.unreserve(at(0), 20 * GRANULE).unwrap();
        assert!(sim.is_empty());
        assert_eq!((sim.peak_used_bytes(), sim.least_refused_bytes()), (6 * GRANULE, 7 * GRANULE));
    }
    // Of what was refused above, a run of pages does not count.
    let mut counts = single.counts().clone();
    counts.add(DeviceCall::Unreserve, 1, PriceList::default().of(DeviceCall::Unreserve).ns(0));
    assert_eq!(*whole.counts(), counts);
}

#[test]
fn an_injected_fault_leaves_the_device_as_it_was() {
    let mut sim = device(10 * GRANULE);
    sim.faults_mut().fail_nth(DeviceCall::Malloc, 2, Fault::OutOfMemory);
    sim.faults_mut().fail_nth(DeviceCall::Free, 1, Fault::Driver(999));
    let addr = sim.malloc(1).unwrap();
    assert!(matches!(sim.malloc(1), Err(DeviceError::OutOfMemory { .. })));
    assert_eq!(refusal(sim.free(addr)), 999);
    assert_eq!(sim.used_bytes(), GRANULE);
    sim.free(addr).unwrap();
    assert!(sim.is_empty());
}
