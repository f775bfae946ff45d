//! Which free bytes serve a request that has no remembered address: those that leave most pages wholly free.

use events::Addr;

use crate::arena::BlockId;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::ids::RangeId;
use crate::stitch::{PAGE_BYTES, Run};
use device::Device;
use events::Recorder;

/// Free blocks that are compared.
const COMPARED_BLOCKS: usize = 32;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// The end of a free block, out of the smallest that fit, that uses up the fewest wholly free pages.
    pub(super) fn best_home(&self, params: &AllocParams) -> Option<(BlockId, Addr)> {
        let list = &self.blocks.lists[self.blocks.lists.find(params.pool, params.stream)?];
        let (mut place, mut id) = list.first_fit(&self.blocks.arena, params.size_bytes)?;
        // A request that touches two partly used pages takes this many whole ones.
        let least =
            (params.size_bytes.saturating_sub(2 * PAGE_BYTES)).div_ceil(PAGE_BYTES) as usize;
        let mut best: Option<(usize, BlockId, Addr)> = None;
        for _ in 0..COMPARED_BLOCKS {
            let block = &self.blocks[id];
            let run = self.stitch.run(block.range.expect("a block of stitch has a run"));
            let whole = run.whole_slots(block.addr, block.end());
            let high = Addr(block.end().0 - params.size_bytes);
            for addr in [block.addr, high] {
                let touched = run.touched_slots(addr, Addr(addr.0 + params.size_bytes));
                let (first, last) = (touched.start.max(whole.start), touched.end.min(whole.end));
                let pages = last.saturating_sub(first);
                if best.is_none_or(|(least, ..)| pages < least) {
                    best = Some((pages, id, addr));
                }
            }
            if best.is_some_and(|(pages, ..)| pages <= least) {
                break;
            }
            match list.after(place) {
                Some(next) => (place, id) = next,
                None => break,
            }
        }
        best.map(|(_, id, addr)| (id, addr))
    }

    /// A place among the request's runs where all bytes are free home bytes or ghosts of wholly free pages: the one that
    /// uses up the fewest wholly free pages.
    pub(super) fn find_window(&mut self, params: &AllocParams) -> Option<(RangeId, Addr)> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        let runs = self.stitch.runs().filter(|(_, run)| run.list == list && !run.slots.is_empty());
        let runs: alloc::vec::Vec<RangeId> = runs.map(|(id, _)| id).collect();
        let mut best: Option<(usize, RangeId, Addr)> = None;
        for id in runs {
            if let Some((pages, addr)) = self.best_window_of(id, params)
                && best.is_none_or(|(least, ..)| pages < least)
            {
                best = Some((pages, id, addr));
            }
        }
        best.map(|(_, run, addr)| (run, addr))
    }

    fn best_window_of(&mut self, id: RangeId, params: &AllocParams) -> Option<(usize, Addr)> {
        let run = self.stitch.run(id);
        let frontier = run.frontier();
        let mut scan = Scan { size_bytes: params.size_bytes, start: None, best: None };
        let mut marks = core::mem::take(&mut self.stitch.marks);
        marks.clear();
        let run = self.stitch.run(id);
        let mut at = Some(run.block_at(&self.blocks.arena, run.addr));
        while let Some(block_id) = at {
            let block = &self.blocks[block_id];
            at = block.next;
            if block.addr >= frontier {
                break;
            }
            if !block.is_idle() {
                scan.close(run, block.addr);
                marks.clear();
                continue;
            }
            if block.mapped {
                let first = scan.start.unwrap_or(block.addr);
                scan.start = Some(first);
                for slot in run.whole_slots(block.addr, block.end()) {
                    let Some(page) = run.slots[slot].page else { continue };
                    if !marks.insert(page) {
                        // A ghost of this page is part of the window: another begins here.
                        scan.close(run, run.slot_addr(slot));
                        scan.start = Some(run.slot_addr(slot));
                        marks.clear();
                        marks.insert(page);
                    }
                }
                continue;
            }
            let end = block.end().0.min(frontier.0);
            for slot in run.whole_slots(block.addr, Addr(end)) {
                let addr = run.slot_addr(slot);
                let ghost = run.slots[slot].page.filter(|_| run.slots[slot].is_open);
                let Some(page) = ghost.filter(|page| self.is_eligible(*page, params)) else {
                    scan.close(run, addr);
                    marks.clear();
                    continue;
                };
                if !marks.insert(page) {
                    scan.close(run, addr);
                    marks.clear();
                    marks.insert(page);
                }
                scan.start = scan.start.or(Some(addr));
            }
        }
        scan.close(run, frontier);
        let best = scan.best;
        self.stitch.marks = marks;
        best
    }
}

/// The windows of one run.
struct Scan {
    size_bytes: u64,
    /// Where the free bytes begin that end at the slot in question.
    start: Option<Addr>,
    /// Wholly free pages of the best window, and its address.
    best: Option<(usize, Addr)>,
}

impl Scan {
    /// The free bytes end here.
    fn close(&mut self, run: &Run, end: Addr) {
        let Some(start) = self.start.take() else { return };
        if end.0 - start.0 < self.size_bytes {
            return;
        }
        for addr in [start, Addr(end.0 - self.size_bytes)] {
            let touched = run.touched_slots(addr, Addr(addr.0 + self.size_bytes));
            let whole = run.whole_slots(start, end);
            let pages = touched.end.min(whole.end).saturating_sub(touched.start.max(whole.start));
            if self.best.is_none_or(|(least, _)| pages < least) {
                self.best = Some((pages, addr));
            }
        }
    }
}
