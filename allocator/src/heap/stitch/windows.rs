//! Windows: free addresses side by side in a request's runs, long enough for it. The best window uses up the fewest
//! wholly free pages.

use alloc::vec::Vec;

use events::{Addr, Stream};

use crate::arena::Block;
use crate::cast;
use crate::free_list::FreeList;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::ids::{FreeListId, RangeId};
use crate::stitch::{PAGE_BYTES, Placement, Run, SlotRef, Span};
use device::Device;
use events::Recorder;

/// A place for a request.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) run: RangeId,
    pub(super) addr: Addr,
    /// Wholly free pages that it uses up.
    pub(super) pages: usize,
}

impl AllocParams {
    /// Wholly free pages that the request takes at least: it may share its first and its last page.
    pub(super) fn least_pages(&self) -> usize {
        cast::index(self.size_bytes.saturating_sub(2 * PAGE_BYTES).div_ceil(PAGE_BYTES))
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// A place at which no byte is in use. It may have ghosts that a kernel still uses, unless a capture forbids to
    /// wait for that kernel.
    pub(super) fn free_window(&self, params: &AllocParams, place: Placement) -> Option<Window> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        let (id, addr) = (place.run, place.addr);
        let run = self.stitch.find_run(id)?;
        let end = Addr(addr.0 + params.size_bytes);
        if run.list != list || addr < run.addr || end > run.slot_addr(run.slot_count) {
            return None;
        }
        let mut ghosts = run.touched_slots(addr, end).map(|slot| SlotRef { run: id, slot });
        if self.holds_back_flush() && !ghosts.all(|at| self.is_unused(at)) {
            return None;
        }
        let mut at = Some(run.block_at(&self.blocks.arena, addr));
        while let Some(block) = at.map(|id| &self.blocks[id]).filter(|block| block.addr < end) {
            if !block.is_idle() {
                return None;
            }
            let (start, end) = (block.addr.max(addr), block.end().min(end));
            let mut parts = run.touched_slots(start, end).map(|slot| SlotRef { run: id, slot });
            if !block.mapped && parts.any(|at| !self.stitch.home_bytes(at).is_empty()) {
                return None;
            }
            at = block.next;
        }
        Some(Window { run: id, addr, pages: 0 })
    }

    /// A window of free home bytes and of ghosts, each of another wholly free page: no driver call is needed.
    pub(super) fn find_mapped_window(&mut self, params: &AllocParams) -> Option<Window> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        let mut spans = core::mem::take(&mut self.stitch.spans);
        let mut marks = core::mem::take(&mut self.stitch.marks);
        spans.clear();
        self.collect_ghosts(params, list, &mut spans);
        if !spans.is_empty() {
            let homes = self.blocks.lists[list].iter().map(|id| &self.blocks[id]);
            let run_of = |block: &Block| block.range.expect("a block of stitch has a run");
            spans.extend(homes.map(|block| Span::home(run_of(block), block.addr, block.end())));
            spans.sort_unstable();
        }
        let mut best = None;
        for spans in spans.chunk_by(|span, next| span.run == next.run) {
            let run = self.stitch.run(spans[0].run);
            let mut scan = Scan::new(run, params.size_bytes);
            let mut end = spans[0].addr;
            marks.clear();
            for span in spans {
                if span.addr != end {
                    scan.close(end);
                    marks.clear();
                }
                end = span.end;
                scan.open(span.addr);
                for slot in run.whole_slots(span.addr, span.end) {
                    let page = span.ghost.or(run.slots[slot].page).expect("a home has a page");
                    if !marks.insert(page) {
                        // The page is part of the window already.
                        scan.close(run.slot_addr(slot));
                        scan.open(run.slot_addr(slot));
                        marks.clear();
                        marks.insert(page);
                    }
                }
            }
            scan.close(end);
            scan.improve(&mut best, spans[0].run);
        }
        self.stitch.spans = spans;
        self.stitch.marks = marks;
        best
    }

    /// The ghosts, in the runs of a free list, of pages that may change their homes for the request. None where the
    /// free pages are too few to serve it.
    fn collect_ghosts(&self, params: &AllocParams, list: FreeListId, spans: &mut Vec<Span>) {
        let mut free_pages = 0;
        for home in self.movable_homes(params) {
            free_pages += 1;
            let page = self.stitch.page_at(home).expect("a home has a page");
            let ghosts = self.stitch.pages[page].slots.iter().filter(|slot| **slot != home);
            for ghost in ghosts {
                let run = self.stitch.run(ghost.run);
                if run.list == list && run.slots[ghost.slot].is_open {
                    spans.push(Span::ghost(ghost.run, run.slot_addr(ghost.slot), page));
                }
            }
        }
        if free_pages < params.least_pages() {
            spans.clear();
        }
    }

    /// The homes of pages that may change them for a request.
    pub(super) fn movable_homes(&self, params: &AllocParams) -> impl Iterator<Item = SlotRef> {
        let lists = self.lists_for(params).into_iter().map(|list| &self.blocks.lists[list]);
        let lenders = lists.filter(|list| !self.keeps_pages(list, params));
        let stream = params.stream;
        lenders.flat_map(move |list| self.free_homes(list, stream))
    }

    /// Whether a request leaves the free pages of a list there: small requests have no placement memory, so those that
    /// are free in one execution of a step are in use in the next.
    pub(super) fn keeps_pages(&self, list: &FreeList, params: &AllocParams) -> bool {
        let is_kept = self.stitch.keeps_small_pages && !self.stitch.supply.is_short;
        is_kept && list.pool.is_small() && !params.pool.is_small()
    }

    /// The homes in a list's runs that no byte is used of, and that a request of a stream may take pages of.
    pub(super) fn free_homes(
        &self,
        list: &FreeList,
        stream: Stream,
    ) -> impl Iterator<Item = SlotRef> {
        let is_own = list.stream == stream;
        let passed = if is_own { u64::MAX } else { self.stitch.progress.passed(list.stream) };
        let large_first = list.iter().rev().map(|id| &self.blocks[id]);
        large_first.take_while(|block| block.size_bytes >= PAGE_BYTES).flat_map(move |block| {
            let id = block.range.expect("a block of stitch has a run");
            let run = self.stitch.run(id);
            let slots = run.whole_slots(block.addr, block.end());
            let done = slots.filter(move |slot| run.ticket(*slot) <= passed);
            done.map(move |slot| SlotRef { run: id, slot })
        })
    }

    /// The addresses behind the frontier of a run, and the free bytes before it.
    pub(super) fn find_frontier_window(&self, params: &AllocParams) -> Option<Window> {
        let mut best = None;
        for &id in self.stitch.runs_of(self.blocks.lists.find(params.pool, params.stream)?) {
            let run = self.stitch.run(id);
            if run.slots.len() == run.slot_count {
                continue;
            }
            let mut scan = Scan::new(run, params.size_bytes);
            let rest = &self.blocks[run.block_at(&self.blocks.arena, run.frontier())];
            let before = rest.prev.map(|id| &self.blocks[id]);
            match before.filter(|block| block.is_idle() && block.end() == run.frontier()) {
                Some(block) => scan.open(block.addr),
                None => scan.open(run.frontier()),
            }
            scan.close_behind_frontier(rest.end());
            scan.improve(&mut best, id);
        }
        best
    }
}

/// The windows of one run, by ascending address.
struct Scan<'r> {
    run: &'r Run,
    size_bytes: u64,
    /// Where the free bytes begin that end at the slot in question.
    start: Option<Addr>,
    /// Wholly free pages of the best window, and its address.
    best: Option<(usize, Addr)>,
}

impl<'r> Scan<'r> {
    const fn new(run: &'r Run, size_bytes: u64) -> Self {
        Self { run, size_bytes, start: None, best: None }
    }

    /// Free bytes begin here, unless they began before.
    fn open(&mut self, addr: Addr) {
        self.start = self.start.or(Some(addr));
    }

    /// The free bytes end here.
    fn close(&mut self, end: Addr) {
        if let Some(start) = self.start.take()
            && end.0 - start.0 >= self.size_bytes
        {
            self.consider(start, (start, end));
            self.consider(Addr(end.0 - self.size_bytes), (start, end));
        }
    }

    /// The free bytes end with the run. The window starts where they do, so that the frontier moves least.
    fn close_behind_frontier(&mut self, end: Addr) {
        if let Some(start) = self.start.take()
            && end.0 - start.0 >= self.size_bytes
        {
            self.consider(start, (start, end));
        }
    }

    fn consider(&mut self, addr: Addr, (start, end): (Addr, Addr)) {
        let touched = self.run.touched_slots(addr, Addr(addr.0 + self.size_bytes));
        let whole = self.run.whole_slots(start, end);
        let pages = touched.end.min(whole.end).saturating_sub(touched.start.max(whole.start));
        if self.best.is_none_or(|(least, _)| pages < least) {
            self.best = Some((pages, addr));
        }
    }

    /// Replaces the best window of other runs, if that of this one is better.
    fn improve(&self, best: &mut Option<Window>, run: RangeId) {
        if let Some((pages, addr)) = self.best
            && best.is_none_or(|best| pages < best.pages)
        {
            *best = Some(Window { run, addr, pages });
        }
    }
}
