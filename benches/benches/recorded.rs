//! A recorded step of training, over and over, through the heap as it ships: an allocation and its free under `native`
//! and under `stitch`, which finds the addresses of the step before again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use benches::{Recording, Setup, Trace, Turns};
use replay::edit::{Edit, edit};
use trace_format::{Addr, DeviceId, Event, Stream};

const DEVICE: DeviceId = DeviceId(0);
/// Where a step begins.
const STEP: &str = "Optimizer.step#AdamW.step";
/// Executions of the step before the measured ones, after which no placement is new, and measured ones.
const STEPS: [u32; 2] = [8, 128];

/// A request of the program.
enum Operation {
    Malloc {
        requested_bytes: u64,
        stream: Stream,
    },
    /// By the number of the allocation.
    Free(usize),
}

/// The run with its last step repeated, split where the measured steps begin; and the measured allocations.
fn program(trace: &Trace) -> (Vec<Operation>, usize, u64) {
    let repeated = |times| {
        let (tape, _) = edit(&trace.tape, &[Edit::Repeat { times, steps: Some(STEP.to_owned()) }])
            .expect("a step");
        tape.devices.into_iter().next().expect("a device").records
    };
    let [warm, measured] = STEPS;
    let all = operations(repeated(warm + measured).into_iter().map(|record| record.event));
    let fewer = operations(repeated(warm).into_iter().map(|record| record.event));
    // What follows the last step is as long in both.
    let begin = fewer.len();
    let is_malloc = |operation: &&Operation| matches!(operation, Operation::Malloc { .. });
    let pairs = all[begin..].iter().filter(is_malloc).count() as u64;
    (all, begin, pairs)
}

fn operations(events: impl Iterator<Item = Event>) -> Vec<Operation> {
    let mut live = HashMap::new();
    let mut count = 0;
    let operation = |event| match event {
        Event::Alloc { addr, requested_bytes, stream, .. } => {
            live.insert(addr, count);
            count += 1;
            Some(Operation::Malloc { requested_bytes, stream })
        }
        Event::Free { addr, .. } => live.remove(&addr).map(Operation::Free),
        _ => None,
    };
    events.filter_map(operation).collect()
}

/// How long the measured steps take in a heap of their own.
fn run((operations, begin, _): &(Vec<Operation>, usize, u64), setup: Setup) -> Duration {
    let subject = setup.subject(DEVICE);
    let mut addrs: Vec<Addr> = Vec::with_capacity(operations.len());
    let mut serve = |operations: &[Operation]| {
        for operation in operations {
            match *operation {
                Operation::Malloc { requested_bytes, stream } => {
                    addrs.push(subject.malloc(requested_bytes, stream));
                }
                Operation::Free(number) => subject.free(addrs[number]),
            }
        }
    };
    serve(&operations[..*begin]);
    let started = Instant::now();
    serve(&operations[*begin..]);
    started.elapsed()
}

fn main() {
    let traces = Trace::all();
    let trace = traces.iter().find(|trace| trace.name == "gpt2_train-default");
    let program = program(trace.expect("a recording"));
    let setups = [false, true].map(|is_stitch| Setup { recording: Recording::Ring, is_stitch });
    let turns = Turns::measure(&setups, program.2, |setup| run(&program, *setup));
    let [low, median, high] = turns.ratio(1, 0);
    println!(
        "gpt2_train, {} pairs: {:.1} ns per pair under native, {:.1} under stitch, {median:.2} times as long \
         ({low:.2}-{high:.2})",
        program.2,
        turns.median_ns(0),
        turns.median_ns(1)
    );
}
