//! A request that no free bytes can serve: pages at the end of a run.

use alloc::vec::Vec;

use events::{Addr, Event, PoolId};

use crate::arena::{Block, BlockId};
use crate::cast;
use crate::expandable::Range;
use crate::heap::hot_path::AllocParams;
use crate::heap::{AllocError, Heap};
use crate::ids::{PoolIndex, RangeId};
use crate::stitch::{PAGE_BYTES, PageId, Run, SlotRef};
use device::{Device, DeviceError, Result};
use events::Recorder;
use settings::StreamSharing;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves a request by growing, or `None` when memory is out. Each step is tried only if the one before failed: a
    /// run grows by free pages and new ones; a pool that lends; the same after all streams were waited for and released
    /// private pools returned their memory.
    pub(in crate::heap) fn grow_stitched(
        &mut self,
        params: &mut AllocParams,
    ) -> Result<Option<Addr>, AllocError> {
        if let Some(id) = self.extend_run(params)? {
            return Ok(Some(self.hand_over_stitched(id, params)));
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
        self.await_streams(params.stream)?;
        self.release_freeable_pools(PoolId::DEFAULT, None)?;
        self.return_spare_pages();
        if let Some(addr) = self.place_stitched(params) {
            return Ok(Some(addr));
        }
        let grown = self.extend_run(params)?;
        if grown.is_none() {
            self.record(Event::DriverRefused { size_bytes: params.size_bytes });
        }
        Ok(grown.map(|id| self.hand_over_stitched(id, params)))
    }

    /// Grows a run until the request fits behind its last free bytes, by the pages that became free longest ago and, for
    /// the shortfall, new ones. `None` when the device or the fraction refuses.
    fn extend_run(&mut self, params: &AllocParams) -> Result<Option<BlockId>, AllocError> {
        let Some((id, tail)) = self.growing_end(params)? else { return Ok(None) };
        let run = self.stitch.run(id);
        let frontier = run.frontier();
        let start = tail.map_or(frontier, |tail| self.blocks[tail].addr);
        let missing_bytes = params.size_bytes - (frontier.0 - start.0);
        let count = cast::index(missing_bytes.div_ceil(PAGE_BYTES));
        let tail_slots = run.whole_slots(start, frontier);

        let mut pages = self.oldest_free_pages(params, count, (id, tail_slots.clone()));
        if pages.len() < count {
            self.poll_streams(params.stream)?;
            pages = self.oldest_free_pages(params, count, (id, tail_slots));
        }
        let reused = pages.len();
        let new_bytes = (count - reused) as u64 * PAGE_BYTES;
        if new_bytes > 0 {
            let is_over = |allowed: u64| self.reserved_bytes + new_bytes > allowed;
            if self.allowed_bytes.is_some_and(is_over) {
                return Ok(None);
            }
            self.reject_beyond_settings(params)?;
        }
        let mapped = self.relaxed(|heap| {
            heap.create_pages(count - reused, &mut pages)?;
            heap.keep_address_budget(count)?;
            let mapped = heap.map_pages(id, &pages);
            if mapped.is_err() {
                heap.stitch.pages.spare.extend(&pages[reused..]);
                heap.return_spare_pages();
            }
            mapped
        });
        match mapped {
            Ok(()) => {}
            Err(DeviceError::OutOfMemory { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        self.stats.rare.num_device_alloc += i64::from(new_bytes > 0);

        let first = self.stitch.run(id).slot_of(frontier);
        let slots = (first..).map(|slot| SlotRef { run: id, slot });
        let moves: Vec<(PageId, SlotRef)> = pages.into_iter().zip(slots).collect();
        self.move_homes(&moves);
        let block = self.stitch.run(id).block_at(&self.blocks.arena, start);
        Ok(Some(self.take_part(block, start, params, None)))
    }

    /// The run that grows for a request, with the free block at its end; a new run where it has no addresses left.
    fn growing_end(&mut self, params: &AllocParams) -> Result<Option<(RangeId, Option<BlockId>)>> {
        let list = self.blocks.lists.find(params.pool, params.stream);
        if let Some(id) = list.and_then(|list| self.stitch.growing_run(list)) {
            let run = self.stitch.run(id);
            let room_bytes = (run.slot_count - run.slots.len()) as u64 * PAGE_BYTES;
            let last = Addr(run.frontier().0.saturating_sub(1));
            let tail = (!run.slots.is_empty()).then(|| run.block_at(&self.blocks.arena, last));
            let tail =
                tail.filter(|tail| self.blocks[*tail].is_idle() && self.blocks[*tail].mapped);
            let tail_bytes = tail.map_or(0, |tail| self.blocks[tail].size_bytes);
            if tail_bytes + room_bytes >= params.size_bytes {
                return Ok(Some((id, tail)));
            }
        }
        Ok(self.open_run(params)?.map(|id| (id, None)))
    }

    /// Reserves addresses for one more run; `None` where there are none, or the request exceeds what a run can hold.
    fn open_run(&mut self, params: &AllocParams) -> Result<Option<RangeId>> {
        let size_bytes = Range::reach_bytes(PAGE_BYTES, self.device_total_bytes);
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
        self.blocks.put_unmapped(id);
        Ok(Some(run))
    }

    /// The wholly free pages that a request may use, of its own stream first and the longest free first; none of the
    /// slots that it uses where they are.
    fn oldest_free_pages(
        &self,
        params: &AllocParams,
        count: usize,
        (kept_run, kept): (RangeId, core::ops::Range<usize>),
    ) -> Vec<PageId> {
        let mut found: Vec<(bool, u64, SlotRef)> = Vec::new();
        let pools = [true, false].map(|is_small| PoolIndex::new(None, is_small));
        for list in pools.into_iter().flat_map(|pool| self.blocks.lists.of(pool)) {
            let is_other = list.stream != params.stream;
            if is_other && self.stitch.config.sharing == StreamSharing::Never {
                continue;
            }
            let passed = if is_other { self.stitch.passed(list.stream) } else { u64::MAX };
            let large = list.iter().rev().map(|id| &self.blocks[id]);
            for block in large.take_while(|block| block.size_bytes >= PAGE_BYTES) {
                let id = block.range.expect("a block of stitch has a run");
                let run = self.stitch.run(id);
                for slot in run.whole_slots(block.addr, block.end()) {
                    let ticket = run.slots[slot].ticket;
                    if ticket <= passed && !(id == kept_run && kept.contains(&slot)) {
                        found.push((is_other, ticket, SlotRef { run: id, slot }));
                    }
                }
            }
        }
        if found.len() > count && count > 0 {
            found.select_nth_unstable(count - 1);
        }
        found.truncate(count);
        // Neighbours move together.
        found.sort_unstable_by_key(|(.., slot)| *slot);
        let page = |at: SlotRef| self.stitch.run(at.run).slots[at.slot].page;
        found.into_iter().map(|(.., at)| page(at).expect("a free page is mapped")).collect()
    }

    /// New pages, those first that an earlier failure left behind. All or none.
    fn create_pages(&mut self, count: usize, pages: &mut Vec<PageId>) -> Result<()> {
        let reused = pages.len();
        let share = self.page_sharing();
        while pages.len() < reused + count {
            if let Some(spare) = self.stitch.pages.spare.pop() {
                pages.push(spare);
                continue;
            }
            match self.device.create(PAGE_BYTES, share) {
                Ok(handle) => pages.push(self.stitch.pages.insert(handle)),
                Err(error) => {
                    self.stitch.pages.spare.extend(pages.drain(reused..));
                    self.return_spare_pages();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Maps pages at the frontier of a run, which moves. All or none.
    fn map_pages(&mut self, id: RangeId, pages: &[PageId]) -> Result<()> {
        let run = self.stitch.run_mut(id);
        let (first, frontier) = (run.slots.len(), run.frontier());
        run.extend(pages.len());
        let answer = self.open_slots(id, first, pages);
        if let Err(error) = &answer {
            for slot in first..first + pages.len() {
                if let Err(undone) = self.unmap_slot(SlotRef { run: id, slot }) {
                    tracing::error!("a page at {frontier} stays mapped after {error}: {undone}");
                }
            }
            self.stitch.run_mut(id).retract();
        }
        answer
    }

    fn open_slots(&mut self, id: RangeId, first: usize, pages: &[PageId]) -> Result<()> {
        let run = self.stitch.run(id);
        let addr = run.slot_addr(first);
        for (at, page) in pages.iter().enumerate() {
            let slot = SlotRef { run: id, slot: first + at };
            let handle = self.stitch.pages[*page].handle;
            self.device.map(self.stitch.run(id).slot_addr(slot.slot), PAGE_BYTES, handle)?;
            self.stitch.run_mut(id).slots[slot.slot].page = Some(*page);
            self.stitch.pages.add_mapping(*page, slot);
        }
        let size_bytes = pages.len() as u64 * PAGE_BYTES;
        let owner = self.device.id();
        for &reader in core::iter::once(&owner).chain(&self.peers) {
            self.device.set_access(addr, size_bytes, reader)?;
        }
        for slot in &mut self.stitch.run_mut(id).slots[first..first + pages.len()] {
            slot.is_open = true;
        }
        Ok(())
    }
}
