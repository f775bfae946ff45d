//! Which free bytes serve a request that has no remembered address: those that leave most pages wholly free.

use events::Addr;

use crate::arena::BlockId;
use crate::cast;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::ids::RangeId;
use crate::stitch::{Marks, PAGE_BYTES, Run, Slot};
use device::Device;
use events::Recorder;

/// Where a request may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// At free home bytes and ghosts of wholly free pages.
    Mapped,
    /// Behind the frontier of a run, and the free bytes before it.
    Frontier,
    /// The same, or at any slots whose ghosts can be unmapped.
    Holes,
}

/// Free blocks that are compared.
const COMPARED_BLOCKS: usize = 32;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Marks the pages that requests will probably want during the life of this one.
    pub(super) fn expect_requests(&mut self, params: &AllocParams) {
        let mut expected = core::mem::take(&mut self.stitch.expected);
        expected.clear();
        let follower = core::mem::take(self.stitch.follower(params.stream));
        for (id, addr, size_bytes) in follower.expected() {
            let Some(run) = self.stitch.find_run(id) else { continue };
            let end = Addr(addr.0 + size_bytes);
            if run.addr <= addr && end <= run.frontier() {
                let touched = run.touched_slots(addr, end);
                let pages = run.slots[touched].iter().filter_map(|slot| slot.page);
                pages.for_each(|page| _ = expected.insert(page));
            }
        }
        *self.stitch.follower(params.stream) = follower;
        self.stitch.expected = expected;
    }

    /// The end of a free block, out of the smallest that fit, that is least in the way of requests to come and uses up
    /// the fewest wholly free pages.
    pub(super) fn best_home(&self, params: &AllocParams) -> Option<(BlockId, Addr)> {
        let list = &self.blocks.lists[self.blocks.lists.find(params.pool, params.stream)?];
        let (mut place, mut id) = list.first_fit(&self.blocks.arena, params.size_bytes)?;
        // A request that touches two partly used pages takes this many whole ones.
        let least =
            cast::index(params.size_bytes.saturating_sub(2 * PAGE_BYTES).div_ceil(PAGE_BYTES));
        let mut best: Option<((usize, usize), BlockId, Addr)> = None;
        for _ in 0..COMPARED_BLOCKS {
            let block = &self.blocks[id];
            let run = self.stitch.run(block.range.expect("a block of stitch has a run"));
            let whole = run.whole_slots(block.addr, block.end());
            let high = Addr(block.end().0 - params.size_bytes);
            for addr in [block.addr, high] {
                let touched = run.touched_slots(addr, Addr(addr.0 + params.size_bytes));
                let (first, last) = (touched.start.max(whole.start), touched.end.min(whole.end));
                let pages = last.saturating_sub(first);
                let is_expected = |slot: &&Slot| {
                    slot.page.is_some_and(|page| self.stitch.expected.contains(page))
                };
                let conflicts = run.slots[touched].iter().filter(is_expected).count();
                let cost = (conflicts, pages);
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, id, addr));
                }
            }
            if best.is_some_and(|(cost, ..)| cost <= (0, least)) {
                break;
            }
            match list.after(place) {
                Some(next) => (place, id) = next,
                None => break,
            }
        }
        best.map(|(_, id, addr)| (id, addr))
    }

    /// A place in the request's runs within this reach, out of those that use up the fewest wholly free pages.
    pub(super) fn find_window(
        &mut self,
        params: &AllocParams,
        reach: Reach,
    ) -> Option<(RangeId, Addr)> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        let mut marks = core::mem::take(&mut self.stitch.marks);
        let mut best: Option<(usize, RangeId, Addr)> = None;
        for &id in self.stitch.runs_of(list) {
            if let Some((pages, addr)) = self.best_window_of(id, params, reach, &mut marks)
                && best.is_none_or(|(least, ..)| pages < least)
            {
                best = Some((pages, id, addr));
            }
        }
        self.stitch.marks = marks;
        best.map(|(_, run, addr)| (run, addr))
    }

    fn best_window_of(
        &self,
        id: RangeId,
        params: &AllocParams,
        reach: Reach,
        marks: &mut Marks,
    ) -> Option<(usize, Addr)> {
        let run = self.stitch.run(id);
        let frontier = run.frontier();
        let passed = self.stitch.progress.passed(run.stream);
        let may_map = reach != Reach::Mapped;
        let mut scan = Scan { run, size_bytes: params.size_bytes, start: None, best: None };
        let mut at = Some(run.first_block());
        marks.clear();
        while let Some(block) = at.map(|id| &self.blocks[id]) {
            at = block.next;
            if !block.is_idle() {
                scan.close(block.addr);
                marks.clear();
                continue;
            }
            if block.mapped {
                scan.open(block.addr);
                for slot in run.whole_slots(block.addr, block.end()) {
                    let page = run.slots[slot].page.expect("a home has a page");
                    if !may_map && !marks.insert(page) {
                        // A ghost of this page is part of the window.
                        scan.close(run.slot_addr(slot));
                        scan.open(run.slot_addr(slot));
                        marks.clear();
                        marks.insert(page);
                    }
                }
                continue;
            }
            for slot in run.whole_slots(block.addr, block.end().min(frontier)) {
                let addr = run.slot_addr(slot);
                let ghost = run.slots[slot].page.filter(|_| run.slots[slot].is_open);
                let is_usable = match reach {
                    Reach::Mapped => ghost.is_some_and(|page| self.is_eligible(page, params)),
                    Reach::Frontier => false,
                    Reach::Holes => {
                        run.slots[slot].page.is_none() || run.slots[slot].ticket <= passed
                    }
                };
                if !is_usable {
                    scan.close(addr);
                    marks.clear();
                    continue;
                }
                if !may_map && !marks.insert(ghost.expect("the ghost is usable")) {
                    scan.close(addr);
                    marks.clear();
                    marks.insert(ghost.expect("the ghost is usable"));
                }
                scan.open(addr);
            }
            if block.end() > frontier {
                if may_map {
                    scan.open(block.addr.max(frontier));
                    scan.best = scan.best.filter(|_| reach == Reach::Holes);
                    scan.close_behind_frontier(block.end());
                } else {
                    scan.close(block.addr.max(frontier));
                }
                return scan.best;
            }
        }
        scan.close(frontier);
        scan.best
    }
}

/// The windows of one run.
struct Scan<'r> {
    run: &'r Run,
    size_bytes: u64,
    /// Where the free bytes begin that end at the slot in question.
    start: Option<Addr>,
    /// Wholly free pages of the best window, and its address.
    best: Option<(usize, Addr)>,
}

impl Scan<'_> {
    /// Free bytes begin here, unless they began before.
    fn open(&mut self, addr: Addr) {
        self.start = self.start.or(Some(addr));
    }

    /// The free bytes end here.
    fn close(&mut self, end: Addr) {
        if let Some(start) = self.start.take()
            && end.0 - start.0 >= self.size_bytes
        {
            self.consider(start, (start, end), false);
            self.consider(Addr(end.0 - self.size_bytes), (start, end), false);
        }
    }

    /// The free bytes end with the run. The window starts where they do, so that the frontier moves least. It is
    /// preferred to holes that need as many pages: they may become free again as a whole.
    fn close_behind_frontier(&mut self, end: Addr) {
        if let Some(start) = self.start.take()
            && end.0 - start.0 >= self.size_bytes
        {
            self.consider(start, (start, end), true);
        }
    }

    fn consider(&mut self, addr: Addr, (start, end): (Addr, Addr), wins_ties: bool) {
        let touched = self.run.touched_slots(addr, Addr(addr.0 + self.size_bytes));
        let whole = self.run.whole_slots(start, end);
        let pages = touched.end.min(whole.end).saturating_sub(touched.start.max(whole.start));
        let is_better = |least: usize| pages < least || (wins_ties && pages == least);
        if self.best.is_none_or(|(least, _)| is_better(least)) {
            self.best = Some((pages, addr));
        }
    }
}
