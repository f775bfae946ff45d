//! The categories that a program set for its memory: parameters, gradients, state of the optimizer.
//!
//! A program sets a block's category late: a gradient's at the optimizer's step, not at its allocation. So the last
//! category of an allocation applies to its whole life.

use hashbrown::HashMap;
use serde::Serialize;
use trace_format::{Addr, BlockStatus, Category, Event, Record, SegmentState};

/// The categories of a run's allocations.
#[derive(Debug)]
pub struct Categories<'a> {
    base: &'a [SegmentState],
    records: &'a [Record],
    by_life: HashMap<Life, Category>,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    /// Alive before the first record, at this address.
    Before(Addr),
    /// Made by the record of this number.
    Since(usize),
}

/// Live memory of one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CategoryMemory {
    /// `parameter`, `gradient`, `optimizer_state`, or `other` for memory without a category.
    pub category: &'static str,
    /// Bytes of its blocks.
    pub allocated_bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
}

impl<'a> Categories<'a> {
    /// Goes through the records once, from the segments before the first.
    pub fn of(base: &'a [SegmentState], records: &'a [Record]) -> Self {
        let mut categories = Self { base, records, by_life: HashMap::new() };
        // Most runs have no categories.
        if records.iter().any(|record| matches!(record.event, Event::Category { .. })) {
            let mut by_life = HashMap::new();
            categories.follow(records.len(), &mut |life, said| {
                by_life.insert(life, said);
            });
            categories.by_life = by_life;
        }
        categories
    }

    /// Whether the run has no categories.
    pub fn is_empty(&self) -> bool {
        self.by_life.is_empty()
    }

    /// The category of the allocation that record number `at` made.
    pub fn of_alloc(&self, at: usize) -> Option<Category> {
        self.by_life.get(&Life::Since(at)).copied()
    }

    /// The category of the allocation at `addr` before the first record.
    pub fn of_base(&self, addr: Addr) -> Option<Category> {
        self.by_life.get(&Life::Before(addr)).copied()
    }

    /// The live bytes after the first `records` records, every category once; empty where the run has no categories.
    pub fn held_after(&self, records: usize) -> Vec<CategoryMemory> {
        if self.is_empty() {
            return Vec::new();
        }
        let held = |category| CategoryMemory { category, allocated_bytes: 0, requested_bytes: 0 };
        let mut rows: Vec<_> = Category::ALL.into_iter().map(|it| held(it.name())).collect();
        rows.push(held("other"));
        for (life, (requested_bytes, size_bytes)) in
            self.follow(records, &mut |_, _| {}).into_values()
        {
            let category = self.by_life.get(&life);
            let at = category.and_then(|it| Category::ALL.iter().position(|known| known == it));
            let row = &mut rows[at.unwrap_or(Category::ALL.len())];
            row.allocated_bytes += size_bytes;
            row.requested_bytes += requested_bytes;
        }
        rows
    }

    /// Follows the first `records` records: `said` is called with every category. Returns the
    /// live blocks by address, with the requested bytes and the block's.
    fn follow(
        &self,
        records: usize,
        said: &mut dyn FnMut(Life, Category),
    ) -> HashMap<Addr, (Life, (u64, u64))> {
        let mut live = HashMap::new();
        for block in self.base.iter().flat_map(|segment| &segment.blocks) {
            if block.status == BlockStatus::Allocated {
                let sizes = (block.requested_bytes, block.size_bytes);
                live.insert(block.addr, (Life::Before(block.addr), sizes));
            }
        }
        for (at, record) in self.records.iter().take(records).enumerate() {
            match record.event {
                Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                    live.insert(addr, (Life::Since(at), (requested_bytes, size_bytes)));
                }
                Event::Free { addr, .. } => {
                    live.remove(&addr);
                }
                Event::Category { addr, category } => {
                    if let Some((life, _)) = live.get(&addr) {
                        said(*life, category);
                    }
                }
                _ => {}
            }
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::{BlockState, PoolId, StackId, Stream, ThreadId};

    fn records(events: &[Event]) -> Vec<Record> {
        let (thread, stack) = (ThreadId::default(), StackId::NONE);
        events.iter().map(|event| Record { time_ns: 0, thread, stack, event: *event }).collect()
    }

    fn alloc(addr: u64, requested_bytes: u64) -> Event {
        let (addr, size_bytes) = (Addr(addr), requested_bytes.next_multiple_of(512));
        let (stream, pool) = (Stream(0), PoolId::DEFAULT);
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool }
    }

    fn free(addr: u64) -> Event {
        Event::Free { addr: Addr(addr), requested_bytes: 0, size_bytes: 0, pending: false }
    }

    fn said(addr: u64, category: Category) -> Event {
        Event::Category { addr: Addr(addr), category }
    }

    #[test]
    fn a_category_applies_to_its_allocations_whole_life_only() {
        let records = records(&[
            alloc(0, 100),
            alloc(1024, 200),
            free(0),
            alloc(0, 300),
            said(0, Category::Parameter),
            said(0, Category::Gradient),
        ]);
        let categories = Categories::of(&[], &records);
        let bytes = |records| -> Vec<_> {
            categories.held_after(records).iter().map(|row| row.requested_bytes).collect()
        };
        assert_eq!(bytes(2), [0, 0, 0, 300], "the first at the address was never named");
        assert_eq!(bytes(4), [0, 300, 0, 200], "it holds before it was said, the last word");
        assert_eq!(
            (categories.of_alloc(0), categories.of_alloc(3)),
            (None, Some(Category::Gradient))
        );
        assert_eq!(categories.held_after(4)[1].allocated_bytes, 512);
    }

    #[test]
    fn blocks_before_the_first_record_can_have_categories() {
        let block = |addr, status| BlockState {
            addr: Addr(addr),
            size_bytes: 512,
            requested_bytes: 7,
            status,
            stack: StackId::NONE,
        };
        let segment = SegmentState {
            addr: Addr(0),
            size_bytes: 2048,
            stream: Stream(0),
            pool: PoolId::DEFAULT,
            is_large: false,
            is_expandable: false,
            stack: StackId::NONE,
            blocks: vec![
                block(0, BlockStatus::Allocated),
                block(512, BlockStatus::Inactive),
                block(1024, BlockStatus::PendingFree),
                block(1536, BlockStatus::Allocated),
            ],
        };
        let base = [segment];
        let records =
            records(&[said(1536, Category::OptimizerState), said(512, Category::Parameter)]);
        let categories = Categories::of(&base, &records);
        let bytes =
            categories.held_after(0).iter().map(|row| row.allocated_bytes).collect::<Vec<_>>();
        assert_eq!(bytes, [0, 0, 512, 512]);
        assert_eq!(categories.of_base(Addr(1536)), Some(Category::OptimizerState));
    }

    #[test]
    fn a_run_without_categories_reports_none() {
        let records = records(&[alloc(0, 100)]);
        let categories = Categories::of(&[], &records);
        assert!(categories.is_empty() && categories.held_after(1).is_empty());
    }
}
