//! Live memory by module.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde::Serialize;
use trace_format::{Addr, BlockStatus, Category, Event, Record, SegmentState, StringId};

use super::{ModuleOfAlloc, ModuleUse, OUTSIDE, OpenModules, are_marked};
use crate::snapshot::Stacks;

/// Live memory of one module. The rows of a moment add up to what was allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleMemory {
    /// Its path; [`OUTSIDE`] for memory that belongs to none.
    pub module: String,
    /// Bytes of its blocks.
    pub allocated_bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// How many blocks those are.
    pub blocks: u64,
    /// The same by category (`parameter`, `gradient`, `optimizer_state`), else by use (`kept`, `temporary`), else
    /// `other`.
    pub contents: BTreeMap<&'static str, ContentMemory>,
}

/// A part of a module's live memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContentMemory {
    /// Bytes of its blocks.
    pub allocated_bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
}

#[derive(Clone, Copy)]
struct Block {
    of_alloc: ModuleOfAlloc,
    category: Option<Category>,
    requested_bytes: u64,
    size_bytes: u64,
    is_counted: bool,
}

#[derive(Default)]
struct Rows(HashMap<StringId, ModuleMemory>);

/// The live bytes after the first `records` records, the largest module first; empty where the run has no modules.
///
/// Later records count too: they set categories, and show what outlived its call.
pub fn held_after(
    stacks: &Stacks,
    base: &[SegmentState],
    all: &[Record],
    records: usize,
) -> Vec<ModuleMemory> {
    if !are_marked(all) {
        return Vec::new();
    }
    let (mut open, mut rows) = (OpenModules::new(stacks), Rows::default());
    let mut live: HashMap<Addr, Block> = HashMap::new();
    for block in base.iter().flat_map(|segment| &segment.blocks) {
        if block.status == BlockStatus::Allocated {
            live.insert(block.addr, Block::of(block.requested_bytes, block.size_bytes));
        }
    }
    let mut counted = 0usize;
    for at in 0..=all.len() {
        if at == records {
            live.values_mut().for_each(|block| block.is_counted = true);
            counted = live.len();
        }
        // Later records cannot change the rows.
        if at >= records && counted == 0 {
            break;
        }
        let Some(record) = all.get(at) else { break };
        open.follow(record);
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                let of_alloc = open.of_alloc(record.thread);
                live.insert(addr, Block { of_alloc, ..Block::of(requested_bytes, size_bytes) });
            }
            Event::Free { addr, .. } => {
                if let Some(block) = live.remove(&addr).filter(|block| block.is_counted) {
                    rows.add(stacks, &block, open.use_of_freed(&block.of_alloc));
                    counted -= 1;
                }
            }
            Event::Category { addr, category } => {
                if let Some(block) = live.get_mut(&addr) {
                    block.category = Some(category);
                    if let Some(module) = open.owner(record.thread) {
                        block.of_alloc.module = module;
                    }
                }
            }
            _ => {}
        }
    }
    for block in live.values().filter(|block| block.is_counted) {
        rows.add(stacks, block, open.use_of_live(&block.of_alloc));
    }
    let mut rows: Vec<_> = rows.0.into_values().collect();
    let order = |row: &ModuleMemory| (std::cmp::Reverse(row.allocated_bytes), row.module.clone());
    rows.sort_by_cached_key(order);
    rows
}

impl Block {
    fn of(requested_bytes: u64, size_bytes: u64) -> Self {
        let of_alloc = ModuleOfAlloc::default();
        Self { of_alloc, category: None, requested_bytes, size_bytes, is_counted: false }
    }
}

impl Rows {
    fn add(&mut self, stacks: &Stacks, block: &Block, of_use: Option<ModuleUse>) {
        let module = block.of_alloc.module;
        let row = self.0.entry(module).or_insert_with(|| ModuleMemory {
            module: label(stacks, module).to_owned(),
            allocated_bytes: 0,
            requested_bytes: 0,
            blocks: 0,
            contents: BTreeMap::new(),
        });
        row.allocated_bytes += block.size_bytes;
        row.requested_bytes += block.requested_bytes;
        row.blocks += 1;
        let content = block.category.map(Category::name).or(of_use.map(ModuleUse::name));
        let content = row.contents.entry(content.unwrap_or("other")).or_default();
        content.allocated_bytes += block.size_bytes;
        content.requested_bytes += block.requested_bytes;
    }
}

/// The path of a module, or [`OUTSIDE`].
pub fn label(stacks: &Stacks, module: StringId) -> &str {
    if module == StringId::default() { OUTSIDE } else { stacks.text(module) }
}
