//! Live bytes of every group of blocks at each step, in one pass over the records.
//!
//! A group's series is kept as its changes, so that memory grows with the records and not with groups times steps.

use hashbrown::HashMap;
use trace_format::{Addr, BlockStatus, Category, Event, Record, StringId};

use crate::categories::Categories;
use crate::holders::OwnCode;
use crate::modules::{ModuleOfAlloc, OpenModules, are_marked};
use crate::steps::Steps;
use crate::tape::{Device, Tape};

/// Samples that a series is judged by; of longer runs each is the least of several steps.
pub(super) const SAMPLES_MAX: usize = 256;

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// Place of its own code.
    pub(super) code: usize,
    /// Its module; the default is none.
    pub(super) module: StringId,
    /// Bytes of the block.
    pub(super) size_bytes: u64,
    /// Steps that had begun when it was allocated.
    pub(super) steps_before: usize,
    /// When that was.
    pub(super) time_ns: u64,
    is_counted: bool,
}

/// The live bytes of one group.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    bytes: u64,
    is_changed: bool,
    /// The step and the bytes when it began, where they differ from those of the step before.
    changes: Vec<(usize, u64)>,
}

/// What one pass finds.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// By place of the code.
    pub(super) codes: Vec<Series>,
    /// By module; empty where the run has no modules.
    pub(super) modules: HashMap<StringId, Series>,
    /// Live blocks when the last step began.
    pub(super) at_last_step: HashMap<Addr, Live>,
    /// Live blocks behind the last record.
    pub(super) at_end: HashMap<Addr, Live>,
    /// The most that was allocated at once since the last step but one began.
    pub(super) peak_bytes: u64,
}

/// Follows the records of a device.
pub(super) fn sample(tape: &Tape, device: &Device, code: &OwnCode, steps: &Steps) -> Samples {
    let categories = Categories::of(&device.base.segments, &device.records);
    let has_modules = are_marked(&device.records);
    let mut pass = Pass {
        samples: Samples { codes: vec![Series::default(); code.codes.len()], ..Samples::default() },
        live: HashMap::new(),
        changed_codes: Vec::new(),
        changed_modules: Vec::new(),
        has_modules,
        steps: 0,
        allocated_bytes: 0,
    };
    let mut open = OpenModules::new(&tape.stacks);
    for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
        if block.status == BlockStatus::Allocated {
            let is_counted = is_counted(categories.of_base(block.addr));
            pass.add(
                block.addr,
                Live {
                    code: code.of_base(block.stack),
                    module: StringId::default(),
                    size_bytes: block.size_bytes,
                    steps_before: 0,
                    time_ns: device.base.time_ns,
                    is_counted,
                },
            );
        }
    }
    let mut begins = steps.begins.iter().copied().peekable();
    let last_but_one = steps.begins.iter().rev().nth(1).copied().unwrap_or(0);
    for (at, Record { stack, event, thread, time_ns }) in device.records.iter().enumerate() {
        if begins.next_if_eq(&at).is_some() {
            pass.begin_step(begins.peek().is_none());
        }
        if has_modules {
            open.follow(&device.records[at]);
        }
        match *event {
            Event::Alloc { addr, size_bytes, .. } => {
                let module =
                    if has_modules { open.of_alloc(*thread) } else { ModuleOfAlloc::default() };
                pass.add(
                    addr,
                    Live {
                        code: code.of_alloc(*stack),
                        module: module.module,
                        size_bytes,
                        steps_before: pass.steps,
                        time_ns: *time_ns,
                        is_counted: is_counted(categories.of_alloc(at)),
                    },
                );
            }
            Event::Free { addr, .. } => pass.remove(addr),
            Event::Category { addr, .. } => {
                if let Some(owner) = open.owner(*thread) {
                    pass.give_to(addr, owner);
                }
            }
            _ => {}
        }
        if at >= last_but_one {
            pass.samples.peak_bytes = pass.samples.peak_bytes.max(pass.allocated_bytes);
        }
    }
    pass.samples.at_end = pass.live;
    pass.samples
}

/// The state of an optimizer is no leak, whenever it appears.
fn is_counted(category: Option<Category>) -> bool {
    category != Some(Category::OptimizerState)
}

struct Pass {
    samples: Samples,
    live: HashMap<Addr, Live>,
    changed_codes: Vec<usize>,
    changed_modules: Vec<StringId>,
    has_modules: bool,
    steps: usize,
    allocated_bytes: u64,
}

impl Pass {
    fn add(&mut self, addr: Addr, block: Live) {
        self.remove(addr); // A tape that lost the free.
        self.live.insert(addr, block);
        self.allocated_bytes = self.allocated_bytes.saturating_add(block.size_bytes);
        self.change(&block, |bytes| bytes.saturating_add(block.size_bytes));
    }

    fn remove(&mut self, addr: Addr) {
        let Some(block) = self.live.remove(&addr) else { return };
        self.allocated_bytes = self.allocated_bytes.saturating_sub(block.size_bytes);
        self.change(&block, |bytes| bytes.saturating_sub(block.size_bytes));
    }

    /// A category's owner is the module of the block.
    fn give_to(&mut self, addr: Addr, owner: StringId) {
        let Some(block) = self.live.get(&addr).copied().filter(|block| block.module != owner)
        else {
            return;
        };
        self.remove(addr);
        self.add(addr, Live { module: owner, ..block });
    }

    fn change(&mut self, block: &Live, change: impl Fn(u64) -> u64) {
        if !block.is_counted {
            return;
        }
        if self.samples.codes[block.code].set(&change) {
            self.changed_codes.push(block.code);
        }
        if self.has_modules && self.samples.modules.entry(block.module).or_default().set(&change) {
            self.changed_modules.push(block.module);
        }
    }

    fn begin_step(&mut self, is_last: bool) {
        let Self { samples, changed_codes, changed_modules, steps, .. } = self;
        for code in changed_codes.drain(..) {
            samples.codes[code].keep(*steps);
        }
        for module in changed_modules.drain(..) {
            samples.modules.entry(module).or_default().keep(*steps);
        }
        self.steps += 1;
        if is_last {
            self.samples.at_last_step.clone_from(&self.live);
        }
    }
}

impl Series {
    /// Changes the bytes; whether they were as at the last step until now.
    fn set(&mut self, change: impl Fn(u64) -> u64) -> bool {
        self.bytes = change(self.bytes);
        !std::mem::replace(&mut self.is_changed, true)
    }

    fn keep(&mut self, step: usize) {
        self.is_changed = false;
        if self.changes.last().map_or(0, |(_, bytes)| *bytes) != self.bytes {
            self.changes.push((step, self.bytes));
        }
    }

    /// The bytes when the last step began.
    pub(super) fn last_bytes(&self) -> u64 {
        self.changes.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// The samples of so many steps; empty where the series changed too seldom for a trend.
    pub(super) fn samples(&self, steps: usize, changes_min: usize) -> Vec<u64> {
        if self.changes.len() < changes_min {
            return Vec::new();
        }
        let count = steps.min(SAMPLES_MAX);
        let mut samples = vec![u64::MAX; count];
        let mut from = (0, 0);
        let ends = self.changes.iter().copied().chain([(steps, 0)]);
        for (to, next_bytes) in ends {
            let (step, bytes) = from;
            if to > step {
                let places = sample_of(step, steps)..=sample_of(to - 1, steps);
                for sample in &mut samples[places] {
                    *sample = bytes.min(*sample);
                }
            }
            from = (to, next_bytes);
        }
        samples
    }
}

/// The sample that a step belongs to.
fn sample_of(step: usize, steps: usize) -> usize {
    let count = steps.min(SAMPLES_MAX) as u128;
    (step as u128 * count / steps.max(1) as u128) as usize
}

/// The first step of a sample.
pub(super) fn step_of(sample: usize, steps: usize) -> usize {
    let count = steps.clamp(1, SAMPLES_MAX) as u128;
    (sample as u128 * steps as u128).div_ceil(count) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_the_least_of_the_steps_of_each_sample() {
        let changes = vec![(0, 5), (2, 9), (3, 7)];
        let series = Series { changes, ..Series::default() };
        assert_eq!(series.samples(5, 1), [5, 5, 9, 7, 7]);
        assert_eq!(series.samples(5, 4), [0_u64; 0]);
        let rises = (0..1000).map(|step| (step, step as u64)).collect();
        let long = Series { changes: rises, ..Series::default() }.samples(1000, 1);
        assert_eq!(long.len(), SAMPLES_MAX);
        for (sample, least) in long.iter().enumerate() {
            assert_eq!(step_of(sample, 1000) as u64, *least, "sample {sample}");
        }
    }

    #[test]
    fn every_step_is_in_the_sample_that_begins_with_or_before_it() {
        for steps in [1, 7, 256, 257, 5000] {
            for step in 0..steps {
                let sample = sample_of(step, steps);
                assert!(step_of(sample, steps) <= step, "{step} of {steps}");
                assert!(step_of(sample + 1, steps) > step, "{step} of {steps}");
            }
        }
    }
}
