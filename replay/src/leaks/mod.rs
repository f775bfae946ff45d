//! What grows from step to step: live bytes by own code and by module, with a trend test at the beginning of each
//! step. `docs/leaks.md` has the rules.

mod samples;
pub mod trend;

use std::cmp::Reverse;

use hashbrown::HashMap;
use serde::Serialize;
use trace_format::{Addr, StringId};

use crate::holders::{Code, OwnCode};
use crate::modules;
use crate::steps::{StepSource, Steps};
use crate::tape::{Device, Tape};
use samples::{Live, SAMPLES_MAX, Samples, Series, sample, step_of};

/// Blocks of a row that are listed.
const BLOCKS_MAX: usize = 32;
/// The least steps of a run that can be judged.
pub const STEPS_MIN: usize = trend::WARM_UP_STEPS + trend::SAMPLES_MIN;

/// The answer for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Some code holds more from step to step.
    Growth,
    /// None does.
    NoGrowth,
    /// The run has fewer than [`STEPS_MIN`] steps, or none are known.
    TooFewSteps,
}

/// Growth of a device's memory over the steps of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaks {
    /// Whether something grows.
    pub verdict: Verdict,
    /// Steps that were compared.
    pub steps: usize,
    /// How they are known.
    pub steps_by: StepSource,
    /// Names of the first and the last step.
    pub first_step: Option<String>,
    /// The last.
    pub last_step: Option<String>,
    /// Why nothing could be judged, and what to do.
    pub note: Option<String>,
    /// Growth of all rows together: bytes per step.
    pub bytes_per_step: u64,
    /// Bytes of the blocks of all rows, when the last step began.
    pub live_bytes: u64,
    /// When memory will be out at this rate; `None` without growth or capacity.
    pub out_of_memory: Option<Projection>,
    /// What grows, by own code, the fastest first.
    pub rows: Vec<GrowingCode>,
    /// What grows, by module; empty where the run has no marks of modules.
    pub modules: Vec<GrowingModule>,
}

/// When memory will be out, if growth goes on as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Projection {
    /// Memory of the device.
    pub capacity_bytes: u64,
    /// The most that was allocated at once in the last steps.
    pub peak_bytes: u64,
    /// Steps after the last one; 0 where it is out already.
    pub steps_left: u64,
    /// The number of that step, from that of the last step's name.
    pub step: u64,
}

/// Growth of one group of blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Bytes per step: the median of the slopes between all pairs of steps (Theil and Sen).
    pub bytes_per_step: u64,
    /// The step in which it began.
    pub since_step: String,
    /// Its place among the steps, from 0.
    pub since: usize,
    /// One less the probability that a series without a trend looks like this one (Mann and Kendall).
    pub confidence: f64,
    /// Bytes of the group's blocks, when the last step began.
    pub live_bytes: u64,
}

/// Code that holds more from step to step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowingCode {
    /// By how much.
    #[serde(flatten)]
    pub growth: Growth,
    /// The code.
    #[serde(flatten)]
    pub code: Code,
    /// Modules of its blocks, the largest first; empty where the run has no marks of modules.
    pub modules: Vec<String>,
    /// Blocks that were allocated since it began, the oldest first, at most 32.
    pub blocks: Vec<LeakedBlock>,
    /// How many there are.
    pub blocks_total: usize,
}

/// A module that holds more from step to step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowingModule {
    /// By how much.
    #[serde(flatten)]
    pub growth: Growth,
    /// Its path.
    pub module: String,
}

/// A block that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeakedBlock {
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub size_bytes: u64,
    /// The step in which it was allocated.
    pub step: String,
    /// Steps that began since.
    pub age_steps: usize,
    /// When it was allocated, in nanoseconds since the Unix epoch; 0 where the run had no clock.
    pub time_ns: u64,
}

/// Finds what grows. `boundary` names what begins a step, as for [`Steps::of`].
/// `capacity_bytes` is for the projection only.
pub fn leaks(
    tape: &Tape,
    device: &Device,
    boundary: Option<&str>,
    capacity_bytes: Option<u64>,
) -> Leaks {
    let steps = Steps::of(tape, device, boundary);
    let count = steps.begins.len();
    let name = |at: usize| steps.name(tape, device, at);
    let mut found = Leaks {
        verdict: Verdict::TooFewSteps,
        steps: count,
        steps_by: steps.source,
        first_step: (count > 0).then(|| name(0)),
        last_step: (count > 0).then(|| name(count - 1)),
        note: note(boundary, count),
        bytes_per_step: 0,
        live_bytes: 0,
        out_of_memory: None,
        rows: Vec::new(),
        modules: Vec::new(),
    };
    if found.note.is_some() {
        return found;
    }
    let code = OwnCode::of(tape);
    let samples = sample(tape, device, &code, &steps);
    let named = Named { count, name: &name };
    let of_codes = samples.codes.iter().enumerate();
    let growths = of_codes.filter_map(|(at, series)| Some((at, named.growth(series)?)));
    let growths: HashMap<usize, Growth> = growths.collect();
    let mut blocks = Kept::of(&samples, &growths);
    for (at, growth) in growths {
        let blocks = blocks.of_code(at);
        found.rows.push(GrowingCode {
            modules: if samples.modules.is_empty() {
                Vec::new()
            } else {
                modules_of(tape, &blocks)
            },
            blocks: blocks.iter().take(BLOCKS_MAX).map(|block| named.block(block)).collect(),
            blocks_total: blocks.len(),
            growth,
            code: code.codes[at].clone(),
        });
    }
    for (module, series) in &samples.modules {
        let Some(growth) = named.growth(series) else { continue };
        let module = modules::label(&tape.stacks, *module).to_owned();
        found.modules.push(GrowingModule { growth, module });
    }
    found.rows.sort_by_cached_key(|row| (Reverse(row.growth.bytes_per_step), row.code.line()));
    let order = |row: &GrowingModule| (Reverse(row.growth.bytes_per_step), row.module.clone());
    found.modules.sort_by_cached_key(order);
    let growths = || found.rows.iter().map(|row| &row.growth);
    let sum = |of: fn(&Growth) -> u64| growths().map(of).fold(0, u64::saturating_add);
    let (bytes_per_step, live_bytes) = (sum(|it| it.bytes_per_step), sum(|it| it.live_bytes));
    (found.bytes_per_step, found.live_bytes) = (bytes_per_step, live_bytes);
    found.verdict = if found.rows.is_empty() { Verdict::NoGrowth } else { Verdict::Growth };
    found.out_of_memory = capacity_bytes
        .filter(|_| found.bytes_per_step > 0)
        .map(|capacity_bytes| projection(&found, capacity_bytes, samples.peak_bytes));
    found
}

fn projection(found: &Leaks, capacity_bytes: u64, peak_bytes: u64) -> Projection {
    let steps_left = capacity_bytes.saturating_sub(peak_bytes) / found.bytes_per_step;
    let last = found.last_step.as_deref().unwrap_or_default();
    let digits = last.len() - last.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let last = last[last.len() - digits..].parse().unwrap_or(found.steps as u64);
    Projection { capacity_bytes, peak_bytes, steps_left, step: last.saturating_add(steps_left) }
}

/// Why so many steps cannot be judged.
fn note(boundary: Option<&str>, steps: usize) -> Option<String> {
    let how = "under `vramtape run` each step of an optimizer is one, and vramtape.step() marks others, such as the \
        requests of a server; --step train.py:31 begins a step where that code allocates";
    match (boundary, steps) {
        (_, STEPS_MIN..) => None,
        (Some(name), 0) => Some(format!(
            "no mark is called {name:?}, and no recorded stack has it: `vramtape export --table records` lists the \
             marks"
        )),
        (None, 0) => Some(format!("the run has no marks of steps: {how}")),
        (_, steps) => Some(format!(
            "the run has {steps} steps, and growth needs {STEPS_MIN}: record more; {how}"
        )),
    }
}

/// The steps by name.
struct Named<'n> {
    count: usize,
    name: &'n dyn Fn(usize) -> String,
}

impl Named<'_> {
    fn growth(&self, series: &Series) -> Option<Growth> {
        let samples = series.samples(self.count, trend::RISES_MIN);
        let found = trend::find(&samples)?;
        let steps_per_sample = self.count as f64 / self.count.min(SAMPLES_MAX) as f64;
        let since = step_of(found.since, self.count);
        Some(Growth {
            bytes_per_step: ((found.slope / steps_per_sample).round() as u64).max(1),
            since_step: (self.name)(since),
            since,
            confidence: found.confidence,
            live_bytes: series.last_bytes(),
        })
    }

    fn block(&self, (addr, block): &(Addr, Live)) -> LeakedBlock {
        LeakedBlock {
            addr: addr.0,
            size_bytes: block.size_bytes,
            step: (self.name)(block.steps_before - 1),
            age_steps: self.count - block.steps_before,
            time_ns: block.time_ns,
        }
    }
}

/// The blocks of growing code that were allocated since it grows.
struct Kept {
    at_end: HashMap<usize, Vec<(Addr, Live)>>,
    at_last_step: HashMap<usize, Vec<(Addr, Live)>>,
}

impl Kept {
    fn of(samples: &Samples, growths: &HashMap<usize, Growth>) -> Self {
        let collect = |live: &HashMap<Addr, Live>| {
            let mut blocks: HashMap<usize, Vec<(Addr, Live)>> = HashMap::new();
            for (addr, block) in live {
                let growth = growths.get(&block.code);
                if growth.is_some_and(|growth| block.steps_before > growth.since) {
                    blocks.entry(block.code).or_default().push((*addr, *block));
                }
            }
            blocks
        };
        Self { at_end: collect(&samples.at_end), at_last_step: collect(&samples.at_last_step) }
    }

    /// The oldest first. Of a program that ended, and freed everything, those of its last step.
    fn of_code(&mut self, code: usize) -> Vec<(Addr, Live)> {
        let at_end = self.at_end.remove(&code);
        let mut blocks = at_end.or_else(|| self.at_last_step.remove(&code)).unwrap_or_default();
        blocks.sort_by_key(|(addr, block)| (block.steps_before, block.time_ns, *addr));
        blocks
    }
}

/// The modules of blocks, the largest first.
fn modules_of(tape: &Tape, blocks: &[(Addr, Live)]) -> Vec<String> {
    let mut bytes: HashMap<StringId, u64> = HashMap::new();
    for (_, block) in blocks {
        let sum = bytes.entry(block.module).or_default();
        *sum = sum.saturating_add(block.size_bytes);
    }
    let mut bytes: Vec<_> = bytes.into_iter().collect();
    bytes.sort_by_key(|(module, size_bytes)| (Reverse(*size_bytes), *module));
    bytes.iter().map(|(module, _)| modules::label(&tape.stacks, *module).to_owned()).collect()
}

#[cfg(test)]
mod tests;
