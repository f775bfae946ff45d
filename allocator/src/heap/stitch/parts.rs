//! Pages with two homes: their first bytes have one, and their last bytes another.

use core::ops::Range;

use events::Addr;

use crate::heap::Heap;
use crate::ids::RangeId;
use crate::stitch::{EdgeMove, PAGE_BYTES, PageId, SlotRef, Tail};
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// The move that gives the bytes of a request at a ghost their home there: where they are an end of the page, and
    /// free. The home of the rest stays.
    pub(super) fn movable_edge(
        &self,
        page: PageId,
        to: SlotRef,
        (addr, end): (Addr, Addr),
    ) -> Option<EdgeMove> {
        let run = self.stitch.run(to.run);
        let start = run.slot_addr(to.slot).0;
        let bytes = addr.0.saturating_sub(start)..(end.0 - start).min(PAGE_BYTES);
        let is_edge = (bytes.start == 0) != (bytes.end == PAGE_BYTES);
        let home = self.stitch.pages[page].home.filter(|_| is_edge)?;
        let is_inside = home.run == to.run && run.touched_slots(addr, end).contains(&home.slot);
        let is_own = self.stitch.run(home.run).list == run.list;
        let is_whole = self.stitch.pages[page].tail.is_none();
        let may_move = is_whole && is_own && !is_inside && self.is_free_at(home, &bytes);
        may_move.then_some(EdgeMove { page, to, bytes })
    }

    /// Whether bytes of a page, which have their home at a slot, are free.
    fn is_free_at(&self, at: SlotRef, bytes: &Range<u64>) -> bool {
        let run = self.stitch.run(at.run);
        let start = run.slot_addr(at.slot).0;
        let block = &self.blocks[run.block_at(&self.blocks.arena, Addr(start + bytes.start))];
        block.is_idle() && block.mapped && block.end().0 >= start + bytes.end
    }

    /// Gives free bytes at an end of a page a home of their own.
    pub(super) fn move_edge(&mut self, EdgeMove { page: id, to, bytes }: &EdgeMove) {
        let from = self.stitch.pages.part(*id, *to, bytes);
        self.move_bytes(from, *to, bytes);
    }

    /// Gives the pages at a range of addresses one home each, where one of their parts is free.
    pub(super) fn reunite_between(&mut self, id: RangeId, (addr, end): (Addr, Addr)) {
        if self.stitch.pages.parted.is_empty() {
            return;
        }
        for slot in self.stitch.run(id).touched_slots(addr, end) {
            let page = self.stitch.run(id).slots[slot].page;
            if let Some(page) = page {
                self.reunite(page, |front, back| front || back);
            }
        }
    }

    /// Gives the pages that are wholly free one home each.
    pub(super) fn reunite_free_pages(&mut self) {
        let mut at = 0;
        while let Some(&page) = self.stitch.pages.parted.get(at) {
            at += usize::from(!self.reunite(page, |front, back| front && back));
        }
    }

    /// Gives a page one home, if that is due where its first bytes are free and where its last bytes are.
    fn reunite(&mut self, id: PageId, is_due: impl Fn(bool, bool) -> bool) -> bool {
        let page = &self.stitch.pages[id];
        let (Some(home), Some(Tail { at, cut })) = (page.home, page.tail) else { return false };
        let (front, back) = (0..cut, cut..PAGE_BYTES);
        let (is_front_free, is_back_free) =
            (self.is_free_at(home, &front), self.is_free_at(at, &back));
        if !is_due(is_front_free, is_back_free) {
            return false;
        }
        let (from, to, bytes) = if is_back_free { (at, home, back) } else { (home, at, front) };
        let page = &mut self.stitch.pages[id];
        (page.home, page.tail) = (Some(to), None);
        self.stitch.pages.parted.retain(|parted| *parted != id);
        self.move_bytes(from, to, &bytes);
        true
    }

    /// Moves free bytes of a page from one of its slots to another.
    fn move_bytes(&mut self, from: SlotRef, to: SlotRef, bytes: &Range<u64>) {
        let ticket = self.stitch.run(from.run).ticket(from.slot);
        self.stitch.run_mut(to.run).inherit_ticket(to.slot, ticket);
        let [old, new] = [from, to].map(|at| {
            let start = self.stitch.run(at.run).slot_addr(at.slot).0;
            (Addr(start + bytes.start), Addr(start + bytes.end))
        });
        self.end_home_bytes(from.run, old);
        self.begin_home_bytes(to.run, new);
    }
}
