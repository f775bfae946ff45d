//! Holes: free addresses side by side of which some are not mapped. A hole costs the wholly free pages that it uses up,
//! and driver calls: one for each page that is mapped, and one for each ghost that is unmapped for it.

use alloc::vec::Vec;

use events::{Addr, Stream};

use super::grow::Plan;
use super::windows::Window;
use crate::arena::BlockId;
use crate::cast;
use crate::heap::hot_path::AllocParams;
use crate::heap::{AllocError, Heap};
use crate::ids::RangeId;
use crate::stitch::{PAGE_BYTES, Run, SlotRef};
use device::Device;
use events::Recorder;

/// Of the pages of a request, one in so many may be used up beyond need where that takes fewer calls.
const TRADED_PART: usize = 32;
/// The same under a plan, whose places leave fewer pages to spare.
const TRADED_PART_PLANNED: usize = 64;
/// A hole that costs ghosts in use has to take so many times fewer driver calls than new addresses.
const CHEAP: usize = 4;
/// Or so many fewer.
const MANY_CALLS: usize = 128;
/// A place is repaired if at most one page in so many has to be mapped.
const LOST_PART: usize = 2;
/// The ticket after which no ghost was used.
pub(super) const ANY_GHOST: u64 = u64::MAX;

/// A place for a request that is to be mapped, as far as it is not.
#[derive(Clone, Copy)]
pub(super) struct Hole {
    pub(super) window: Window,
    pub(super) calls: usize,
}

impl Hole {
    /// The best hole uses up the fewest pages, where up to `good_pages` are alike, and then takes the fewest calls.
    fn cost(&self, good_pages: usize) -> (usize, usize, usize) {
        (self.window.pages.max(good_pages), self.calls, self.window.pages)
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves a request by a hole, where that takes fewer driver calls than new addresses. A hole that costs ghosts
    /// used since the request occurred first has to take far fewer, and serves no step that repeats: the next execution
    /// would map these ghosts again, in place of others. There, the request's own place is repaired.
    pub(super) fn fill_cheaper_hole(
        &mut self,
        params: &AllocParams,
        behind: &Plan,
    ) -> Result<Option<BlockId>, AllocError> {
        let most = behind.mapped_pages();
        let is_cheap = |hole: &Hole| hole.calls * CHEAP <= most || hole.calls + MANY_CALLS <= most;
        let mut hole = None;
        if self.stitch.follower(params.stream).is_repeating() {
            if let Some(id) = self.repair_place(params)? {
                return Ok(Some(id));
            }
        } else {
            hole = self.find_hole(params, ANY_GHOST).filter(is_cheap);
        }
        if hole.is_none() {
            let ticket = self.unused_ticket(params);
            hole = self.find_hole(params, ticket).filter(|hole| hole.calls < most);
        }
        let Some(hole) = hole else { return Ok(None) };
        let plan = self.plan(params, hole.window);
        if plan.new_pages() > behind.new_pages() || plan.mapped_pages() >= most {
            return Ok(None);
        }
        self.carry_out(plan, params)
    }

    /// Serves a request at its most likely place, with free pages for those that it lost, if it has most of them still.
    /// Fewer mappings change than at new addresses, so fewer requests to come lose theirs. Its free pages of small runs
    /// are replaced too if there are others: it would lose them one after another. A page that another stream has is
    /// not replaced: where that stream alternates between two blocks, the place would lose a page of each in turn. At
    /// new addresses the request has a place for either.
    fn repair_place(&mut self, params: &AllocParams) -> Result<Option<BlockId>, AllocError> {
        let [place, _] = self.stitch.follower(params.stream).recent();
        let Some(window) = place.and_then(|place| self.free_window(params, place)) else {
            return Ok(None);
        };
        let plan = self.plan(params, window);
        let own = self.plan_without_small_pages(params, &plan);
        for plan in [own, plan] {
            if self.is_repair(params, &plan) {
                return self.carry_out(plan, params);
            }
        }
        Ok(None)
    }

    /// Whether a plan leaves most mappings of its place as they are, and takes neither new pages nor places of pages
    /// that another stream has.
    fn is_repair(&self, params: &AllocParams, plan: &Plan) -> bool {
        let pages = cast::index(params.size_bytes.div_ceil(PAGE_BYTES));
        let is_foreign = |at: &SlotRef| self.is_homed_in_other_stream(*at, params.stream);
        plan.mapped_pages() * LOST_PART <= pages
            && plan.new_pages() == 0
            && !plan.missing().iter().any(is_foreign)
    }

    /// Whether the page of a slot has its home in a run of another stream.
    fn is_homed_in_other_stream(&self, at: SlotRef, stream: Stream) -> bool {
        let slot = self.stitch.run(at.run).slots.get(at.slot);
        let page = slot.and_then(|slot| slot.page);
        let home = page.and_then(|page| self.stitch.pages[page].home);
        home.is_some_and(|home| self.stitch.run(home.run).stream != stream)
    }

    /// The ticket up to which ghosts were not used since the request occurred first: before the oldest use of the slots
    /// that it had.
    fn unused_ticket(&mut self, params: &AllocParams) -> u64 {
        let follower = self.stitch.follower(params.stream);
        let places = follower.recent().into_iter().chain(follower.older()).flatten();
        let tickets = places.filter_map(|place| {
            let run = self.stitch.find_run(place.run);
            let end = Addr(place.addr.0 + params.size_bytes);
            let run = run.filter(|run| run.addr <= place.addr && end <= run.frontier());
            run.and_then(|run| {
                run.touched_slots(place.addr, end).map(|slot| run.ticket(slot)).min()
            })
        });
        tickets.min().map_or(0, |oldest| oldest.saturating_sub(1))
    }

    /// The best of all free addresses: of homes, of nothing, of ghosts that can move, and of ghosts that can be
    /// unmapped, which are those that were not used after a ticket.
    pub(super) fn find_hole(&mut self, params: &AllocParams, ticket: u64) -> Option<Hole> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        self.mark_free_pages(params);
        let size_bytes = params.size_bytes;
        let is_planned = self.stitch.is_planned();
        let traded_part = if is_planned { TRADED_PART_PLANNED } else { TRADED_PART };
        let good_pages = params.least_pages() + params.least_pages() / traded_part;
        let mut best: Option<Hole> = None;
        for &id in self.stitch.runs_of(list) {
            let (calls, run, start) = (self.calls_before_slots(id), self.stitch.run(id), None);
            let mut scan = HoleScan { id, run, size_bytes, good_pages, calls, start, best };
            let unused_since = self.stitch.progress.passed(run.stream).min(ticket);
            let mut at = Some(run.first_block());
            while let Some(block) = at.map(|id| &self.blocks[id]) {
                at = block.next;
                if !block.is_idle() {
                    scan.close(block.addr);
                } else if block.mapped {
                    scan.open(block.addr);
                } else {
                    scan.pass_unmapped(block.addr, block.end(), |slot| {
                        let at = SlotRef { run: id, slot };
                        run.is_unused(slot, unused_since) || self.may_move(at)
                    });
                }
            }
            scan.close(Addr(run.addr.0 + run.size_bytes()));
            best = scan.best;
        }
        best
    }

    /// Marks the pages that may change their homes for a request.
    fn mark_free_pages(&mut self, params: &AllocParams) {
        let mut marks = core::mem::take(&mut self.stitch.marks);
        marks.clear();
        for home in self.movable_homes(params) {
            marks.insert(self.stitch.page_at(home).expect("a home has a page"));
        }
        self.stitch.marks = marks;
    }

    /// Whether a slot has a ghost of a marked page.
    fn may_move(&self, at: SlotRef) -> bool {
        let slot = &self.stitch.run(at.run).slots[at.slot];
        slot.is_open && slot.page.is_some_and(|page| self.stitch.marks.contains(page))
    }

    /// The driver calls that make all slots before one homes, for each slot of a run and the frontier. Those that have
    /// a home count none.
    fn calls_before_slots(&self, id: RangeId) -> Vec<usize> {
        let run = self.stitch.run(id);
        let mut before = alloc::vec![0; run.slots.len() + 1];
        let mut at = Some(run.first_block());
        while let Some(block) = at.map(|id| &self.blocks[id]) {
            at = block.next;
            if block.mapped {
                continue;
            }
            for slot in run.whole_slots(block.addr, block.end().min(run.frontier())) {
                before[slot + 1] = match run.slots[slot].page {
                    None => 1,
                    Some(_) if self.may_move(SlotRef { run: id, slot }) => 0,
                    Some(_) => 2,
                };
            }
        }
        let mut calls = 0;
        for before in &mut before {
            calls += *before;
            *before = calls;
        }
        before
    }
}

/// The holes of one run, by ascending address.
struct HoleScan<'r> {
    id: RangeId,
    run: &'r Run,
    size_bytes: u64,
    good_pages: usize,
    calls: Vec<usize>,
    /// Where the free addresses begin that end at the slot in question.
    start: Option<Addr>,
    best: Option<Hole>,
}

impl HoleScan<'_> {
    /// Free addresses begin here, unless they began before.
    fn open(&mut self, addr: Addr) {
        self.start = self.start.or(Some(addr));
    }

    /// Addresses at which nothing has its home.
    fn pass_unmapped(&mut self, start: Addr, end: Addr, is_free: impl Fn(usize) -> bool) {
        let slots = self.run.whole_slots(start, end.min(self.run.frontier()));
        if self.run.slot_addr(slots.start) > start {
            // The rest of a page whose first bytes have their home here.
            self.close(start);
        }
        for slot in slots.clone() {
            let addr = self.run.slot_addr(slot);
            if is_free(slot) { self.open(addr) } else { self.close(addr) }
        }
        let last = self.run.slot_addr(slots.end);
        if last < end.min(self.run.frontier()) {
            // The beginning of a page whose last bytes have their home here.
            self.close(last);
        }
        if end > self.run.frontier() {
            self.open(start.max(self.run.frontier()));
        }
    }

    /// The free addresses end here. A hole starts at the frontier at the latest, so that it moves least.
    fn close(&mut self, end: Addr) {
        let Some(start) = self.start.take() else { return };
        let Some(last) = end.0.checked_sub(self.size_bytes).filter(|last| *last >= start.0) else {
            return;
        };
        let last = Addr(last).min(self.run.frontier().max(start));
        self.consider(start, (start, end));
        let slots = self.run.whole_slots(start, last);
        for slot in slots.start..=slots.end {
            let addr = self.run.slot_addr(slot);
            if start < addr && addr < last {
                self.consider(addr, (start, end));
            }
        }
        self.consider(last, (start, end));
    }

    fn consider(&mut self, addr: Addr, (start, end): (Addr, Addr)) {
        let touched = self.run.touched_slots(addr, Addr(addr.0 + self.size_bytes));
        let whole = self.run.whole_slots(start, end);
        let pages = touched.end.min(whole.end).saturating_sub(touched.start.max(whole.start));
        let calls = self.calls_before(touched.end) - self.calls_before(touched.start);
        let hole = Hole { window: Window { run: self.id, addr, pages }, calls };
        let cost = hole.cost(self.good_pages);
        if self.best.as_ref().is_none_or(|best| cost < best.cost(self.good_pages)) {
            self.best = Some(hole);
        }
    }

    fn calls_before(&self, slot: usize) -> usize {
        let frontier = self.calls.len() - 1;
        self.calls[slot.min(frontier)] + slot.saturating_sub(frontier)
    }
}
