//! A full scan of the heap's invariants, for tests, fault injection and doubt.

use alloc::format;
use alloc::string::String;

use alloc::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::Heap;
use crate::arena::{Block, BlockId};
use device::Device;
use events::Recorder;

/// Fails the check with a sentence unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
pub(super) use ensure;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Whether every block, list, table and counter agrees with every other. Costs a pass over the whole heap.
    ///
    /// # Errors
    /// The first disagreement, in words.
    pub fn check(&self) -> Result<(), String> {
        self.check_chains()?;
        self.check_lists()?;
        self.check_holders()?;
        self.check_stitch()?;
        self.check_counters()
    }

    /// Neighbours know each other, touch, and share segment, stream and pool; free neighbours are merged.
    fn check_chains(&self) -> Result<(), String> {
        for (id, block) in self.blocks.arena.iter() {
            ensure!(block.range.is_some() || block.mapped, "{id:?}: unmapped in a plain segment");
            let Some(next_id) = block.next else { continue };
            let next = &self.blocks[next_id];
            ensure!(next.size_bytes > 0, "{id:?}: its next block was removed");
            ensure!(next.prev == Some(id), "{id:?} and {next_id:?} are not linked both ways");
            ensure!(
                block.end() == next.addr,
                "{id:?} ends at {}, next at {}",
                block.end(),
                next.addr
            );
            ensure!(
                (block.list, block.range) == (next.list, next.range),
                "{id:?} and {next_id:?} differ in stream, pool or segment"
            );
            let both_idle = block.is_idle() && next.is_idle() && block.mapped == next.mapped;
            ensure!(!both_idle, "{id:?} and {next_id:?} are free and not merged");
        }
        let firsts = self.blocks.arena.iter().filter(|(_, block)| block.prev.is_none());
        let ranked = firsts.filter(|(_, block)| block.segment_rank > 0);
        for (id, block) in self.blocks.arena.iter() {
            let Some(range) = block.range else { continue };
            let list = if self.stitch.is_on {
                self.stitch.find_run(range).map(|run| run.list)
            } else {
                self.ranges.get(range).and_then(|range| range.list)
            };
            ensure!(list == Some(block.list), "{id:?}: another range's");
        }
        let begun: BTreeMap<_, _> =
            ranked.map(|(_, block)| (block.segment_rank, block.addr)).collect();
        ensure!(self.ranks.are(&begun), "segments begin at {begun:?}, noted {:?}", self.ranks);
        Ok(())
    }

    /// The lists hold exactly the idle blocks, in order.
    fn check_lists(&self) -> Result<(), String> {
        let mut listed: HashMap<BlockId, bool> = HashMap::new();
        for index in self.blocks.lists.pools() {
            for list in self.blocks.lists.of(index) {
                let mut last: Option<&Block> = None;
                for id in list.iter() {
                    let block = &self.blocks[id];
                    ensure!(listed.insert(id, true).is_none(), "{id:?} is listed twice");
                    ensure!(self.blocks.pool_of(id) == index, "{id:?} is listed in another pool");
                    ensure!(
                        self.blocks.stream_of(id) == list.stream,
                        "{id:?}: another stream's list"
                    );
                    let in_order = last.is_none_or(|last| last.precedes(block));
                    ensure!(in_order, "{id:?} is listed out of order");
                    last = Some(block);
                }
            }
            for id in self.blocks.lists.unmapped(index) {
                ensure!(listed.insert(id, false).is_none(), "{id:?} is listed twice");
                ensure!(self.blocks.pool_of(id) == index, "{id:?} is listed in another pool");
            }
        }
        for (id, block) in self.blocks.arena.iter() {
            let is_listed = block.mapped || !(self.stitch.is_on && block.range.is_some());
            let expected = (block.is_idle() && is_listed).then_some(block.mapped);
            ensure!(
                listed.get(&id).copied() == expected,
                "{id:?}: idle {}, mapped {}, listed {:?}",
                block.is_idle(),
                block.mapped,
                listed.get(&id)
            );
        }
        Ok(())
    }

    /// Every block that is not idle is in the address table or pending.
    fn check_holders(&self) -> Result<(), String> {
        let waiting: HashSet<BlockId> = self.pending_blocks().collect();
        for (id, block) in self.blocks.arena.iter() {
            let known = self.blocks.find(block.addr) == Some(id);
            ensure!(known == block.allocated, "{id:?}: allocated and its address disagree");
            let waits = !block.allocated && !block.is_idle();
            ensure!(waits == waiting.contains(&id), "{id:?}: waits {waits}, but is not so queued");
        }
        let allocated = self.blocks.arena.iter().filter(|(_, block)| block.allocated).count();
        ensure!(allocated == self.blocks.addresses.len(), "an address leads to no block");
        Ok(())
    }

    /// The current statistics are what a recount gives.
    fn check_counters(&self) -> Result<(), String> {
        let sum = |wanted: &dyn Fn(&Block) -> bool| -> (i64, i64) {
            let chosen =
                self.blocks.arena.iter().map(|(_, block)| block).filter(|block| wanted(block));
            chosen.fold((0, 0), |(count, bytes), block| {
                (count + 1, bytes + block.size_bytes.cast_signed())
            })
        };
        let stats = self.stats();
        let expect = |name: &str, counted: (i64, i64), kept: (i64, i64)| -> Result<(), String> {
            ensure!(counted == kept, "{name}: counted {counted:?}, kept {kept:?}");
            Ok(())
        };
        for small in [true, false] {
            let pool = |array: &crate::stats::StatArray| {
                if small { array.small_pool.current } else { array.large_pool.current }
            };
            let here = |block: &Block| self.blocks.lists[block.list].pool.is_small() == small;
            let allocated = sum(&|block| here(block) && block.allocated);
            expect(
                "allocation",
                allocated,
                (pool(&stats.allocation), pool(&stats.allocated_bytes)),
            )?;
            let active = sum(&|block| here(block) && !block.is_idle());
            expect("active", active, (pool(&stats.active), pool(&stats.active_bytes)))?;
            let split = sum(&|block| {
                here(block) && block.is_idle() && block.is_split() && block.range.is_none()
            });
            let kept = (pool(&stats.inactive_split), pool(&stats.inactive_split_bytes));
            expect("inactive_split", split, kept)?;
            let mapped = sum(&|block| here(block) && block.mapped).1;
            expect("reserved_bytes", (0, mapped), (0, pool(&stats.reserved_bytes)))?;
        }
        // By its name: a program may open a private pool that is called as the default one.
        let pool_of = |block: &Block| self.pools.id_of(self.blocks.lists[block.list].pool);
        let is_private = |block: &Block| !pool_of(block).is_default();
        let private = sum(&|block| block.mapped && is_private(block)).1;
        let kept = self.private_reserved_bytes().cast_signed();
        expect("private_reserved_bytes", (0, private), (0, kept))?;
        let reserved = self.reserved_bytes.cast_signed();
        expect("reserved", (0, stats.reserved_bytes.all.current), (0, reserved))
    }
}
