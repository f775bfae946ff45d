//! The budget of mapped addresses, and a step that repeats and whose placements exceed it.

use allocator::heap::AllocError;
use device::DeviceCall;
use settings::{Config, StitchConfig};
use sim_device::Fault;
use trace_format::Addr;

use super::stitched;
use crate::support::{Calls, GIB, MIB, TestHeap, heap};

/// Blocks that an iteration makes.
const BLOCKS: u64 = 20;
/// Iterations after which the sizes are those of the first again.
const CYCLE: u64 = 11;
/// Most bytes that are live at once.
const LIVE_BYTES: u64 = 660 * 2 * MIB;

/// A loop without a free byte at its peak: the blocks of an iteration live until the next one has its own, and every
/// fifth is freed after the others. Its placements need more addresses than the budget has.
#[derive(Clone, Default)]
struct Program {
    iteration: u64,
    blocks: Vec<Addr>,
}

impl Program {
    /// Runs an iteration. Returns the errors of the requests that were not served.
    fn iterate(&mut self, heap: &mut TestHeap) -> Vec<AllocError> {
        let mut errors = Vec::new();
        let size = |block| (3 + (self.iteration * 7 + block) % CYCLE) * 4 * MIB;
        let taken = (0..BLOCKS).map(|block| heap.try_take(size(block)));
        let new = taken.filter_map(|taken| taken.map_err(|error| errors.push(error)).ok());
        let new = new.collect();
        let old = std::mem::replace(&mut self.blocks, new).into_iter().enumerate();
        let (late, early): (Vec<_>, Vec<_>) = old.partition(|(at, _)| at % 5 == 0);
        early.into_iter().chain(late).for_each(|(_, addr)| heap.give(addr));
        self.iteration += 1;
        errors
    }

    /// Runs whole cycles. Returns the pages that were mapped for each request.
    fn run(&mut self, heap: &mut TestHeap, cycles: u64) -> f64 {
        let maps = |heap: &mut TestHeap| heap.device_mut().counts().of(DeviceCall::Map);
        let before = maps(heap);
        for _ in 0..cycles * CYCLE {
            assert_eq!(self.iterate(heap), [], "nothing fails by itself");
        }
        (maps(heap) - before) as f64 / (cycles * CYCLE * BLOCKS) as f64
    }
}

#[test]
fn mapped_addresses_stay_within_the_budget() {
    let stitch = StitchConfig { address_budget: 2, ..StitchConfig::default() };
    let mut heap = stitched(GIB, stitch);
    for n in 0..200_u64 {
        let addr = heap.take((n * 37 % 60 + 2) * MIB + n * 4096);
        heap.give(addr);
        let pages = heap.reserved_bytes() / (2 * MIB);
        assert!(heap.device_mut().mapping_count() as u64 <= 2 * pages, "after request {n}");
    }
}

#[test]
fn a_step_whose_placements_exceed_the_budget_maps_little_with_some_slack() {
    let mut heap = stitched(4 * GIB, StitchConfig::default());
    let mut program = Program::default();
    for cycles in [3, 4, 4, 4, 5] {
        let maps = program.run(&mut heap, cycles);
        println!("{maps:.3} pages mapped for each request of {cycles} more cycles");
    }
    let maps = program.run(&mut heap, 5);
    let slack = (heap.reserved_bytes() - LIVE_BYTES) as f64 / LIVE_BYTES as f64;
    println!("then {maps:.3}, with {:.1} % of slack", 100.0 * slack);
    assert!(maps < 0.5, "{maps} pages mapped for each request");
    assert!(slack > 0.0 && slack < 1.0 / 39.0, "{slack}");
}

#[test]
fn a_device_without_memory_for_slack_is_asked_once() {
    let mut heap = stitched(LIVE_BYTES, StitchConfig::default());
    Program::default().run(&mut heap, 20);
    let created = heap.device_mut().counts().of(DeviceCall::Create);
    assert_eq!(created, LIVE_BYTES / (2 * MIB) + 1, "the last was refused");
    let stats = heap.stats();
    assert_eq!((stats.num_alloc_retries, stats.num_ooms), (0, 0));
    assert_eq!(heap.reserved_bytes(), LIVE_BYTES);
}

/// Under `throw_on_cudamalloc_oom`, a segment beyond the fraction of the settings ends the request, whatever limit was
/// set since.
#[test]
fn no_request_is_refused_for_the_sake_of_slack() {
    let config = Config {
        stitch: Some(StitchConfig::default()),
        throw_on_cudamalloc_oom: true,
        per_process_memory_fraction: 0.125,
        ..Config::default()
    };
    let mut heap = heap(8 * LIVE_BYTES, config);
    heap.set_memory_fraction(1.0).expect("a fraction");
    Program::default().run(&mut heap, 30);
    assert_eq!(heap.reserved_bytes(), LIVE_BYTES);
}

/// The loop before the iteration in which it takes slack, and after it.
fn around_the_slack() -> [(TestHeap, Program); 2] {
    let mut heap = stitched(4 * GIB, StitchConfig::default());
    let mut program = Program::default();
    loop {
        let before = (heap.clone(), program.clone());
        assert_eq!(program.iterate(&mut heap), [], "nothing fails by itself");
        if heap.reserved_bytes() > LIVE_BYTES {
            return [before, (heap, program)];
        }
        assert!(program.iteration < 40 * CYCLE, "no slack is taken");
    }
}

#[test]
fn a_fault_while_slack_is_taken_is_reported_or_made_good_and_leaks_nothing() {
    let [mut before, mut after] = around_the_slack();
    let mut made_good = 0;
    for call in [
        DeviceCall::Create,
        DeviceCall::Map,
        DeviceCall::SetAccess,
        DeviceCall::Unmap,
        DeviceCall::EventRecord,
        DeviceCall::EventQuery,
        DeviceCall::StreamSynchronize,
    ] {
        let count = |heap: &mut TestHeap| heap.device_mut().counts().of(call);
        let made = count(&mut after.0) - count(&mut before.0);
        for nth in (1..=made).step_by(made.div_ceil(4).max(1) as usize) {
            for fault in [Fault::Driver(719), Fault::OutOfMemory] {
                let (mut heap, mut program) = before.clone();
                heap.device_mut().faults_mut().fail_nth(call, nth, fault);
                let errors = program.iterate(&mut heap);
                let named = |error: &AllocError| error.to_string().starts_with(&call.to_string());
                let is_refused = (fault, call) == (Fault::OutOfMemory, DeviceCall::Create);
                assert!(errors.iter().all(named), "{call} {nth}: {errors:?}");
                assert!(!is_refused || errors.is_empty(), "{nth}: slack is no need, {errors:?}");
                made_good += usize::from(errors.is_empty());
                heap.device_mut().faults_mut().clear();
                assert_eq!(program.iterate(&mut heap), [], "{call} {nth}: nothing fails any more");
                program.blocks.into_iter().for_each(|addr| heap.give(addr));
                heap.flush();
                assert_eq!(heap.device_mut().check_empty(), Ok(()), "{call} {nth}");
            }
        }
    }
    assert!(made_good > 0);
}
