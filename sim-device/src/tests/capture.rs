//! Stream capture as the driver does it.

use device::Result;
use std::thread;

use super::*;

const MAIN: Stream = Stream(0x10);
const SIDE: Stream = Stream(0x20);

fn capturing(mode: CaptureMode) -> SimDevice {
    let mut sim = device(10 * GRANULE);
    sim.begin_capture(MAIN, mode).unwrap();
    sim
}

fn terminals(sim: &mut SimDevice, stream: Stream) -> Vec<GraphNode> {
    sim.capture(stream).unwrap().unwrap().terminals
}

#[test]
fn operations_on_a_capturing_stream_form_a_chain() {
    let mut sim = capturing(CaptureMode::Global);
    assert_eq!(sim.launch(SIDE).unwrap(), None);
    let first = sim.launch(MAIN).unwrap().unwrap();
    let second = sim.launch(MAIN).unwrap().unwrap();
    assert_eq!(terminals(&mut sim, MAIN), [second]);
    assert_eq!(sim.dependencies(second).unwrap(), [first]);
    assert_eq!(sim.dependencies(first).unwrap(), []);
    let graph = sim.end_capture(MAIN).unwrap();
    assert_eq!(graph.nodes.len(), 2);
    assert_eq!(sim.capture(MAIN).unwrap(), None);
    assert_eq!(refusal(sim.dependencies(second)), code::INVALID_VALUE);
    assert!(sim.is_empty());
}

#[test]
fn a_wait_on_a_captured_event_forks_and_joins() {
    let mut sim = capturing(CaptureMode::Global);
    let first = sim.launch(MAIN).unwrap().unwrap();
    let fork = sim.event_record(MAIN).unwrap();
    sim.wait_event(SIDE, fork).unwrap();
    assert_eq!(terminals(&mut sim, SIDE), [first]);
    let side = sim.launch(SIDE).unwrap().unwrap();
    let main = sim.launch(MAIN).unwrap().unwrap();
    let join = sim.event_record(SIDE).unwrap();
    sim.wait_event(MAIN, join).unwrap();
    assert_eq!(terminals(&mut sim, MAIN), [main, side]);
    let last = sim.launch(MAIN).unwrap().unwrap();
    assert_eq!(sim.dependencies(last).unwrap(), [main, side]);
    sim.end_capture(MAIN).unwrap();
    assert_eq!(refusal(sim.wait_event(SIDE, fork)), code::CAPTURED_EVENT);
}

#[test]
fn work_that_was_not_joined_fails_the_end() {
    let mut sim = capturing(CaptureMode::Global);
    let fork = sim.event_record(MAIN).unwrap();
    sim.wait_event(SIDE, fork).unwrap();
    sim.launch(SIDE).unwrap();
    assert_eq!(refusal(sim.end_capture(MAIN)), code::CAPTURE_UNJOINED);
    assert_eq!(sim.capture(SIDE).unwrap(), None);
}

#[test]
fn an_unsafe_call_fails_and_invalidates_unless_the_thread_is_relaxed() {
    type Unsafe = fn(&mut SimDevice) -> Result<()>;
    let calls: [Unsafe; 3] = [
        |sim| sim.malloc(1).map(|_| ()),
        |sim| sim.device_synchronize(),
        |sim| {
            let event = sim.event_record(SIDE)?;
            sim.event_query(event).map(|_| ())
        },
    ];
    for (number, call) in calls.into_iter().enumerate() {
        for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
            let mut sim = capturing(mode);
            assert_eq!(
                sim.exchange_capture_mode(CaptureMode::Relaxed).unwrap(),
                CaptureMode::Global
            );
            call(&mut sim).unwrap_or_else(|error| panic!("call {number}: {error}"));
            assert_eq!(
                sim.exchange_capture_mode(CaptureMode::Global).unwrap(),
                CaptureMode::Relaxed
            );
            assert!(!sim.capture_invalidated(MAIN));
            assert_eq!(refusal(call(&mut sim)), code::CAPTURE_UNSUPPORTED);
            assert_eq!(refusal(sim.capture(MAIN)), code::CAPTURE_INVALIDATED);
            assert_eq!(refusal(sim.launch(MAIN)), code::CAPTURE_INVALIDATED);
            assert_eq!(refusal(sim.end_capture(MAIN)), code::CAPTURE_INVALIDATED);
            call(&mut sim).unwrap();
        }
        call(&mut capturing(CaptureMode::Relaxed)).unwrap();
    }
}

#[test]
fn another_thread_is_bound_by_global_captures_only() {
    for (mode, allowed) in [
        (CaptureMode::Global, false),
        (CaptureMode::ThreadLocal, true),
        (CaptureMode::Relaxed, true),
    ] {
        let mut sim = capturing(mode);
        let answer = thread::scope(|scope| scope.spawn(|| sim.malloc(1)).join().unwrap());
        assert_eq!(answer.is_ok(), allowed, "{mode:?}: {answer:?}");
        assert_eq!(sim.capture_invalidated(MAIN), !allowed);
    }
}

#[test]
fn another_thread_ends_relaxed_captures_only() {
    for (mode, expected) in
        [(CaptureMode::Global, Some(code::CAPTURE_WRONG_THREAD)), (CaptureMode::Relaxed, None)]
    {
        let mut sim = capturing(mode);
        let ended = thread::scope(|scope| scope.spawn(|| sim.end_capture(MAIN)).join().unwrap());
        assert_eq!(ended.err().map(|error| refusal::<()>(Err(error))), expected);
    }
}

#[test]
fn a_captured_event_cannot_be_queried_or_waited_for_outside() {
    let mut sim = capturing(CaptureMode::Relaxed);
    let inside = sim.event_record(MAIN).unwrap();
    assert_eq!(refusal(sim.event_query(inside)), code::CAPTURED_EVENT);
    assert_eq!(refusal(sim.event_synchronize(inside)), code::CAPTURED_EVENT);
    let outside = sim.event_record(SIDE).unwrap();
    assert_eq!(refusal(sim.wait_event(MAIN, outside)), code::CAPTURE_ISOLATION);
    assert!(sim.capture_invalidated(MAIN));
}

#[test]
fn two_captures_do_not_merge() {
    let mut sim = capturing(CaptureMode::Relaxed);
    sim.begin_capture(SIDE, CaptureMode::Relaxed).unwrap();
    let event = sim.event_record(MAIN).unwrap();
    assert_eq!(refusal(sim.wait_event(SIDE, event)), code::CAPTURE_MERGE);
    assert!(sim.capture_invalidated(MAIN) && sim.capture_invalidated(SIDE));
}

#[test]
fn waiting_for_a_capturing_stream_invalidates_it() {
    let mut sim = capturing(CaptureMode::Relaxed);
    sim.stream_synchronize(SIDE).unwrap();
    assert_eq!(refusal(sim.stream_synchronize(MAIN)), code::CAPTURE_UNSUPPORTED);
    assert!(sim.capture_invalidated(MAIN));
}

#[test]
fn wrong_begins_and_ends_are_refused() {
    let mut sim = capturing(CaptureMode::Global);
    assert_eq!(
        refusal(sim.begin_capture(Stream(0), CaptureMode::Global)),
        code::CAPTURE_UNSUPPORTED
    );
    assert_eq!(refusal(sim.begin_capture(MAIN, CaptureMode::Global)), code::ILLEGAL_STATE);
    assert_eq!(refusal(sim.end_capture(SIDE)), code::ILLEGAL_STATE);
    let fork = sim.event_record(MAIN).unwrap();
    sim.wait_event(SIDE, fork).unwrap();
    assert_eq!(refusal(sim.end_capture(SIDE)), code::CAPTURE_UNMATCHED);
    assert_eq!(refusal(sim.end_capture(MAIN)), code::CAPTURE_INVALIDATED);
}

#[test]
fn dependencies_can_be_replaced_by_nodes_of_the_same_graph() {
    let mut sim = capturing(CaptureMode::Global);
    let first = sim.launch(MAIN).unwrap().unwrap();
    sim.launch(MAIN).unwrap();
    sim.set_dependencies(MAIN, &[first]).unwrap();
    assert_eq!(terminals(&mut sim, MAIN), [first]);
    assert_eq!(refusal(sim.set_dependencies(MAIN, &[GraphNode(99)])), code::INVALID_VALUE);
    assert_eq!(refusal(sim.set_dependencies(SIDE, &[first])), code::ILLEGAL_STATE);
}
