//! Every device call that the heap makes fails once, at every place: the heap stays whole, nothing leaks, it goes on.

mod random;
mod run;
mod scenario;
mod source;

use allocator::heap::{AllocError, Heap};
use device::DeviceCall;
use events::Memory;
use settings::Config;
use sim_device::{Fault, Faults};

use crate::support::device;
use run::{Run, Strategy};

/// Every call that the core can make.
const CALLS: [DeviceCall; 19] = [
    DeviceCall::MemoryInfo,
    DeviceCall::Malloc,
    DeviceCall::Free,
    DeviceCall::Reserve,
    DeviceCall::Unreserve,
    DeviceCall::Create,
    DeviceCall::Release,
    DeviceCall::Map,
    DeviceCall::Unmap,
    DeviceCall::SetAccess,
    DeviceCall::Export,
    DeviceCall::Import,
    DeviceCall::EventRecord,
    DeviceCall::EventQuery,
    DeviceCall::EventSynchronize,
    DeviceCall::StreamSynchronize,
    DeviceCall::Capture,
    DeviceCall::Dependencies,
    DeviceCall::ExchangeCaptureMode,
];

const STRATEGIES: [Strategy; 2] = [Strategy::Native, Strategy::Stitch];

const DRIVER: Fault = Fault::Driver(719);

/// Runs the scenario with the nth call of a kind failing; returns the errors that its steps reported.
fn run_with_fault(strategy: Strategy, call: DeviceCall, nth: u64, fault: Fault) -> Vec<AllocError> {
    let mut run = Run::new(strategy);
    run.heap.device_mut().faults_mut().fail_nth(call, nth, fault);
    scenario::play(&mut run);
    let made = run.heap.device_mut().counts().of(call);
    assert!(made >= nth, "{call} was made {made} times, so the fault did not strike");
    run.wind_up()
}

/// How often the undisturbed scenario makes a call.
fn calls_made(strategy: Strategy, call: DeviceCall) -> u64 {
    let mut run = Run::new(strategy);
    let before = run.heap.device_mut().counts().of(call);
    scenario::play(&mut run);
    let made = run.heap.device_mut().counts().of(call) - before;
    assert_eq!(run.wind_up(), [], "nothing fails by itself");
    made
}

#[test]
fn the_scenario_makes_every_call() {
    for call in CALLS {
        assert!(calls_made(Strategy::Native, call) > 0, "{call} is never made");
    }
}

/// Calls whose failure is made good without telling: what `Release` and `Unmap` leave is taken up again later, the
/// thread's capture mode is only logged when it cannot be put back, and a capture that cannot be asked about is waited
/// out.
fn may_be_silent(strategy: Strategy, call: DeviceCall) -> bool {
    matches!(call, DeviceCall::Release | DeviceCall::ExchangeCaptureMode | DeviceCall::Capture)
        || (strategy == Strategy::Stitch && call == DeviceCall::Unmap)
}

#[test]
fn a_driver_error_anywhere_is_reported_by_its_name_and_leaks_nothing() {
    for (strategy, call) in STRATEGIES.into_iter().flat_map(|one| CALLS.map(|call| (one, call))) {
        for nth in 1..=calls_made(strategy, call) {
            let errors = run_with_fault(strategy, call, nth, DRIVER);
            let named = |error: &AllocError| error.to_string().starts_with(&call.to_string());
            // What was not freed may be missing later.
            let reported = errors.first().map_or(may_be_silent(strategy, call), named);
            assert!(reported, "{strategy:?} {call} {nth}: {errors:?}");
        }
    }
}

#[test]
fn out_of_memory_anywhere_is_retried_or_reported_and_leaks_nothing() {
    for (strategy, call) in STRATEGIES.into_iter().flat_map(|one| CALLS.map(|call| (one, call))) {
        let count = calls_made(strategy, call);
        let made_good = (1..=count)
            .filter(|&nth| run_with_fault(strategy, call, nth, Fault::OutOfMemory).is_empty())
            .count();
        let retried = matches!(
            call,
            DeviceCall::Malloc | DeviceCall::Create | DeviceCall::Map | DeviceCall::Reserve
        ) && (strategy, call) != (Strategy::Stitch, DeviceCall::Malloc);
        let is_repeated = !retried || made_good > 0 || count == 0;
        assert!(is_repeated, "{strategy:?} {call}: no attempt was repeated");
    }
}

#[test]
fn two_faults_in_a_row_leak_nothing() {
    for (strategy, first) in STRATEGIES.into_iter().flat_map(|one| CALLS.map(|call| (one, call))) {
        let made = calls_made(strategy, first);
        // `stitch` maps page by page: of hundreds of equal calls, each of which fails alone above, some are enough.
        let step = made.div_ceil(64).max(1) as usize;
        for second in [DeviceCall::Release, DeviceCall::Unmap, DeviceCall::EventRecord, first] {
            for nth in (1..=made).step_by(step) {
                let mut run = Run::new(strategy);
                let faults = run.heap.device_mut().faults_mut();
                faults.fail_nth(first, nth, DRIVER).fail_nth(second, nth + 1, DRIVER);
                scenario::play(&mut run);
                run.wind_up();
            }
        }
    }
}

#[test]
fn a_device_that_cannot_say_its_memory_makes_no_heap() {
    let mut silent = device(1 << 30);
    *silent.faults_mut() = Faults::new(0);
    silent.faults_mut().fail_nth(DeviceCall::MemoryInfo, 1, DRIVER);
    assert!(Heap::new(silent, Config::default(), Memory::default()).is_err());
}
