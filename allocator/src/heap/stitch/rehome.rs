//! Moving the homes of pages between slots where they are mapped.

use events::{Addr, Event};

use crate::heap::Heap;
use crate::ids::RangeId;
use crate::stitch::{Moves, PageId, SlotRef};
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Makes ghosts homes.
    pub(super) fn carry_out_moves(&mut self, moves: &Moves) {
        self.move_homes(&moves.pages);
        moves.edges.iter().for_each(|edge| self.move_edge(edge));
    }

    /// Makes the given slots the homes of their pages, which are wholly free or have no home yet. The old homes become
    /// ghosts.
    pub(super) fn move_homes(&mut self, moves: &[(PageId, SlotRef)]) {
        let mut left: Option<(SlotRef, usize)> = None;
        for (page, slot) in moves {
            let Some(home) = self.stitch.pages[*page].home.replace(*slot) else { continue };
            let ticket = self.stitch.run(home.run).ticket(home.slot);
            self.stitch.run_mut(slot.run).inherit_ticket(slot.slot, ticket);
            match &mut left {
                Some((first, count)) if home == first.plus(*count) => *count += 1,
                _ => {
                    if let Some((first, count)) = left.replace((home, 1)) {
                        self.end_homes(first, count);
                    }
                }
            }
        }
        if let Some((first, count)) = left {
            self.end_homes(first, count);
        }
        for span in moves.chunk_by(|(_, slot), (_, next)| slot.is_before(next)) {
            self.begin_homes(span[0].1, span.len());
        }
    }

    /// Takes the bytes of home slots out of the free blocks.
    pub(super) fn end_homes(&mut self, first: SlotRef, count: usize) {
        let run = self.stitch.run(first.run);
        let (addr, end) = (run.slot_addr(first.slot), run.slot_addr(first.slot + count));
        self.end_home_bytes(first.run, (addr, end));
    }

    /// The same for any bytes.
    pub(super) fn end_home_bytes(&mut self, of: RangeId, (addr, end): (Addr, Addr)) {
        let run = self.stitch.run_mut(of);
        // Wholly free pages side by side are parts of one free block.
        let id = run.block_at(&self.blocks.arena, addr);
        assert!(self.blocks[id].end() >= end, "bytes that move are free");
        let id = self.blocks.isolate(run, id, addr, end);
        self.blocks[id].mapped = false;
        self.blocks.settle_idle(run, id);
        self.note_homes(of, (addr, end), false);
    }

    /// Enters the bytes of slots that became homes as free, and records them.
    fn begin_homes(&mut self, first: SlotRef, count: usize) {
        let run = self.stitch.run(first.run);
        let (addr, end) = (run.slot_addr(first.slot), run.slot_addr(first.slot + count));
        self.begin_home_bytes(first.run, (addr, end));
    }

    /// The same for any bytes.
    pub(super) fn begin_home_bytes(&mut self, of: RangeId, (addr, end): (Addr, Addr)) {
        self.enter_home_bytes(of, (addr, end));
        self.note_homes(of, (addr, end), true);
    }

    /// Enters bytes that have their home here as free.
    pub(super) fn enter_home_bytes(&mut self, of: RangeId, (addr, end): (Addr, Addr)) {
        let stack = self.stack;
        let run = self.stitch.run_mut(of);
        let id = run.block_at(&self.blocks.arena, addr);
        let id = self.blocks.isolate(run, id, addr, end);
        let block = &mut self.blocks[id];
        block.mapped = true;
        if block.prev.is_none() {
            block.segment_stack = stack;
        }
        self.blocks.settle_idle(run, id);
    }

    /// Counts and records bytes whose home begins here, or ends.
    fn note_homes(&mut self, run: RangeId, (addr, end): (Addr, Addr), begins: bool) {
        let run = self.stitch.run(run);
        let (list, stream) = (run.list, run.stream);
        let pool = self.blocks.lists[list].pool;
        let (is_small, pool) = (pool.is_small(), self.pools.id_of(pool));
        let size_bytes = end.0 - addr.0;
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
