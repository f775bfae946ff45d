//! Placing a request at a given address, where every byte of it is free or can become so without a driver call.

use alloc::vec::Vec;
use core::ops::Range;

use events::Addr;

use crate::arena::BlockId;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::ids::RangeId;
use crate::stitch::{Marks, Moves, SlotRef};
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Places the request at an address of a run: its bytes are free home bytes, or ghosts of wholly free pages, which
    /// become homes.
    pub(super) fn place_at(
        &mut self,
        params: &AllocParams,
        id: RangeId,
        addr: Addr,
    ) -> Option<BlockId> {
        let run = self.stitch.find_run(id)?;
        let end = Addr(addr.0 + params.size_bytes);
        // The run of an id may be another one than when the place was remembered.
        if addr < run.addr || end > run.frontier() || run.stream != params.stream {
            return None;
        }
        let first = run.block_at(&self.blocks.arena, addr);
        let block = &self.blocks[first];
        if !block.is_idle() || self.blocks.lists[block.list].pool != params.pool {
            return None;
        }
        if block.mapped && block.end() >= end {
            return Some(self.take_part(first, addr, params, None));
        }
        self.reunite_between(id, (addr, end));
        let mut moves = core::mem::take(&mut self.stitch.moves);
        moves.clear();
        let is_free = self.ghosts_between(params, id, (addr, end), &mut moves, None);
        if is_free {
            self.carry_out_moves(&moves);
        }
        self.stitch.moves = moves;
        is_free.then(|| {
            let first = self.stitch.run(id).block_at(&self.blocks.arena, addr);
            self.take_part(first, addr, params, None)
        })
    }

    /// The ghosts between two addresses that are to become homes. Slots whose ghosts cannot go into `missing`; without
    /// it, and where a byte is in use, the answer is false, and `moves` are not all of them.
    pub(super) fn ghosts_between(
        &mut self,
        params: &AllocParams,
        id: RangeId,
        between: (Addr, Addr),
        moves: &mut Moves,
        missing: Option<&mut Vec<SlotRef>>,
    ) -> bool {
        let mut marks = core::mem::take(&mut self.stitch.marks);
        marks.clear();
        let is_free = self.gather_ghosts(params, id, between, moves, missing, &mut marks);
        self.stitch.marks = marks;
        is_free
    }

    /// The same; `marked` are the pages that move.
    fn gather_ghosts(
        &self,
        params: &AllocParams,
        id: RangeId,
        (addr, end): (Addr, Addr),
        moves: &mut Moves,
        mut missing: Option<&mut Vec<SlotRef>>,
        marked: &mut Marks,
    ) -> bool {
        let run = self.stitch.run(id);
        let touched = run.touched_slots(addr, end);
        let mut at = Some(run.block_at(&self.blocks.arena, addr));
        let mut lent = FreeHomes { run: id, slots: 0..0 };
        while let Some(block) = at.map(|id| &self.blocks[id]).filter(|block| block.addr < end) {
            at = block.next;
            if !block.is_idle() {
                return false;
            }
            if block.mapped {
                continue;
            }
            let (from, to) = (block.addr.max(run.slot_addr(touched.start)), block.end().min(end));
            for slot in run.touched_slots(from, to) {
                let at = SlotRef { run: id, slot };
                let ghost = run.slots[slot].page.filter(|_| run.slots[slot].is_open);
                // The other bytes of a page with a part here.
                if ghost.is_some_and(|page| self.stitch.pages[page].has_part_at(at)) {
                    return false;
                }
                let eligible = ghost.filter(|page| {
                    let Some(home) = self.stitch.pages[*page].home else { return false };
                    let is_inside = home.run == id && touched.contains(&home.slot);
                    // Pages that move have homes side by side, as a rule.
                    if !lent.contains(home) {
                        lent = self.lendable(home, params);
                    }
                    !is_inside && lent.contains(home) && marked.insert(*page)
                });
                if let Some(page) = eligible {
                    moves.pages.push((page, at));
                    continue;
                }
                // A place of a plan is mapped: pages with two homes are free less often.
                let takes_edges = self.stitch.pages.takes_edges && !self.stitch.is_planned();
                let edge = ghost.filter(|_| takes_edges);
                let edge = edge.and_then(|page| self.movable_edge(page, at, (addr, end)));
                match (edge.filter(|edge| marked.insert(edge.page)), &mut missing) {
                    (Some(edge), _) => moves.edges.push(edge),
                    (None, Some(missing)) => missing.push(at),
                    (None, None) => return false,
                }
            }
        }
        true
    }

    /// The homes around one that pages can leave for a request: no byte of them is in use, and work of another stream
    /// is done.
    fn lendable(&self, home: SlotRef, params: &AllocParams) -> FreeHomes {
        let run = self.stitch.run(home.run);
        let mut slots = run.free_around(&self.blocks.arena, home.slot);
        if run.stream != params.stream && slots.contains(&home.slot) {
            let is_done = run.ticket(home.slot) <= self.stitch.progress.passed(run.stream);
            slots = home.slot..home.slot + usize::from(is_done);
        }
        FreeHomes { run: home.run, slots }
    }
}

/// Homes side by side that no byte is used of.
struct FreeHomes {
    run: RangeId,
    slots: Range<usize>,
}

impl FreeHomes {
    const fn contains(&self, home: SlotRef) -> bool {
        home.run.slot() == self.run.slot()
            && self.slots.start <= home.slot
            && home.slot < self.slots.end
    }
}
