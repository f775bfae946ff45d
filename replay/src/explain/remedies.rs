//! What would have helped: changes under which a replay of the run up to the refused request serves it.

use std::collections::HashSet;

use allocator::stats::ByteSize;
use models::model::Model;
use oom::{Others, Situation};
use rayon::prelude::*;
use serde::Serialize;
use settings::Config;
use sim_device::SimConfig;
use trace_format::{Addr, Event, MarkKind, PoolId, Record};

use super::blocks::{ExplainedBlock, Live, Origins};
use super::changes::{scaled, with_fraction};
use crate::advice::candidates;
use crate::candidate::line::Line;
use crate::driver::{DriveError, Driver, Follow, Result};
use crate::graph_pools::SharedPool;
use crate::run::{Addresses, DeviceTape, Options, model_driver, native_driver};
use crate::strategy::table::Visitor;
use crate::strategy::{Choice, Strategy, TABLE};

/// Groups of blocks of which an earlier free is tried.
const GROUPS_MAX: usize = 8;
/// Of those that help the smallest are listed.
const GROUPS_LISTED: usize = 2;
/// The largest reduction of a batch that is tried, in percent.
const REDUCTION_MAX_PERCENT: u64 = 90;
/// How often more device memory is doubled until it is enough.
const DOUBLINGS_MAX: u32 = 12;

/// What is changed, in the order of effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// `PYTORCH_CUDA_ALLOC_CONF`.
    Settings,
    /// `VRAMTAPE_CONF`.
    SearchAfterFlush,
    /// A call of `torch.cuda.empty_cache`.
    EmptyCache,
    /// `torch.cuda.set_per_process_memory_fraction`.
    MemoryFraction,
    /// One pool for all CUDA graphs: `torch.cuda.graph(graph, pool=...)`.
    SharedPool,
    /// Another allocator, as its model shows.
    Strategy,
    /// Memory that other processes hold, or a larger device.
    DeviceMemory,
    /// Blocks that are freed before the request.
    FreeBefore,
    /// All requests are smaller.
    SmallerBatch,
}

/// A change that helps: the request is served, and no request before it is refused that was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What is changed.
    pub kind: RemedyKind,
    /// The change, in words.
    pub text: String,
    /// What to write: the text of the settings, the strategy or the edit; empty where it is a change of the program.
    pub value: String,
}

/// A run up to a refused request.
pub(super) struct Prefix<'t> {
    tape: DeviceTape<'t>,
    options: &'t Options,
    /// Requests that are refused before it.
    refusals: u64,
}

/// What becomes of a record of this number.
type Change<'p> = dyn Fn(usize, &Record) -> Option<Record> + Sync + 'p;

/// One replay of it.
struct Trial<'t, 'p> {
    tape: DeviceTape<'t>,
    refusals: u64,
    options: Options,
    /// Records before which the cache is emptied, ascending.
    emptied: &'p [usize],
    /// What becomes of each record; `None` leaves it out.
    change: &'p Change<'p>,
}

impl Trial<'_, '_> {
    /// Whether the last request is served, and no more requests before it are refused.
    fn follow<S: Strategy>(&self, mut driver: Driver<S>) -> Result<bool> {
        let tape = self.tape;
        let mut emptied = self.emptied.iter().peekable();
        let (mut before, last) = (0, tape.records.len() - 1);
        for (at, record) in tape.records.iter().enumerate() {
            if emptied.next_if(|place| **place == at).is_some() {
                let event = Event::EmptyCache { pool: PoolId::DEFAULT, inferred: false };
                driver.step(&Record { event, ..*record }, tape.text)?;
            }
            if at == last {
                before = driver.refusals();
            }
            if driver.refusals() > self.refusals {
                return Ok(false);
            }
            if let Some(record) = (self.change)(at, record) {
                driver.step(&record, tape.text)?;
            }
        }
        Ok(driver.refusals() == before)
    }
}

impl Visitor for Trial<'_, '_> {
    type Output = Result<bool>;

    fn native(self, config: &Config) -> Self::Output {
        let driver = native_driver(self.tape, &self.options, config, events::Off)?;
        self.follow(driver)
    }

    fn model<M: Model>(self, settings: &M::Settings) -> Self::Output {
        let driver = model_driver::<M>(self.tape, &self.options, settings)?;
        self.follow(driver)
    }
}

// An `Option` as every change has it.
#[expect(clippy::unnecessary_wraps)]
fn unchanged(_: usize, record: &Record) -> Option<Record> {
    Some(*record)
}

impl<'t> Prefix<'t> {
    /// The run up to and including record number `place`; `refused` are the records whose requests are refused.
    pub(super) fn new(
        tape: DeviceTape<'t>,
        options: &'t Options,
        place: usize,
        refused: &[u64],
    ) -> Self {
        let refusals = refused.partition_point(|at| (*at as usize) < place) as u64;
        Self { tape: DeviceTape { records: &tape.records[..=place], ..tape }, options, refusals }
    }

    /// Whether a change helps. One that cannot be replayed does not.
    fn serves(&self, options: Options, emptied: &[usize], change: &Change<'_>) -> Result<bool> {
        let choice = options.strategy.clone();
        let (tape, refusals) = (self.tape, self.refusals);
        match choice.visit(Trial { tape, refusals, options, emptied, change }) {
            Err(
                DriveError::TooMuch { .. }
                | DriveError::Base(_)
                | DriveError::NoRoom { .. }
                | DriveError::Start { .. }
                | DriveError::Contradiction { .. },
            ) => Ok(false),
            served => served,
        }
    }

    /// The options with another strategy.
    fn under(&self, strategy: Choice) -> Options {
        let follow = Follow { is_as_recorded: false, ..self.options.follow };
        Options { strategy, addresses: Addresses::Lowest, follow, ..self.options.clone() }
    }

    fn settings(&self, line: &Line) -> Result<Option<Remedy>> {
        let compat = self.options.native_config()?.compat;
        let Some(config) = line.config(compat) else { return Ok(None) };
        let is_ours = line.search_after_flush;
        Ok(self.serves(self.under(config.into()), &[], &unchanged)?.then(|| {
            let (kind, value, text) = match line.text() {
                _ if is_ours => {
                    let value = "search_after_flush:True".to_owned();
                    let text = format!("VRAMTAPE_CONF={value}");
                    (RemedyKind::SearchAfterFlush, value, text)
                }
                value if value.is_empty() => {
                    (RemedyKind::Settings, value, "PyTorch's default settings".to_owned())
                }
                value => {
                    let text = format!("PYTORCH_CUDA_ALLOC_CONF={value}");
                    (RemedyKind::Settings, value, text)
                }
            };
            Remedy { kind, text, value }
        }))
    }

    fn strategy(&self, name: &'static str) -> Result<Option<Remedy>> {
        let compat = self.options.native_config()?.compat;
        let Ok(choice) = Choice::parse(name, compat) else { return Ok(None) };
        Ok(self.serves(self.under(choice), &[], &unchanged)?.then(|| Remedy {
            kind: RemedyKind::Strategy,
            text: format!("the allocator {name}, as its model shows (--strategy {name})"),
            value: name.to_owned(),
        }))
    }

    fn empty_cache(&self) -> Result<Option<Remedy>> {
        let is_step =
            |record: &Record| matches!(record.event, Event::Mark { kind: MarkKind::Step, .. });
        let steps: Vec<usize> =
            (0..self.tape.records.len()).filter(|at| is_step(&self.tape.records[*at])).collect();
        let Some(last) = steps.last() else { return Ok(None) };
        let remedy = |text: &str| Remedy {
            kind: RemedyKind::EmptyCache,
            text: text.to_owned(),
            value: String::new(),
        };
        if self.serves(self.options.clone(), &[*last], &unchanged)? {
            return Ok(Some(remedy("torch.cuda.empty_cache() before the step of the request")));
        }
        let served = self.serves(self.options.clone(), &steps, &unchanged)?;
        Ok(served.then(|| remedy("torch.cuda.empty_cache() before every step")))
    }

    /// Whether it helps to change the records.
    fn serves_changed(&self, change: &Change<'_>) -> Result<bool> {
        let options = Options { addresses: Addresses::Lowest, ..self.options.clone() };
        self.serves(options, &[], change)
    }

    /// The smallest memory fraction that is enough, in percent.
    fn memory_fraction(&self) -> Result<Option<Remedy>> {
        let lowers = |record: &Record| matches!(record.event, Event::MemoryFraction { fraction } if fraction < 1.0);
        if !self.tape.records.iter().any(lowers) {
            return Ok(None);
        }
        let is_enough = |percent: u64| {
            self.serves_changed(&|_, record| Some(with_fraction(record, percent as f64 / 100.0)))
        };
        if !is_enough(100)? {
            return Ok(None);
        }
        let (mut least, mut most) = (0, 100);
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if is_enough(middle)? { most = middle } else { least = middle }
        }
        let value = (most as f64 / 100.0).to_string();
        let text = format!("torch.cuda.set_per_process_memory_fraction({value})");
        Ok(Some(Remedy { kind: RemedyKind::MemoryFraction, text, value }))
    }

    /// One pool for the graphs that have several.
    fn shared_pool(&self) -> Result<Option<Remedy>> {
        let Some(shared) = SharedPool::of(self.tape.records) else { return Ok(None) };
        Ok(self.serves_changed(&|_, record| shared.applied(record))?.then(|| Remedy {
            kind: RemedyKind::SharedPool,
            text: format!(
                "one pool for the CUDA graphs, which have {}: torch.cuda.graph(graph, pool=first.pool()), if the \
                 graphs are replayed in the order of their capture, one at a time",
                shared.pools()
            ),
            value: String::new(),
        }))
    }

    /// The least memory, in whole granules, that the device lacks.
    fn device_memory(&self, situation: &Situation, others: Others) -> Result<Option<Remedy>> {
        const GRANULE: u64 = SimConfig::GRANULARITY_BYTES;
        let Some(capacity_bytes) = self.options.capacity_bytes else { return Ok(None) };
        let is_enough = |more: u64| {
            let capacity_bytes = Some(capacity_bytes.saturating_add(more * GRANULE));
            let options =
                Options { capacity_bytes, addresses: Addresses::Lowest, ..self.options.clone() };
            self.serves(options, &[], &unchanged)
        };
        let lacking_bytes =
            situation.segment_bytes.saturating_sub(situation.after.available_bytes());
        let (mut least, mut most) = (0, lacking_bytes.div_ceil(GRANULE).max(1));
        for _ in 0..DOUBLINGS_MAX {
            if is_enough(most)? {
                break;
            }
            (least, most) = (most, most * 2);
        }
        if least > 0 && !is_enough(most)? {
            return Ok(None);
        }
        if least == 0 && most > 1 && !is_enough(most - 1)? {
            least = most - 1;
        }
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if is_enough(middle)? { most = middle } else { least = middle }
        }
        let bytes = most * GRANULE;
        let size = ByteSize(bytes);
        let text = if others.outside_bytes >= bytes {
            let outside = ByteSize(others.outside_bytes);
            format!(
                "{size} less held by this process outside PyTorch, which is {outside} of the device"
            )
        } else if others.of_processes_bytes() + others.outside_bytes >= bytes {
            let others = ByteSize(others.of_processes_bytes() + others.outside_bytes);
            format!("{size} less held by other processes and libraries, which hold {others}")
        } else {
            format!("a device with {size} more")
        };
        Ok(Some(Remedy { kind: RemedyKind::DeviceMemory, text, value: bytes.to_string() }))
    }

    /// The smallest reduction of all requests that helps, in percent; of those that are no parameters, gradients or
    /// state of the optimizer, where the program named these.
    fn smaller_batch(&self, origins: &Origins<'_>) -> Result<Option<Remedy>> {
        let has_states = origins.has_categories();
        let is_reduced = |percent: u64| {
            let factor = (100 - percent) as f64 / 100.0;
            self.serves_changed(&|at, record| Some(scaled(record, factor, origins.is_state(at))))
        };
        if !is_reduced(REDUCTION_MAX_PERCENT)? {
            return Ok(None);
        }
        let (mut least, mut most) = (0, REDUCTION_MAX_PERCENT);
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if is_reduced(middle)? { most = middle } else { least = middle }
        }
        let what = if has_states {
            "all but parameters, gradients and optimizer state"
        } else {
            "all requests, parameters too"
        };
        let value = format!("scale:{}", (100 - most) as f64 / 100.0);
        let text = format!("a batch smaller by {most} % ({what})");
        Ok(Some(Remedy { kind: RemedyKind::SmallerBatch, text, value }))
    }
}

/// Groups of live blocks by code that serve the request if they are freed before it, the smallest first.
fn frees(situation: &Situation, live: &[ExplainedBlock], request: &str) -> Vec<Remedy> {
    let of_group = |code: &str| {
        let blocks = live.iter().filter(|block| block.origin.code == code);
        blocks.map(|block| block.addr).collect::<HashSet<Addr>>()
    };
    let Live { code, allocated_bytes, .. } = Live::of(live);
    // Groups with more than half of the live memory are left out: a program cannot free them.
    let is_part = |group: &super::LiveGroup| 2 * group.allocated_bytes <= allocated_bytes;
    let mut helping: Vec<_> = code
        .into_iter()
        .filter(is_part)
        .take(GROUPS_MAX)
        .filter(|group| situation.serves_without(of_group(&group.name)))
        .collect();
    helping.sort_by_key(|group| group.allocated_bytes);
    let remedy = |group: super::LiveGroup| Remedy {
        kind: RemedyKind::FreeBefore,
        text: format!(
            "{} block{} of {} ({}) freed before {request}",
            group.blocks,
            if group.blocks == 1 { "" } else { "s" },
            group.name,
            ByteSize(group.allocated_bytes)
        ),
        value: String::new(),
    };
    helping.into_iter().take(GROUPS_LISTED).map(remedy).collect()
}

/// All that helps, the least effort first.
pub(super) fn remedies(
    prefix: &Prefix<'_>,
    situation: &Situation,
    origins: &Origins<'_>,
    live: &[ExplainedBlock],
    others: Others,
    request: &str,
    step: &(dyn Fn() + Sync),
) -> Result<Vec<Remedy>> {
    enum Job {
        Settings(Line),
        Strategy(&'static str),
        EmptyCache,
        MemoryFraction,
        SharedPool,
        DeviceMemory,
        SmallerBatch,
    }
    let recorded = Line::read(&prefix.options.native_config()?.text);
    let lines = candidates(&recorded, true).into_iter().filter(|line| *line != recorded);
    let strategies = TABLE.iter().filter(|row| !row.is_live).map(|row| Job::Strategy(row.name));
    // What takes longest comes first.
    let mut jobs = vec![
        Job::SmallerBatch,
        Job::DeviceMemory,
        Job::MemoryFraction,
        Job::EmptyCache,
        Job::SharedPool,
    ];
    jobs.extend(lines.map(Job::Settings).chain(strategies));
    let of_job = |job: Job| {
        let found = match job {
            Job::Settings(line) => prefix.settings(&line),
            Job::Strategy(name) => prefix.strategy(name),
            Job::EmptyCache => prefix.empty_cache(),
            Job::MemoryFraction => prefix.memory_fraction(),
            Job::SharedPool => prefix.shared_pool(),
            Job::DeviceMemory => prefix.device_memory(situation, others),
            Job::SmallerBatch => prefix.smaller_batch(origins),
        };
        step();
        found
    };
    let found: Vec<_> = jobs.into_par_iter().map(of_job).collect::<Result<_>>()?;
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.extend(frees(situation, live, request));
    let settings_of = |remedy: &Remedy| match remedy.kind {
        RemedyKind::Settings => remedy.value.matches(':').count(),
        _ => 0,
    };
    found.sort_by_key(|remedy| (remedy.kind, settings_of(remedy)));
    Ok(found)
}

impl RemedyKind {
    /// Whether the allocator is what is changed, and not the program or the device.
    pub fn is_of_allocator(self) -> bool {
        match self {
            Self::Settings
            | Self::SearchAfterFlush
            | Self::EmptyCache
            | Self::MemoryFraction
            | Self::SharedPool
            | Self::Strategy => true,
            Self::DeviceMemory | Self::FreeBefore | Self::SmallerBatch => false,
        }
    }
}
