//! A step that repeats, and in which a request loses its place.

use std::sync::Arc;

use device::DeviceCall;
use settings::{Config, Plan, StitchConfig};
use sim_device::Fault;
use trace_format::Addr;

use super::{MANY_REQUESTS, begin_step};
use crate::support::{Calls, GIB, MIB, TestHeap, heap};

/// Of the step.
const RESERVED_BYTES: u64 = 62 * MIB;
/// A block beside which two pages beyond need are few.
const OTHER_BYTES: u64 = 128 * MIB;

/// A block that is not freed as in the executions before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// The first one, which is in the place of the large one.
    First,
    Large,
}

/// Of one execution.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    new_pages: u64,
    /// For the request after the large one. It wants 12 pages of its own.
    mapped_pages: u64,
}

const NOTHING: Cost = Cost { new_pages: 0, mapped_pages: 0 };
const SPARED: Cost = Cost { new_pages: 2, mapped_pages: 0 };
/// The large request takes three of these pages, and the next one maps all of its pages behind the frontier.
const NOT_SPARED: Cost = Cost { new_pages: 3, mapped_pages: 12 };

/// A step of a block that is freed, a large one at its place, and the next one.
struct Step {
    heap: TestHeap,
    /// By which it is found again.
    requests: u64,
    /// Between the blocks and behind them.
    separators: Vec<Addr>,
}

impl Step {
    fn new(mut heap: TestHeap, other_bytes: u64) -> Self {
        heap.take(other_bytes);
        Self { heap, requests: MANY_REQUESTS, separators: Vec::new() }
    }

    fn repeated(mut self, times: u32) -> Self {
        let other_bytes = self.heap.reserved_bytes();
        for _ in 0..times {
            self.execute(Kept::Nothing);
        }
        assert_eq!(self.heap.reserved_bytes(), other_bytes + RESERVED_BYTES);
        self
    }

    fn execute(&mut self, kept: Kept) -> Cost {
        let maps = |heap: &mut TestHeap| heap.device_mut().counts().of(DeviceCall::Map);
        let heap = &mut self.heap;
        begin_step(heap, self.requests);
        let reserved_bytes = heap.reserved_bytes();
        let is_first = self.separators.is_empty();
        let first = heap.take(3 * MIB);
        if kept != Kept::First {
            heap.give(first);
        }
        let large = heap.take(32 * MIB);
        if is_first {
            self.separators.push(heap.take(3 * MIB));
        }
        let before = maps(heap);
        let next = heap.take(24 * MIB);
        let mapped_pages = maps(heap) - before;
        if is_first {
            self.separators.push(heap.take(3 * MIB));
        }
        if kept != Kept::Large {
            heap.give(large);
        }
        heap.give(next);
        Cost { new_pages: (heap.reserved_bytes() - reserved_bytes) / (2 * MIB), mapped_pages }
    }

    /// What the loss of the place costs. The next execution costs nothing.
    fn lose_the_place(&mut self) -> Cost {
        let cost = self.execute(Kept::First);
        assert_eq!(self.execute(Kept::Nothing), NOTHING);
        cost
    }
}

fn stitched() -> Config {
    Config { stitch: Some(StitchConfig::default()), ..Config::default() }
}

#[test]
fn new_pages_serve_it_in_place_of_those_that_the_next_request_wants() {
    let mut step = Step::new(heap(GIB, stitched()), OTHER_BYTES).repeated(6);
    assert_eq!(step.lose_the_place(), SPARED);
}

#[test]
fn it_takes_them_where_few_requests_correspond_or_the_step_occurred_twice() {
    let mut short = Step::new(heap(GIB, stitched()), OTHER_BYTES);
    short.requests = 30;
    assert_eq!(short.repeated(6).lose_the_place(), NOT_SPARED);

    let mut new = Step::new(heap(GIB, stitched()), OTHER_BYTES).repeated(3);
    assert_eq!(new.execute(Kept::First), NOT_SPARED);
}

#[test]
fn it_takes_them_where_more_than_one_page_in_20_would_be_beyond_need() {
    let mut small = Step::new(heap(GIB, stitched()), 2 * MIB).repeated(6);
    assert_eq!(small.lose_the_place(), NOT_SPARED);

    let mut step = Step::new(heap(GIB, stitched()), 432 * MIB).repeated(6);
    step.execute(Kept::Large);
    let mapped_pages = [(); 2].map(|()| step.execute(Kept::Large).mapped_pages);
    assert_eq!(mapped_pages, [0, 12], "12 pages in 247, and then none");
}

/// Less than a tenth of the memory would be left. Edges serve as well.
#[test]
fn it_takes_them_where_memory_is_scarce() {
    let capacity_bytes = OTHER_BYTES + RESERVED_BYTES + 40 * MIB;
    let share = capacity_bytes as f64 / GIB as f64;
    let small = heap(capacity_bytes, stitched());
    let mut limited = heap(GIB, stitched());
    limited.set_memory_fraction(share).expect("a fraction");
    let config =
        Config { throw_on_cudamalloc_oom: true, per_process_memory_fraction: share, ..stitched() };
    let mut configured = heap(GIB, config);
    configured.set_memory_fraction(1.0).expect("a fraction");
    for (limit, heap) in [("device", small), ("fraction", limited), ("settings", configured)] {
        let cost = Step::new(heap, OTHER_BYTES).repeated(6).lose_the_place();
        assert!(cost.mapped_pages >= NOT_SPARED.mapped_pages, "{limit}: {cost:?}");
    }
}

/// Another process may hold the rest of the device.
#[test]
fn it_takes_them_where_the_device_has_no_new_ones() {
    let mut step = Step::new(heap(GIB, stitched()), OTHER_BYTES).repeated(6);
    // Behind the frontier and in a hole.
    for nth in [1, 2] {
        step.heap.device_mut().faults_mut().fail_nth(DeviceCall::Create, nth, Fault::OutOfMemory);
    }
    assert_eq!(step.lose_the_place(), NOT_SPARED);
    assert_eq!(step.heap.stats().num_alloc_retries, 0);
}

#[test]
fn it_takes_home_bytes_that_the_next_request_wants_in_the_first_executions_and_under_a_plan_to_save_pages()
 {
    let is_next_ones = |requests, times, large_bytes, plan| {
        let mut heap = heap(GIB, Config { plan, ..stitched() });
        let [_, other, _] = [2, 64, 3].map(|mib| heap.take(mib * MIB));
        let mut separators = Vec::new();
        let mut execute = |heap: &mut TestHeap, is_first_kept: bool| {
            begin_step(heap, requests);
            let first = heap.take(3 * MIB);
            if !is_first_kept {
                heap.give(first);
            }
            let large = heap.take(large_bytes);
            if separators.is_empty() {
                separators.push(heap.take(3 * MIB));
            }
            let next = heap.take(32 * MIB);
            if separators.len() == 1 {
                separators.push(heap.take(3 * MIB));
            }
            heap.give(large);
            heap.give(next);
            (large, next)
        };
        let places = (0..times).map(|_| execute(&mut heap, false)).last();
        let (_, next) = places.expect("an execution");
        heap.give(other);
        let (large, _) = execute(&mut heap, true);
        heap.check().expect("consistent");
        next <= large && large.0 < next.0 + 32 * MIB
    };
    let plan = Some(Arc::new(Plan { sequences: Vec::new() }));
    let with_size = |large_bytes| {
        [(MANY_REQUESTS, 6), (30, 6), (MANY_REQUESTS, 3)].map(|(requests, times)| {
            [None, plan.clone()].map(|plan| is_next_ones(requests, times, large_bytes, plan))
        })
    };
    assert_eq!(with_size(24 * MIB), [[false, false], [true, false], [true, false]]);
    // Elsewhere it would use up a page more.
    assert_eq!(with_size(27 * MIB), [[false, false], [true, true], [true, true]]);
}
