//! Moving the homes of pages between slots where they are mapped.

use events::{Addr, Event};

use crate::heap::Heap;
use crate::ids::RangeId;
use crate::stitch::{PAGE_BYTES, PageId, SlotRef};
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Makes the given slots the homes of their pages, which are wholly free or have no home yet. The old homes become
    /// ghosts.
    pub(super) fn move_homes(&mut self, moves: &[(PageId, SlotRef)]) {
        let mut at = 0;
        while at < moves.len() {
            let home = self.stitch.pages[moves[at].0].home;
            let Some(home) = home else {
                at += 1;
                continue;
            };
            let length = moves[at..]
                .iter()
                .enumerate()
                .take_while(|(place, (page, _))| {
                    let next = SlotRef { run: home.run, slot: home.slot + place };
                    self.stitch.pages[*page].home == Some(next)
                })
                .count();
            self.end_homes(home, length);
            at += length;
        }
        let mut at = 0;
        while at < moves.len() {
            let (_, first) = moves[at];
            let length = moves[at..]
                .iter()
                .enumerate()
                .take_while(|(place, (_, slot))| {
                    *slot == SlotRef { run: first.run, slot: first.slot + place }
                })
                .count();
            for (page, slot) in &moves[at..at + length] {
                let old = self.stitch.pages[*page].home.replace(*slot);
                let ticket = old.map_or(0, |old| self.stitch.run(old.run).slots[old.slot].ticket);
                let slot = &mut self.stitch.run_mut(slot.run).slots[slot.slot];
                slot.ticket = slot.ticket.max(ticket);
            }
            self.begin_homes(first, length);
            at += length;
        }
    }

    /// Takes the bytes of home slots out of the free blocks.
    pub(super) fn end_homes(&mut self, first: SlotRef, count: usize) {
        let run = self.stitch.run_mut(first.run);
        let (addr, end) = (run.slot_addr(first.slot), run.slot_addr(first.slot + count));
        // Wholly free pages side by side are parts of one free block.
        let id = run.block_at(&self.blocks.arena, addr);
        assert!(self.blocks[id].end() >= end, "pages that move are wholly free");
        let id = self.blocks.isolate(run, id, addr, end);
        self.blocks[id].mapped = false;
        self.blocks.settle_idle(run, id);
        self.note_homes(first.run, addr, count, false);
    }

    /// Enters the bytes of slots that became homes as free.
    fn begin_homes(&mut self, first: SlotRef, count: usize) {
        let stack = self.stack;
        let run = self.stitch.run_mut(first.run);
        let (addr, end) = (run.slot_addr(first.slot), run.slot_addr(first.slot + count));
        let id = run.block_at(&self.blocks.arena, addr);
        let id = self.blocks.isolate(run, id, addr, end);
        let block = &mut self.blocks[id];
        block.mapped = true;
        if block.prev.is_none() {
            block.segment_stack = stack;
        }
        self.blocks.settle_idle(run, id);
        self.note_homes(first.run, addr, count, true);
    }

    /// Counts and records slots that became homes, or ceased to be.
    fn note_homes(&mut self, run: RangeId, addr: Addr, count: usize, begins: bool) {
        let run = self.stitch.run(run);
        let (list, stream) = (run.list, run.stream);
        let pool = self.blocks.lists[list].pool;
        let (is_small, pool) = (pool.is_small(), self.pools.id_of(pool));
        let size_bytes = count as u64 * PAGE_BYTES;
        let is_large = !is_small;
        if begins {
            self.reserved_bytes += size_bytes;
            self.stats.rare.reserved_bytes.increase(is_small, size_bytes.cast_signed());
            self.record(Event::SegmentMap { addr, size_bytes, stream, pool, is_large });
        } else {
            self.reserved_bytes -= size_bytes;
            self.stats.rare.reserved_bytes.decrease(is_small, size_bytes.cast_signed());
            self.record(Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large });
        }
    }
}
