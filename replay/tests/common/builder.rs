//! Makes tapes by hand: a program's requests, in order, by name.

use std::collections::HashMap;
use std::ops::Range;

use proptest::prelude::*;
use replay::driver::Follow;
use replay::run::{Addresses, DeviceTape, Options, Outcome, run_recording};
use settings::{Compat, Config};
use trace_format::{
    Addr, BaseState, Event, PoolId, Record, ScopeFilter, StackId, Stream, ThreadId,
};

/// One MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// The calls of a program, without what the allocator makes of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) records: Vec<Record>,
    live: HashMap<String, (Addr, u64)>,
    next_addr: u64,
    stack: StackId,
}

impl Program {
    fn push(&mut self, event: Event) {
        let time_ns = 1_000_000 * (self.records.len() as u64 + 1);
        self.records.push(Record { time_ns, thread: ThreadId(1), stack: self.stack, event });
    }

    /// `torch.empty(bytes)` on a stream.
    pub(crate) fn alloc(&mut self, name: &str, bytes: u64, stream: u64) {
        self.alloc_in(name, bytes, stream, PoolId::DEFAULT);
    }

    /// The same in a pool.
    pub(crate) fn alloc_in(&mut self, name: &str, bytes: u64, stream: u64, pool: PoolId) {
        self.next_addr += 1;
        let addr = Addr(self.next_addr << 9);
        assert!(self.live.insert(name.to_owned(), (addr, bytes)).is_none(), "{name} lives");
        let size_bytes = bytes.next_multiple_of(512);
        let stream = Stream(stream);
        self.push(Event::Alloc { addr, requested_bytes: bytes, size_bytes, stream, pool });
    }

    /// `del name`.
    pub(crate) fn free(&mut self, name: &str) {
        let (addr, bytes) = self.live.remove(name).expect("a live name");
        let size_bytes = bytes.next_multiple_of(512);
        self.push(Event::Free { addr, requested_bytes: bytes, size_bytes, pending: false });
    }

    /// `name.record_stream(stream)`.
    pub(crate) fn record_stream(&mut self, name: &str, stream: u64) {
        let (addr, _) = self.live[name];
        self.push(Event::RecordStream { addr, stream: Stream(stream) });
    }

    /// Everything from here on is called from this stack.
    pub(crate) fn call_from(&mut self, stack: u32) {
        self.stack = StackId(stack);
    }

    /// `name.record_stream(other); del name`: it waits until [`Self::complete`].
    pub(crate) fn free_later(&mut self, name: &str) {
        let (addr, bytes) = self.live[name];
        let size_bytes = bytes.next_multiple_of(512);
        self.push(Event::Free { addr, requested_bytes: bytes, size_bytes, pending: true });
    }

    /// The other stream is done with it.
    pub(crate) fn complete(&mut self, name: &str) {
        let (addr, bytes) = self.live.remove(name).expect("a live name");
        let size_bytes = bytes.next_multiple_of(512);
        self.push(Event::FreeCompleted { addr, requested_bytes: bytes, size_bytes });
    }

    /// `torch.cuda.empty_cache()`.
    pub(crate) fn empty_cache(&mut self) {
        self.push(Event::EmptyCache { pool: PoolId::DEFAULT, inferred: false });
    }

    /// `with torch.cuda.use_mem_pool(pool):` begins.
    pub(crate) fn begin_pool(&mut self, pool: PoolId) {
        self.push(Event::PoolBegin { pool, filter: ScopeFilter::Thread });
    }

    /// ... and ends.
    pub(crate) fn end_pool(&mut self, pool: PoolId) {
        self.push(Event::PoolEnd { pool });
    }

    /// `torch.cuda.set_per_process_memory_fraction`.
    pub(crate) fn memory_fraction(&mut self, fraction: f64) {
        self.push(Event::MemoryFraction { fraction });
    }

    /// Hands the program to a replay.
    pub(crate) fn with_tape<T>(&self, replay: impl FnOnce(DeviceTape<'_>) -> T) -> T {
        let base = BaseState::default();
        replay(DeviceTape { base: &base, records: &self.records, text: &|_| "" })
    }

    /// Replays it with the real allocator.
    pub(crate) fn record(&self, options: &Options) -> Outcome {
        self.with_tape(|tape| run_recording(tape, options, &mut |_| {}))
            .expect("a consistent program")
    }
}

/// Settings on a device of this capacity.
pub(crate) fn options(config: &str, capacity_bytes: Option<u64>) -> Options {
    Options {
        strategy: Config::parse(config, Compat::V2_15).expect("settings").config.into(),
        capacity_bytes,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow { is_as_recorded: false, ..Follow::default() },
    }
}

/// One step of a random program.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Alloc { bytes: u64, stream: u64, pool: u64 },
    Free(usize),
    FreeLater(usize),
    Complete(usize),
    EmptyCache,
}

/// That many steps.
pub(crate) fn random_steps(count: Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), count)
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![1..4096u64, 1..(3 * MIB), 1..(40 * MIB)];
    prop_oneof![
        5 => (bytes, 0..3u64, 0..3u64)
            .prop_map(|(bytes, stream, pool)| Step::Alloc { bytes, stream, pool }),
        3 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeLater),
        1 => any::<usize>().prop_map(Step::Complete),
        1 => Just(Step::EmptyCache),
    ]
}

/// The program that they are; what makes no sense is left out.
pub(crate) fn random_program(steps: &[Step]) -> Program {
    let mut program = Program::default();
    let (mut held, mut waiting): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        match *step {
            Step::Alloc { bytes, stream, pool } => {
                held.push(at.to_string());
                program.alloc_in(&at.to_string(), bytes, stream, PoolId(0, pool));
            }
            Step::Free(which) if !held.is_empty() => {
                program.free(&held.swap_remove(which % held.len()));
            }
            Step::FreeLater(which) if !held.is_empty() => {
                let name = held.swap_remove(which % held.len());
                program.free_later(&name);
                waiting.push(name);
            }
            Step::Complete(which) if !waiting.is_empty() => {
                program.complete(&waiting.swap_remove(which % waiting.len()));
            }
            Step::EmptyCache => program.empty_cache(),
            Step::Free(_) | Step::FreeLater(_) | Step::Complete(_) => {}
        }
    }
    program
}
