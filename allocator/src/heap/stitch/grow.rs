//! A request that no free bytes can serve: pages behind the frontier of a run, or in a hole.

use alloc::vec::Vec;

use events::{Addr, Event, PoolId, Stream};

use super::holes::ANY_GHOST;
use super::windows::Window;
use crate::arena::{Block, BlockId};
use crate::cast;
use crate::expandable::Range;
use crate::heap::hot_path::AllocParams;
use crate::heap::{AllocError, Heap};
use crate::ids::{FreeListId, PoolIndex, RangeId};
use crate::stitch::{EdgeMove, Moves, PAGE_BYTES, PageId, Run, SlotRef};
use device::{Device, DeviceError, Result};
use events::Recorder;
use settings::{SegmentReserve, StreamSharing};

/// Occurrences of a request after which only a hole with fewer driver calls serves it, and it leaves small runs their
/// free pages.
pub(super) const SETTLED_AFTER: usize = 3;

/// A place for a request, and what it needs.
#[derive(Clone)]
pub(super) struct Plan {
    run: RangeId,
    addr: Addr,
    /// Ghosts that become homes.
    moves: Moves,
    /// Ends of pages in use that are mapped once more, and have their home there then.
    edges: Vec<EdgeMove>,
    /// Slots where a page is to be mapped.
    missing: Vec<SlotRef>,
    /// Free pages for these slots, in their order.
    pages: Vec<PageId>,
    /// Free pages that were left to other requests.
    spared: usize,
}

impl Plan {
    /// A place behind the frontier of a run, where all pages are to be mapped: at `missing` these free ones and new
    /// ones.
    pub(super) fn at_edges(
        (run, addr): (RangeId, Addr),
        edges: Vec<EdgeMove>,
        missing: Vec<SlotRef>,
        pages: Vec<PageId>,
    ) -> Self {
        Self { run, addr, moves: Moves::default(), edges, missing, pages, spared: 0 }
    }

    pub(super) const fn run(&self) -> RangeId {
        self.run
    }

    /// Pages that have to be created.
    pub(super) fn new_pages(&self) -> usize {
        self.missing.len() - self.pages.len()
    }

    pub(super) fn new_bytes(&self) -> u64 {
        self.new_pages() as u64 * PAGE_BYTES
    }

    /// Slots where a page is to be mapped.
    pub(super) fn missing(&self) -> &[SlotRef] {
        &self.missing
    }

    /// Pages that have to be mapped.
    pub(super) const fn mapped_pages(&self) -> usize {
        self.missing.len()
    }

    /// Takes new pages in place of free ones, so many at most. Returns how many.
    pub(super) fn renew(&mut self, most: usize) -> usize {
        let renewed = self.pages.len().min(most);
        self.pages.truncate(self.pages.len() - renewed);
        renewed
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves a request by growing, or `None` when memory is out. Each step is tried only if the one before failed: a
    /// run grows by free pages and new ones; a pool that lends; the same after all streams were waited for and released
    /// private pools returned their memory.
    pub(in crate::heap) fn grow_stitched(
        &mut self,
        params: &mut AllocParams,
    ) -> Result<Option<Addr>, AllocError> {
        if let Some(id) = self.extend_run(params)? {
            return Ok(Some(self.hand_over_placed(id, params)));
        }
        self.record(Event::DriverRefused { size_bytes: params.size_bytes });
        if let Some(borrowed) = self.borrow_from_lending_pool(params) {
            return Ok(Some(self.serve(borrowed, params, None)));
        }
        if params.in_capture {
            return Ok(None);
        }
        self.stats.rare.num_alloc_retries += 1;
        self.synchronize_and_free_events(None)?;
        self.await_sharing_streams()?;
        self.release_freeable_pools(PoolId::DEFAULT, None)?;
        self.return_spare_pages();
        if let Some(addr) = self.place_stitched(params) {
            return Ok(Some(addr));
        }
        self.stitch.supply.is_short = true;
        let grown = self.extend_run(params);
        self.stitch.supply.is_short = false;
        let grown = grown?;
        if grown.is_none() {
            self.end_empty_runs()?;
            self.record(Event::DriverRefused { size_bytes: params.size_bytes });
        }
        Ok(grown.map(|id| self.hand_over_placed(id, params)))
    }

    /// Serves a request by mapping pages: free ones behind the frontier of a run, else where it needs the fewest, with
    /// new ones for the shortfall. `None` when the device or the fraction refuses.
    pub(super) fn extend_run_once(
        &mut self,
        params: &AllocParams,
    ) -> Result<Option<BlockId>, AllocError> {
        self.poll_streams(params.stream)?;
        self.reunite_free_pages();
        self.keep_address_budget(params)?;
        if let Some(window) = self.planned_window(params) {
            let plan = self.plan(params, window);
            if let Some(id) = self.carry_out(plan, params)? {
                return Ok(Some(id));
            }
        }
        let Some(behind) = self.plan_behind_frontier(params)? else { return Ok(None) };
        if let Some(id) = self.grow_by_slack(params)? {
            return Ok(Some(id));
        }
        if let Some(plan) = self.plan_at_edges(params, &behind)
            && let Some(id) = self.carry_out(plan, params)?
        {
            return Ok(Some(id));
        }
        // A hole costs ghosts that repeated requests may need.
        let least = if behind.new_pages() == 0 { 1 } else { SETTLED_AFTER };
        if self.occurrences(params) >= least {
            if let Some(id) = self.fill_cheaper_hole(params, &behind)? {
                return Ok(Some(id));
            }
            if let Some(id) = self.carry_out(behind, params)? {
                return Ok(Some(id));
            }
        }
        let hole = self.find_hole(params, ANY_GHOST).expect("the frontier has room");
        let plan = self.plan(params, hole.window);
        self.carry_out(plan, params)
    }

    fn plan_behind_frontier(&mut self, params: &AllocParams) -> Result<Option<Plan>> {
        let mut window = self.find_frontier_window(params);
        if window.is_none() {
            self.open_run(params)?;
            window = self.find_frontier_window(params);
        }
        Ok(window.map(|window| self.plan(params, window)))
    }

    /// How often the placement memory knows this request to have occurred before.
    pub(super) fn occurrences(&mut self, params: &AllocParams) -> usize {
        let is_known = self.has_placements(params);
        if is_known { self.stitch.follower(params.stream).occurrences() } else { 0 }
    }

    /// Whether the placement memory has requests like this one.
    pub(super) const fn has_placements(&self, params: &AllocParams) -> bool {
        !params.pool.is_small() && self.stitch.config.has_placement_memory
    }

    /// The pages that a request at this place needs.
    pub(super) fn plan(&mut self, params: &AllocParams, Window { run, addr, .. }: Window) -> Plan {
        let end = Addr(addr.0 + params.size_bytes);
        let touched = self.stitch.run(run).touched_slots(addr, end);
        let (mut moves, mut missing) = (Moves::default(), Vec::new());
        self.stitch.run_mut(run).extend_to(touched.end);
        let is_free = self.ghosts_between(params, run, (addr, end), &mut moves, Some(&mut missing));
        self.stitch.run_mut(run).retract();
        assert!(is_free, "a window is free");
        self.supply(params, (run, addr), moves, missing)
    }

    /// The same place, where pages of small runs that have ghosts there are replaced.
    pub(super) fn plan_without_small_pages(&self, params: &AllocParams, plan: &Plan) -> Plan {
        let Plan { run, addr, mut moves, mut missing, .. } = plan.clone();
        moves.pages.retain(|(page, at)| {
            let is_small = self.has_small_home(*page);
            if is_small {
                missing.push(*at);
            }
            !is_small
        });
        missing.sort_unstable();
        self.supply(params, (run, addr), moves, missing)
    }

    /// Whether a page has its home in a run of small blocks.
    fn has_small_home(&self, page: PageId) -> bool {
        let home = self.stitch.pages[page].home;
        home.is_some_and(|home| self.blocks.lists[self.stitch.run(home.run).list].pool.is_small())
    }

    /// Plans free pages for the slots of a place where a page is missing; `moves` are marked.
    fn supply(
        &self,
        params: &AllocParams,
        (run, addr): (RangeId, Addr),
        moves: Moves,
        missing: Vec<SlotRef>,
    ) -> Plan {
        let end = Addr(addr.0 + params.size_bytes);
        let touched = self.stitch.run(run).touched_slots(addr, end);
        let mut pages = self.oldest_free_pages(params, missing.len(), (run, touched));
        let spared = self.spare_expected(&mut pages);
        Plan { run, addr, moves, edges: Vec::new(), missing, pages, spared }
    }

    pub(super) fn carry_out(
        &mut self,
        plan: Plan,
        params: &AllocParams,
    ) -> Result<Option<BlockId>, AllocError> {
        let new_bytes = plan.new_bytes();
        let Plan { run, addr, mut moves, edges, missing, mut pages, spared } = plan;
        if new_bytes > 0 {
            let is_over = |allowed: u64| self.reserved_bytes + new_bytes > allowed;
            if self.allowed_bytes.is_some_and(is_over) {
                return Ok(None);
            }
            self.reject_beyond_settings(params, new_bytes)?;
        }
        let end = Addr(addr.0 + params.size_bytes);
        let frontier = self.stitch.run(run).touched_slots(addr, end).end;
        self.stitch.run_mut(run).extend_to(frontier);
        let filled = self.relaxed(|heap| heap.fill(&mut pages, &missing, &edges));
        self.stitch.run_mut(run).retract();
        if !filled? {
            return Ok(None);
        }
        self.stats.rare.num_device_alloc += i64::from(new_bytes > 0);
        self.stitch.slack_pages += spared;
        moves.pages.extend(pages.into_iter().zip(missing));
        moves.edges.extend(edges);
        self.carry_out_moves(&moves);
        let block = self.stitch.run(run).block_at(&self.blocks.arena, addr);
        Ok(Some(self.take_part(block, addr, params, None)))
    }

    /// Maps pages at slots, with new ones for those that are missing, and the pages of edges. False when the device has
    /// no memory.
    fn fill(
        &mut self,
        pages: &mut Vec<PageId>,
        slots: &[SlotRef],
        edges: &[EdgeMove],
    ) -> Result<bool> {
        let reused = pages.len();
        let created = self.create_pages(slots.len() - reused, pages);
        let mapped = created.and_then(|()| {
            let whole = slots.iter().copied().zip(pages.iter().copied());
            let mut all: Vec<_> =
                whole.chain(edges.iter().map(|edge| (edge.to, edge.page))).collect();
            all.sort_unstable();
            let (slots, pages): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            self.map_pages(&slots, &pages)
        });
        match mapped {
            Ok(()) => return Ok(true),
            Err(DeviceError::OutOfMemory { .. }) => {}
            Err(error) => {
                self.return_new_pages(pages, reused);
                return Err(error);
            }
        }
        self.return_new_pages(pages, reused);
        Ok(false)
    }

    /// Gives the new ones of some pages back.
    fn return_new_pages(&mut self, pages: &mut Vec<PageId>, reused: usize) {
        self.stitch.pages.spare.extend(pages.drain(reused..));
        self.return_spare_pages();
    }

    /// Reserves addresses for one more run; `None` where there are none, or the request exceeds what a run can hold.
    pub(super) fn open_run(&mut self, params: &AllocParams) -> Result<Option<RangeId>> {
        let is_first = self.stitch.progress.of(params.stream).is_none();
        let run = self.reserve_run(params)?;
        // A tape has an answer for each stream from its first run on, also where the device is late.
        if is_first && run.is_some() {
            self.note_passed(params.stream, self.stitch.ticket);
        }
        Ok(run)
    }

    /// The same without a record.
    pub(super) fn reserve_run(&mut self, params: &AllocParams) -> Result<Option<RangeId>> {
        let size_bytes =
            Range::reach_bytes(PAGE_BYTES, SegmentReserve::Default.bytes(self.device_total_bytes));
        if params.size_bytes > size_bytes {
            return Ok(None);
        }
        let addr = match self.relaxed(|heap| heap.device.reserve(size_bytes)) {
            Ok(addr) => addr,
            Err(DeviceError::OutOfMemory { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let list = self.blocks.lists.begin_segment(params.pool, params.stream);
        let segment_rank = self.next_segment_rank(addr);
        let block = Block { segment_rank, mapped: false, ..Block::new(addr, size_bytes, list) };
        let id = self.blocks.arena.insert(block);
        let slot_count = cast::index(size_bytes / PAGE_BYTES);
        let run = self.stitch.insert_run(Run::new(addr, slot_count, (list, params.stream), id));
        self.blocks[id].range = Some(run);
        Ok(Some(run))
    }

    /// The wholly free pages that a request may use, of its own stream first and the longest free first; not those that
    /// are marked, and not the slots that it uses where they are.
    pub(super) fn oldest_free_pages(
        &self,
        params: &AllocParams,
        count: usize,
        (kept_run, kept): (RangeId, core::ops::Range<usize>),
    ) -> Vec<PageId> {
        let mut found: Vec<(bool, bool, bool, u64, SlotRef)> = Vec::new();
        let lists = self.lists_for(params);
        for list in lists.into_iter().map(|list| &self.blocks.lists[list]) {
            if self.keeps_pages(list, params) {
                continue;
            }
            let is_foreign = list.pool.is_small() && !params.pool.is_small();
            let is_other = list.stream != params.stream;
            for slot in self.free_homes(list, params.stream) {
                let page = self.stitch.page_at(slot).expect("a home has a page");
                let is_kept = slot.run == kept_run && kept.contains(&slot.slot);
                if !is_kept && !self.stitch.marks.contains(page) {
                    let is_expected = self.stitch.expected.contains(page);
                    let ticket = self.stitch.run(slot.run).ticket(slot.slot);
                    found.push((is_other, is_expected, is_foreign, ticket, slot));
                }
            }
        }
        if found.len() > count && count > 0 {
            found.select_nth_unstable(count - 1);
        }
        found.truncate(count);
        // Neighbours move together.
        found.sort_unstable_by_key(|(.., slot)| *slot);
        found.into_iter().filter_map(|(.., at)| self.stitch.page_at(at)).collect()
    }

    /// The free lists whose pages a request may use: those of its stream, and of others as far as streams share.
    pub(super) fn lists_for(&self, params: &AllocParams) -> Vec<FreeListId> {
        let shares = self.stitch.config.sharing != StreamSharing::Never;
        let progress = &self.stitch.progress;
        let streams: Vec<Stream> = match (shares, self.stitch.supply.is_short) {
            (false, _) => alloc::vec![params.stream],
            (true, false) => progress.seen_by(params.stream).collect(),
            (true, true) => progress.all(),
        };
        let find = |stream: Stream, is_small: bool| {
            self.blocks.lists.find(PoolIndex::new(None, is_small), stream)
        };
        let both = |stream: Stream| [find(stream, true), find(stream, false)];
        streams.into_iter().flat_map(both).flatten().collect()
    }

    /// New pages, those first that an earlier failure left behind.
    pub(super) fn create_pages(&mut self, count: usize, pages: &mut Vec<PageId>) -> Result<()> {
        let share = self.page_sharing();
        for _ in 0..count {
            let page = if let Some(spare) = self.stitch.pages.spare.pop() {
                spare
            } else {
                let handle = self.device.create(PAGE_BYTES, share)?;
                self.stitch.pages.insert(handle)
            };
            pages.push(page);
        }
        Ok(())
    }

    /// Maps pages at slots, in place of ghosts that are not in use any more. All or none; ghosts that made room do not
    /// return.
    fn map_pages(&mut self, slots: &[SlotRef], pages: &[PageId]) -> Result<()> {
        self.await_last_use(slots)?;
        for slot in slots {
            self.unmap_slot(*slot)?;
        }
        let answer = self.open_slots(slots, pages);
        if let Err(error) = &answer {
            for slot in slots {
                if let Err(undone) = self.close_slot(*slot) {
                    tracing::error!("a page stays mapped after {error}: {undone}");
                }
            }
        }
        self.record_mappings(slots);
        answer
    }

    /// Records the mappings at slots that were empty: after a failure those that could not be undone.
    fn record_mappings(&mut self, slots: &[SlotRef]) {
        for at in slots {
            if let Some(page) = self.stitch.page_at(*at) {
                let addr = self.stitch.run(at.run).slot_addr(at.slot);
                self.record(Event::PageMap { addr, page: page.number() });
            }
        }
    }

    /// Maps pages at empty slots. A failure leaves the mappings made before it. Records nothing.
    pub(super) fn open_slots(&mut self, slots: &[SlotRef], pages: &[PageId]) -> Result<()> {
        for (at, page) in slots.iter().zip(pages) {
            let handle = self.stitch.pages[*page].handle;
            self.device.map(self.stitch.run(at.run).slot_addr(at.slot), PAGE_BYTES, handle)?;
            self.stitch.run_mut(at.run).slots[at.slot].page = Some(*page);
            self.stitch.pages.add_mapping(*page, *at);
        }
        let owner = self.device.id();
        for span in slots.chunk_by(SlotRef::is_before) {
            let run = self.stitch.run(span[0].run);
            let (addr, size_bytes) = (run.slot_addr(span[0].slot), span.len() as u64 * PAGE_BYTES);
            for &reader in core::iter::once(&owner).chain(&self.peers) {
                self.device.set_access(addr, size_bytes, reader)?;
            }
        }
        for at in slots {
            self.stitch.run_mut(at.run).slots[at.slot].is_open = true;
        }
        Ok(())
    }
}
