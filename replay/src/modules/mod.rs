//! The modules (`torch.nn.Module`) that memory belongs to, by the marks of their calls.
//!
//! An allocation belongs to the innermost open call of its thread; without one, to the module that the thread's
//! backward pass reached last; without that, to none. Its category may have an owner, which counts instead.
//!
//! An allocation in a call of the forward pass that is live when the call ends is kept: an activation for the backward
//! pass, or an output. One that ends before is temporary.

mod memory;

use hashbrown::HashMap;
use trace_format::{Event, MarkKind, Record, StringId, ThreadId};

use crate::snapshot::Stacks;

pub use memory::{ContentMemory, ModuleMemory, held_after, label};

/// The label of memory that belongs to no module.
pub const OUTSIDE: &str = "outside any module";

/// The name of the phase in which calls compute again what a checkpoint dropped.
const BACKWARD: &str = "backward";

/// Calls inside so many belong to the last of these: no program nests more, and a file may say anything.
const OPEN_CALLS_MAX: usize = 256;

/// The module that an allocation belongs to; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleOfAlloc {
    /// Its path; 0 is no module.
    pub module: StringId,
    /// The call, if it is of the forward pass.
    pub call: Option<ModuleCall>,
}

/// A call of a module in the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleCall {
    thread: ThreadId,
    number: u64,
}

/// Whether an allocation in a call of the forward pass outlived the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleUse {
    /// It did: an activation for the backward pass, or an output.
    Kept,
    /// It did not.
    Temporary,
}

impl ModuleUse {
    /// Both, in the order of their names in tables.
    pub const ALL: [Self; 2] = [Self::Kept, Self::Temporary];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Temporary => "temporary",
        }
    }
}

/// The open calls of modules, record by record.
#[derive(Debug)]
pub struct OpenModules {
    backward: Option<StringId>,
    is_backward: bool,
    phases: u64,
    threads: HashMap<ThreadId, ThreadModules>,
    calls: u64,
}

#[derive(Debug, Default)]
struct ThreadModules {
    /// Outermost first.
    open: Vec<OpenCall>,
    backward: StringId,
    /// The number of the phase in which that was reached.
    backward_phase: u64,
    owner: StringId,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    module: StringId,
    number: u64,
    is_forward: bool,
}

impl OpenModules {
    /// No call is open.
    pub fn new(stacks: &Stacks) -> Self {
        let backward = stacks.strings.iter().position(|text| **text == *BACKWARD);
        Self {
            backward: backward.map(|at| StringId(at as u32)),
            is_backward: false,
            phases: 0,
            threads: HashMap::new(),
            calls: 0,
        }
    }

    /// Takes a record in, if it is a mark.
    #[inline]
    pub fn follow(&mut self, record: &Record) {
        match record.event {
            Event::Mark { kind, name } => self.mark(record.thread, kind, name),
            Event::Lost { .. } => self.threads.clear(),
            _ => {}
        }
    }

    /// The module of what the thread allocates now.
    #[inline]
    pub fn of_alloc(&self, thread: ThreadId) -> ModuleOfAlloc {
        let Some(modules) = self.threads.get(&thread) else { return ModuleOfAlloc::default() };
        match modules.open.last() {
            Some(open) => ModuleOfAlloc {
                module: open.module,
                call: open.is_forward.then_some(ModuleCall { thread, number: open.number }),
            },
            None if modules.backward_phase == self.phases => {
                ModuleOfAlloc { module: modules.backward, call: None }
            }
            None => ModuleOfAlloc::default(),
        }
    }

    /// The owner of what the thread categorizes now.
    pub fn owner(&self, thread: ThreadId) -> Option<StringId> {
        let owner = self.threads.get(&thread)?.owner;
        (owner != StringId::default()).then_some(owner)
    }

    /// Whether an allocation that ends now outlived its call; `None` for those that have none.
    pub fn use_of_freed(&self, alloc: &ModuleOfAlloc) -> Option<ModuleUse> {
        let is_open = self.is_open(alloc.call?);
        Some(if is_open { ModuleUse::Temporary } else { ModuleUse::Kept })
    }

    /// The same of an allocation that is live behind the last record.
    pub fn use_of_live(&self, alloc: &ModuleOfAlloc) -> Option<ModuleUse> {
        (!self.is_open(alloc.call?)).then_some(ModuleUse::Kept)
    }

    fn is_open(&self, call: ModuleCall) -> bool {
        let thread = self.threads.get(&call.thread);
        thread.is_some_and(|it| it.open.binary_search_by_key(&call.number, |it| it.number).is_ok())
    }

    fn mark(&mut self, thread: ThreadId, kind: MarkKind, name: StringId) {
        match kind {
            MarkKind::Phase => {
                self.is_backward = Some(name) == self.backward;
                self.phases += 1;
            }
            MarkKind::ModuleBegin => {
                let (number, is_forward) = (self.calls, !self.is_backward);
                self.calls += 1;
                let modules = self.threads.entry(thread).or_default();
                if modules.open.len() < OPEN_CALLS_MAX {
                    modules.open.push(OpenCall { module: name, number, is_forward });
                }
            }
            MarkKind::ModuleEnd => {
                let Some(modules) = self.threads.get_mut(&thread) else { return };
                if let Some(at) = modules.open.iter().rposition(|open| open.module == name) {
                    modules.open.truncate(at);
                }
            }
            MarkKind::ModuleBackward => {
                let modules = self.threads.entry(thread).or_default();
                (modules.backward, modules.backward_phase) = (name, self.phases);
            }
            MarkKind::ModuleOwner => self.threads.entry(thread).or_default().owner = name,
            MarkKind::Step | MarkKind::RangeBegin | MarkKind::RangeEnd | MarkKind::Instant => {}
        }
    }
}

/// Whether the records have marks of modules.
pub fn are_marked(records: &[Record]) -> bool {
    let is_module = |kind| {
        use MarkKind::{ModuleBackward, ModuleBegin, ModuleOwner};
        matches!(kind, ModuleBegin | ModuleBackward | ModuleOwner)
    };
    records.iter().any(|it| matches!(it.event, Event::Mark { kind, .. } if is_module(kind)))
}

#[cfg(test)]
mod tests;
