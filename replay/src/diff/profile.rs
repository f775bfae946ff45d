//! The memory of one run: at its peak, and allocated in a median step, by group.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use trace_format::{Addr, BlockStatus, Category, Event, MarkKind, StringId};

use crate::categories::Categories;
use crate::holders::OwnCode;
use crate::modules::{self, OpenModules, are_marked};
use crate::start::Effects;
use crate::steps::Steps;
use crate::tape::{Device, Tape};

/// The bytes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) peak_bytes: u64,
    pub(super) step_bytes: u64,
}

/// A run's bytes by group.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) peak_bytes: u64,
    pub(super) reserved_bytes: Option<u64>,
    pub(super) step_bytes: Option<u64>,
    pub(super) steps: usize,
    pub(super) codes: Vec<Sums>,
    pub(super) modules: BTreeMap<String, Sums>,
    pub(super) categories: BTreeMap<String, Sums>,
    pub(super) phases: BTreeMap<String, Sums>,
}

/// The groups of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    All,
    Code(usize),
    Module(StringId),
    Category(Option<Category>),
    Phase(StringId),
}

type Groups = [Group; 5];

impl Profile {
    pub(super) fn of(tape: &Tape, device: &Device, code: &OwnCode, step: Option<&str>) -> Self {
        let steps = Steps::of(tape, device, step);
        let mut walk = Walk::default();
        let peak = walk.follow(tape, device, code, &steps, None);
        let mut at_peak = Walk::default();
        at_peak.follow(tape, device, code, &steps, Some(peak));
        let complete = steps.begins.len().saturating_sub(1);
        let mut profile = Self {
            peak_bytes: walk.most_bytes,
            reserved_bytes: Effects::recorded(&device.base, &device.records)
                .map(|effects| effects.peak_reserved_bytes),
            steps: complete,
            codes: vec![Sums::default(); code.codes.len()],
            ..Self::default()
        };
        let has_categories = walk.has_categories;
        let has_modules = are_marked(&device.records);
        let mut sum = |group: Group, add: &dyn Fn(&mut Sums)| match group {
            Group::Code(at) => add(&mut profile.codes[at]),
            Group::Module(module) if has_modules => {
                let name = modules::label(&tape.stacks, module).to_owned();
                add(profile.modules.entry(name).or_default());
            }
            Group::Category(category) if has_categories => {
                let name = category.map_or("other", Category::name).to_owned();
                add(profile.categories.entry(name).or_default());
            }
            Group::Phase(phase) if walk.has_phases => {
                let name =
                    if phase == StringId::default() { "before any" } else { tape.text(phase) };
                add(profile.phases.entry(name.to_owned()).or_default());
            }
            _ => {}
        };
        for (size_bytes, groups) in at_peak.live.values() {
            for group in *groups {
                sum(group, &|sums| sums.peak_bytes = sums.peak_bytes.saturating_add(*size_bytes));
            }
        }
        let mut all = None;
        for (group, of_steps) in walk.by_step {
            let median = median(of_steps, complete);
            if group == Group::All {
                all = Some(median);
            }
            sum(group, &|sums| sums.step_bytes = sums.step_bytes.saturating_add(median));
        }
        profile.step_bytes = (complete > 0).then(|| all.unwrap_or(0));
        profile
    }
}

/// The median of so many steps; steps that are not listed have none.
fn median(mut of_steps: Vec<(usize, u64)>, steps: usize) -> u64 {
    let without = steps.saturating_sub(of_steps.len());
    of_steps.sort_unstable_by_key(|(_, bytes)| *bytes);
    let at = (steps / 2).checked_sub(without);
    at.and_then(|at| of_steps.get(at)).map_or(0, |(_, bytes)| *bytes)
}

#[derive(Default)]
struct Walk {
    live: HashMap<Addr, (u64, Groups)>,
    by_step: HashMap<Group, Vec<(usize, u64)>>,
    allocated_bytes: u64,
    most_bytes: u64,
    has_phases: bool,
    has_categories: bool,
}

impl Walk {
    /// Goes through the records, up to so many if given. Returns how many stand before the first peak.
    fn follow(
        &mut self,
        tape: &Tape,
        device: &Device,
        code: &OwnCode,
        steps: &Steps,
        until: Option<usize>,
    ) -> usize {
        let categories = Categories::of(&device.base.segments, &device.records);
        self.has_categories = !categories.is_empty();
        let mut open = OpenModules::new(&tape.stacks);
        let mut phase = StringId::default();
        let mut peak = 0;
        for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
            if block.status == BlockStatus::Allocated {
                let code = Group::Code(code.of_base(block.stack));
                let category = Group::Category(categories.of_base(block.addr));
                let (module, phase) = (Group::Module(StringId::default()), Group::Phase(phase));
                self.add(block.addr, block.size_bytes, [Group::All, code, module, category, phase]);
            }
        }
        self.most_bytes = self.allocated_bytes;
        let mut begun = 0;
        let records = device.records.iter().take(until.unwrap_or(usize::MAX));
        for (at, record) in records.enumerate() {
            while steps.begins.get(begun).is_some_and(|begin| *begin <= at) {
                begun += 1;
            }
            open.follow(record);
            match record.event {
                Event::Alloc { addr, size_bytes, .. } => {
                    let groups = [
                        Group::All,
                        Group::Code(code.of_alloc(record.stack)),
                        Group::Module(open.of_alloc(record.thread).module),
                        Group::Category(categories.of_alloc(at)),
                        Group::Phase(phase),
                    ];
                    self.add(addr, size_bytes, groups);
                    if begun > 0 && begun < steps.begins.len() {
                        self.count(begun - 1, size_bytes, groups);
                    }
                    if self.allocated_bytes > self.most_bytes {
                        (self.most_bytes, peak) = (self.allocated_bytes, at + 1);
                    }
                }
                Event::Free { addr, .. } => self.remove(addr),
                Event::Category { addr, .. } => {
                    let owner = open.owner(record.thread);
                    if let (Some(owner), Some((_, groups))) = (owner, self.live.get_mut(&addr)) {
                        groups[2] = Group::Module(owner);
                    }
                }
                Event::Mark { kind: MarkKind::Phase, name } => {
                    (phase, self.has_phases) = (name, true);
                }
                _ => {}
            }
        }
        peak
    }

    fn add(&mut self, addr: Addr, size_bytes: u64, groups: Groups) {
        self.remove(addr); // A tape that lost the free.
        self.live.insert(addr, (size_bytes, groups));
        self.allocated_bytes = self.allocated_bytes.saturating_add(size_bytes);
    }

    fn remove(&mut self, addr: Addr) {
        if let Some((size_bytes, _)) = self.live.remove(&addr) {
            self.allocated_bytes = self.allocated_bytes.saturating_sub(size_bytes);
        }
    }

    fn count(&mut self, step: usize, size_bytes: u64, groups: Groups) {
        for group in groups {
            let of_steps = self.by_step.entry(group).or_default();
            match of_steps.last_mut() {
                Some((last, bytes)) if *last == step => *bytes = bytes.saturating_add(size_bytes),
                _ => of_steps.push((step, size_bytes)),
            }
        }
    }
}
