//! What is known of live blocks: the code, the module and the phase that allocated them, their category and their age.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use trace_format::{
    Addr, Category, Event, MarkKind, PoolId, Record, SegmentState, StackId, Stream, StringId,
};

use crate::categories::Categories;
use crate::holders::CodeLabels;
use crate::modules::{OUTSIDE, OpenModules, are_marked, label};
use crate::tape::{Device, Tape};

/// A live block, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedBlock {
    /// Its address in the replay.
    pub addr: Addr,
    /// Its bytes.
    pub size_bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// Its pool.
    pub pool: PoolId,
    /// Its stream.
    pub stream: Stream,
    /// The first address of its segment.
    pub segment: Addr,
    /// What is known of its allocation.
    #[serde(flatten)]
    pub origin: BlockOrigin,
}

/// What is known of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockOrigin {
    /// The code in a few words: `model.py:41 attention`.
    pub code: String,
    /// Its module; `None` where the run has no marks of modules.
    pub module: Option<String>,
    /// The phase in which it was allocated.
    pub phase: Option<String>,
    /// The step in which it was allocated.
    pub step: Option<String>,
    /// What the program keeps in it.
    pub category: Option<&'static str>,
    /// The number of the record that allocated it; `None` where the tape begins later.
    pub record: Option<u64>,
    /// Records since then.
    pub age_records: Option<u64>,
    /// Nanoseconds since then, where the run has a clock.
    pub age_ns: Option<u64>,
}

/// The origins of the blocks that are live before a record.
pub(super) struct Origins<'t> {
    tape: &'t Tape,
    device: &'t Device,
    labels: CodeLabels,
    categories: Categories<'t>,
    has_modules: bool,
    made: HashMap<u64, Made, FxBuildHasher>,
    now: Now,
    records: usize,
}

/// Where the program is.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    step: Option<StringId>,
    phase: Option<StringId>,
    time_ns: u64,
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
struct Made {
    at: usize,
    stack: StackId,
    module: StringId,
    now: Now,
}

impl<'t> Origins<'t> {
    /// Follows the first `records` records.
    pub(super) fn of(tape: &'t Tape, device: &'t Device, records: usize) -> Self {
        let has_modules = are_marked(&device.records);
        let mut open = OpenModules::new(&tape.stacks);
        let mut made: HashMap<u64, Made, FxBuildHasher> = HashMap::default();
        let mut now = Now::default();
        for (at, record) in device.records.iter().take(records).enumerate() {
            now.time_ns = record.time_ns;
            if has_modules {
                open.follow(record);
            }
            match record.event {
                Event::Alloc { addr, .. } => {
                    let module = open.of_alloc(record.thread).module;
                    made.insert(addr.0, Made { at, stack: record.stack, module, now });
                }
                Event::Free { addr, .. } => {
                    made.remove(&addr.0);
                }
                Event::Category { addr, .. } => {
                    if let (Some(owner), Some(made)) =
                        (open.owner(record.thread), made.get_mut(&addr.0))
                    {
                        made.module = owner;
                    }
                }
                Event::Mark { kind: MarkKind::Step, name } => {
                    (now.step, now.phase) = (Some(name), None);
                }
                Event::Mark { kind: MarkKind::Phase, name } => now.phase = Some(name),
                _ => {}
            }
        }
        let (labels, categories) =
            (CodeLabels::of(tape), Categories::of(&device.base.segments, &device.records));
        Self { tape, device, labels, categories, has_modules, made, now, records }
    }

    /// The step in which the records end.
    pub(super) fn step(&self) -> Option<String> {
        self.text(self.now.step)
    }

    /// The phase in which they end.
    pub(super) fn phase(&self) -> Option<String> {
        self.text(self.now.phase)
    }

    /// The origin of the live block at a recorded address; `stack` is the one that the replay keeps with it.
    pub(super) fn of_block(&self, recorded: Addr, stack: StackId) -> BlockOrigin {
        let Some(made) = self.made.get(&recorded.0) else {
            let code = self.labels.of_stack(stack).unwrap_or(self.labels.before_tape);
            return BlockOrigin {
                code: self.labels.labels[code as usize].clone(),
                module: self.has_modules.then(|| OUTSIDE.to_owned()),
                category: self.categories.of_base(recorded).map(Category::name),
                ..BlockOrigin::default()
            };
        };
        let age_ns =
            self.now.time_ns.checked_sub(made.now.time_ns).filter(|_| self.now.time_ns > 0);
        BlockOrigin {
            code: self.code(made.stack),
            module: self.module(made.module),
            phase: self.text(made.now.phase),
            step: self.text(made.now.step),
            category: self.categories.of_alloc(made.at).map(Category::name),
            record: Some(made.at as u64),
            age_records: Some((self.records - made.at) as u64),
            age_ns,
        }
    }

    /// The origin of a request that the record behind the last one makes.
    pub(super) fn of_request(&self, record: &Record) -> BlockOrigin {
        let mut open = OpenModules::new(&self.tape.stacks);
        if self.has_modules {
            self.device.records.iter().take(self.records).for_each(|record| open.follow(record));
        }
        BlockOrigin {
            code: self.code(record.stack),
            module: self.module(open.of_alloc(record.thread).module),
            phase: self.phase(),
            step: self.step(),
            ..BlockOrigin::default()
        }
    }

    /// Whether the program named parameters, gradients or state of the optimizer.
    pub(super) fn has_categories(&self) -> bool {
        !self.categories.is_empty()
    }

    /// Whether the allocation of this record is one of them, whose size does not depend on the batch.
    pub(super) fn is_state(&self, at: usize) -> bool {
        self.categories.of_alloc(at).is_some()
    }

    /// The code of a stack in a few words, where it has frames.
    pub(super) fn name(&self, stack: StackId) -> Option<&str> {
        let code = self.labels.of_stack(stack)?;
        Some(&self.labels.labels[code as usize])
    }

    /// The same; that there are none where it has none.
    pub(super) fn code(&self, stack: StackId) -> String {
        let code = self.labels.of_stack(stack).unwrap_or(self.labels.without_stack);
        self.labels.labels[code as usize].clone()
    }

    /// Which stacks have the code of this name.
    pub(super) fn stacks_of(&self, code: &str) -> Vec<bool> {
        let Some(wanted) = self.labels.labels.iter().position(|label| label == code) else {
            return Vec::new();
        };
        let stacks = 0..self.tape.stacks.stacks.len() as u32;
        stacks.map(|id| self.labels.of_stack(StackId(id)) == Some(wanted as u32)).collect()
    }

    /// The name of a mark, if it has one.
    fn text(&self, id: Option<StringId>) -> Option<String> {
        let text = id.map(|id| self.tape.text(id))?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn module(&self, module: StringId) -> Option<String> {
        self.has_modules.then(|| label(&self.tape.stacks, module).to_owned())
    }
}

/// The live blocks of these segments, with their origins.
pub(super) fn live_blocks(
    segments: &[SegmentState],
    held: impl Iterator<Item = (Addr, Addr)>,
    origins: &Origins<'_>,
) -> Vec<ExplainedBlock> {
    let recorded: HashMap<u64, Addr, FxBuildHasher> =
        held.map(|(recorded, addr)| (addr.0, recorded)).collect();
    let mut found = Vec::new();
    for segment in segments {
        for block in &segment.blocks {
            if let Some(recorded) = recorded.get(&block.addr.0) {
                found.push(ExplainedBlock {
                    addr: block.addr,
                    size_bytes: block.size_bytes,
                    requested_bytes: block.requested_bytes,
                    pool: segment.pool,
                    stream: segment.stream,
                    segment: segment.addr,
                    origin: origins.of_block(*recorded, block.stack),
                });
            }
        }
    }
    found
}

/// Live bytes with something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveGroup {
    /// What they have in common.
    pub name: String,
    /// Bytes of the blocks.
    pub allocated_bytes: u64,
    /// The blocks.
    pub blocks: u64,
}

/// Live memory at a moment, each time all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Live {
    /// Bytes of the live blocks.
    pub allocated_bytes: u64,
    /// The live blocks.
    pub blocks: u64,
    /// By the code that allocated them.
    pub code: Vec<LiveGroup>,
    /// By module; empty where the run has no marks of modules.
    pub modules: Vec<LiveGroup>,
    /// By category; empty where the program set none.
    pub categories: Vec<LiveGroup>,
    /// By the phase in which they were allocated; empty where the run has no marks of phases.
    pub phases: Vec<LiveGroup>,
}

impl Live {
    pub(super) fn of(blocks: &[ExplainedBlock]) -> Self {
        let of = |name: fn(&BlockOrigin) -> Option<&str>, rest: &str| {
            if !blocks.iter().any(|block| name(&block.origin).is_some()) {
                return Vec::new();
            }
            groups(blocks, |block| name(&block.origin).unwrap_or(rest))
        };
        Self {
            allocated_bytes: blocks.iter().map(|block| block.size_bytes).sum(),
            blocks: blocks.len() as u64,
            code: groups(blocks, |block| &block.origin.code),
            modules: of(|origin| origin.module.as_deref(), OUTSIDE),
            categories: of(|origin| origin.category, "other"),
            phases: of(|origin| origin.phase.as_deref(), "outside any phase"),
        }
    }
}

/// The groups of equal names, the largest first.
fn groups<'b>(
    blocks: &'b [ExplainedBlock],
    name: impl Fn(&'b ExplainedBlock) -> &'b str,
) -> Vec<LiveGroup> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for block in blocks {
        let sum = sums.entry(name(block)).or_default();
        *sum = (sum.0 + block.size_bytes, sum.1 + 1);
    }
    let group = |(name, (allocated_bytes, blocks)): (&str, (u64, u64))| LiveGroup {
        name: name.to_owned(),
        allocated_bytes,
        blocks,
    };
    let mut groups: Vec<_> = sums.into_iter().map(group).collect();
    groups.sort_by(|a, b| {
        b.allocated_bytes.cmp(&a.allocated_bytes).then_with(|| a.name.cmp(&b.name))
    });
    groups
}
