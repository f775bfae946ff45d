use trace_format::{
    Addr, Category, Event, Frame, FrameId, MarkKind, PoolId, Record, StackId, Stream, StringId,
    ThreadId,
};

use super::{Leaks, Verdict, leaks};
use crate::holders::HolderKind;
use crate::steps::StepSource;
use crate::tape::{Device, Tape};

const MIB: u64 = 1 << 20;

/// A training that is made by hand: model, activations and marks, and what a test adds in each step.
struct Training {
    tape: Tape,
    records: Vec<Record>,
    next_addr: u64,
}

impl Training {
    fn new() -> Self {
        Self { tape: Tape::default(), records: Vec::new(), next_addr: 0 }
    }

    /// The stack of a function of `train.py`, called by `main`.
    fn stack(&mut self, function: &str, line: u32) -> StackId {
        let stacks = &mut self.tape.stacks;
        let mut frames = Vec::new();
        for (name, line) in [(function, line), ("main", 99)] {
            let (name, filename) = (stacks.add_string(name), stacks.add_string("/d/train.py"));
            stacks.frames.push(Frame { name, filename, line });
            frames.push(FrameId(stacks.frames.len() as u32 - 1));
        }
        stacks.stacks.push(frames.into());
        StackId(stacks.stacks.len() as u32 - 1)
    }

    fn push(&mut self, stack: StackId, event: Event) {
        let time_ns = self.records.len() as u64;
        self.records.push(Record { time_ns, thread: ThreadId(1), stack, event });
    }

    fn alloc(&mut self, stack: StackId, size_bytes: u64) -> Addr {
        self.next_addr += size_bytes;
        let (addr, stream, pool) = (Addr(self.next_addr), Stream(0), PoolId::DEFAULT);
        self.push(
            stack,
            Event::Alloc { addr, requested_bytes: size_bytes, size_bytes, stream, pool },
        );
        addr
    }

    fn free(&mut self, addr: Addr) {
        let (requested_bytes, size_bytes) = (0, 0);
        let event = Event::Free { addr, requested_bytes, size_bytes, pending: false };
        self.push(StackId::NONE, event);
    }

    fn mark(&mut self, kind: MarkKind, name: &str) {
        let strings = &self.tape.stacks.strings;
        let known = strings.iter().position(|text| **text == *name);
        let known = known.map(|at| StringId(at as u32));
        let name = known.unwrap_or_else(|| self.tape.stacks.add_string(name));
        self.push(StackId::NONE, Event::Mark { kind, name });
    }

    /// So many steps, in each of which the loop frees its activations of the step before, and `body` runs.
    fn run(mut self, steps: usize, mut body: impl FnMut(&mut Self, usize)) -> Self {
        let (init, forward) = (self.stack("init", 1), self.stack("forward", 2));
        for _ in 0..4 {
            self.alloc(init, 10 * MIB);
        }
        let mut kept = None;
        for step in 1..=steps {
            self.mark(MarkKind::Step, &format!("step {step}"));
            let activations = [self.alloc(forward, 3 * MIB), self.alloc(forward, MIB)];
            body(&mut self, step);
            self.free(activations[1]);
            if let Some(last) = kept.replace(activations[0]) {
                self.free(last);
            }
        }
        self
    }

    fn leaks(&self) -> Leaks {
        self.leaks_by(None)
    }

    fn leaks_by(&self, boundary: Option<&str>) -> Leaks {
        let device = Device { records: self.records.clone(), ..Device::default() };
        leaks(&self.tape, &device, boundary, Some(1 << 30))
    }
}

#[test]
fn a_list_that_grows_is_found_with_its_code_its_blocks_and_the_end_of_memory() {
    let mut training = Training::new();
    let append = training.stack("append", 31);
    let training = training.run(50, |it, _| {
        it.alloc(append, 2 * MIB);
    });
    let found = training.leaks();
    assert_eq!((found.verdict, found.rows.len()), (Verdict::Growth, 1));
    assert_eq!((found.steps, found.steps_by), (50, StepSource::Marks));
    let row = &found.rows[0];
    assert_eq!(row.code.line(), "train.py:31 append < train.py:99 main");
    assert_eq!(row.growth.bytes_per_step, 2 * MIB);
    assert_eq!((row.growth.since, row.growth.since_step.as_str()), (0, "step 1"));
    assert!(row.growth.confidence > 0.999_99);
    assert_eq!(row.growth.live_bytes, 98 * MIB, "when step 50 began");
    assert_eq!((row.blocks_total, row.blocks.len()), (50, 32));
    let block = &row.blocks[0];
    assert_eq!((block.size_bytes, block.step.as_str(), block.age_steps), (2 * MIB, "step 1", 49));
    let out = found.out_of_memory.unwrap();
    // 40 MiB of the model, 100 MiB of the list and 7 MiB of activations of two steps.
    assert_eq!((out.peak_bytes, out.steps_left), (147 * MIB, (1024 - 147) / 2));
    assert_eq!(out.step, 50 + out.steps_left);
}

#[test]
fn a_cache_that_is_replaced_by_a_larger_one_grows() {
    let mut training = Training::new();
    let cat = training.stack("cat", 7);
    let mut cache = None;
    let training = training.run(40, |it, step| {
        let larger = it.alloc(cat, step as u64 * MIB);
        if let Some(smaller) = cache.replace(larger) {
            it.free(smaller);
        }
    });
    let found = training.leaks();
    assert_eq!(found.rows.len(), 1);
    assert_eq!(found.rows[0].growth.bytes_per_step, MIB);
    assert_eq!(found.rows[0].blocks_total, 1, "the largest alone is live");
}

#[test]
fn look_alikes_are_no_growth() {
    type Body = fn(&mut Training, usize, StackId, &mut Vec<Addr>);
    let look_alikes: [(&str, Body); 6] = [
        ("warm-up", |it, step, stack, _| {
            if step <= 6 {
                it.alloc(stack, MIB);
            }
        }),
        ("optimizer state", |it, step, stack, _| {
            if step == 2 {
                it.alloc(stack, 80 * MIB);
            }
        }),
        ("evaluation", |it, step, stack, held| {
            held.drain(..).for_each(|addr| it.free(addr));
            if step % 10 == 0 {
                held.push(it.alloc(stack, 50 * MIB));
            }
        }),
        ("growth that stops", |it, step, stack, _| {
            if step <= 60 {
                it.alloc(stack, MIB);
            }
        }),
        ("saw-tooth", |it, step, stack, held| {
            if step % 25 == 0 {
                held.drain(..).for_each(|addr| it.free(addr));
            }
            held.push(it.alloc(stack, MIB));
        }),
        ("batches of other sizes", |it, step, stack, held| {
            held.drain(..).for_each(|addr| it.free(addr));
            held.push(it.alloc(stack, (step as u64 * 7919 % 64 + 1) * MIB));
        }),
    ];
    for (name, body) in look_alikes {
        let mut training = Training::new();
        let stack = training.stack("suspect", 5);
        let mut held = Vec::new();
        let training = training.run(100, |it, step| body(it, step, stack, &mut held));
        let found = training.leaks();
        assert_eq!((found.verdict, found.rows.len()), (Verdict::NoGrowth, 0), "{name}: {found:?}");
    }
}

#[test]
fn the_state_of_an_optimizer_that_comes_late_is_no_growth() {
    let run = |is_state: bool| {
        let mut training = Training::new();
        let expert = training.stack("step", 8);
        let training = training.run(40, |it, _| {
            let addr = it.alloc(expert, MIB);
            if is_state {
                it.push(
                    StackId::NONE,
                    Event::Category { addr, category: Category::OptimizerState },
                );
            }
        });
        training.leaks().verdict
    };
    assert_eq!((run(false), run(true)), (Verdict::Growth, Verdict::NoGrowth));
}

#[test]
fn modules_are_rows_of_their_own() {
    let mut training = Training::new();
    let workspace = training.stack("conv", 12);
    let training = training.run(30, |it, _| {
        it.mark(MarkKind::ModuleBegin, "layers.3.conv");
        it.alloc(workspace, MIB);
        it.mark(MarkKind::ModuleEnd, "layers.3.conv");
    });
    let found = training.leaks();
    let modules: Vec<_> =
        found.modules.iter().map(|row| (row.module.as_str(), row.growth.bytes_per_step)).collect();
    assert_eq!(modules, [("layers.3.conv", MIB)]);
    assert_eq!(found.rows[0].modules, ["layers.3.conv"]);
}

#[test]
fn a_program_that_freed_everything_at_its_end_is_judged_by_its_steps() {
    let mut training = Training::new();
    let append = training.stack("append", 31);
    let mut list = Vec::new();
    let mut training = training.run(30, |it, _| list.push(it.alloc(append, MIB)));
    for addr in list {
        training.free(addr);
    }
    let found = training.leaks();
    assert_eq!((found.rows.len(), found.rows[0].blocks_total), (1, 29), "those of the last step");
}

#[test]
fn growth_within_a_request_is_none_where_requests_are_the_steps() {
    let mut training = Training::new();
    let cat = training.stack("cat", 7);
    let mut held = Vec::new();
    let training = training.run(80, |it, step| {
        if step % 5 == 1 {
            held.drain(..).for_each(|addr| it.free(addr));
            it.mark(MarkKind::RangeBegin, &format!("request {}", step / 5));
        }
        held.push(it.alloc(cat, MIB));
    });
    assert_eq!(training.leaks_by(Some("request")).verdict, Verdict::NoGrowth);
    assert_eq!(training.leaks_by(Some("request")).steps, 16);
    let unknown = training.leaks_by(Some("nothing"));
    assert_eq!(unknown.verdict, Verdict::TooFewSteps);
    assert!(unknown.note.unwrap().contains("no mark is called \"nothing\""));
}

#[test]
fn a_run_of_too_few_steps_says_how_to_get_them() {
    let few = Training::new().run(12, |_, _| {}).leaks();
    assert_eq!((few.verdict, few.steps), (Verdict::TooFewSteps, 12));
    assert!(few.note.unwrap().contains("the run has 12 steps, and growth needs 13"));
    let none = Training::new().run(0, |_, _| {}).leaks();
    assert!(none.note.unwrap().contains("vramtape.step()"));
    assert_eq!((none.steps_by, none.last_step), (StepSource::None, None));
}

#[test]
fn growth_without_stacks_is_growth_of_unattributed_memory() {
    let training = Training::new().run(30, |it, _| {
        it.alloc(StackId::NONE, MIB);
    });
    let found = training.leaks();
    assert_eq!(found.rows[0].code.kind, HolderKind::NoStack);
    assert_eq!(found.rows[0].code.label, "unattributed (no stack recorded)");
}
