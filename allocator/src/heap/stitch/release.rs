//! Returning free pages to the device, and ending mappings that are no longer needed.

use alloc::vec::Vec;

use crate::heap::Heap;
use crate::ids::{PoolIndex, RangeId};
use crate::stitch::{PAGE_BYTES, PageId, Slot, SlotRef};
use device::{Device, Result};
use events::{Addr, Event, PageNumber, Recorder};

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Returns the wholly free pages to the device, those that became free longest ago first and so many at most, after
    /// all work of the streams that used them.
    pub(in crate::heap) fn release_free_pages(&mut self, most: usize) -> Result<()> {
        if !self.stitch.is_on {
            return Ok(());
        }
        self.return_spare_pages();
        self.drop_awaited_events();
        self.reunite_free_pages();
        let mut free = self.free_slots();
        if free.len() > most {
            free.sort_unstable();
            free.truncate(most);
        } else {
            // Slack is among the free pages, and ends with them.
            self.stitch.slack_pages = 0;
        }
        if !free.is_empty() {
            self.await_run_streams()?;
        }
        let mut slots: Vec<SlotRef> = free.into_iter().map(|(_, slot)| slot).collect();
        slots.sort_unstable();
        for span in slots.chunk_by(SlotRef::is_before) {
            self.stats.rare.num_device_free += 1;
            self.end_homes(span[0], span.len());
            for at in span {
                let page = self.stitch.run(at.run).slots[at.slot].page.expect("a home has a page");
                self.stitch.pages[page].home = None;
                self.stitch.pages.spare.push(page);
            }
        }
        self.return_spare_pages();
        self.end_empty_runs()
    }

    /// The slots whose pages are wholly free, with when they became so.
    fn free_slots(&self) -> Vec<(u64, SlotRef)> {
        let mut free = Vec::new();
        let pools = [true, false].map(|is_small| PoolIndex::new(None, is_small));
        for list in pools.into_iter().flat_map(|pool| self.blocks.lists.of(pool)) {
            let homes = self.free_homes(list, list.stream);
            free.extend(homes.map(|at| (self.stitch.run(at.run).ticket(at.slot), at)));
        }
        free
    }

    /// Returns the pages without a home, as far as the device takes them back.
    pub(super) fn return_spare_pages(&mut self) {
        let spare = core::mem::take(&mut self.stitch.pages.spare);
        for page in spare {
            if let Err(error) = self.return_page(page) {
                tracing::error!(
                    "a page could not be given back, and is kept for later use: {error}"
                );
                self.stitch.pages.spare.push(page);
            }
        }
    }

    fn return_page(&mut self, page: PageId) -> Result<()> {
        while let Some(slot) = self.stitch.pages[page].slots.last().copied() {
            self.unmap_slot(slot)?;
        }
        if let Some(shared) = self.stitch.pages[page].shared.take() {
            self.device.close(shared);
        }
        self.device.release(self.stitch.pages[page].handle)?;
        self.stitch.pages.remove(page);
        Ok(())
    }

    /// Ends the mapping at a slot, if there is one.
    pub(super) fn unmap_slot(&mut self, at: SlotRef) -> Result<()> {
        if let Some(page) = self.close_slot(at)? {
            let addr = self.stitch.run(at.run).slot_addr(at.slot);
            self.record(Event::PageUnmap { addr, page: page.number() });
        }
        Ok(())
    }

    /// The same without a record: the page that was mapped there.
    pub(super) fn close_slot(&mut self, at: SlotRef) -> Result<Option<PageId>> {
        let run = self.stitch.run(at.run);
        let Some(page) = run.slots[at.slot].page else { return Ok(None) };
        self.device.unmap(run.slot_addr(at.slot), PAGE_BYTES)?;
        self.stitch.run_mut(at.run).slots[at.slot] = Slot::default();
        self.stitch.pages.remove_mapping(page, at);
        Ok(Some(page))
    }

    /// Where pages are mapped, ascending by address.
    pub(in crate::heap) fn mapped_pages(&self) -> Vec<(Addr, PageNumber)> {
        let mut pages = Vec::with_capacity(self.stitch.pages.mapped_slots);
        for (_, run) in self.stitch.runs() {
            let mapped =
                run.slots.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.page?)));
            pages.extend(mapped.map(|(at, page)| (run.slot_addr(at), page.number())));
        }
        pages.sort_unstable(); // Runs are in no order.
        pages
    }

    /// Returns the addresses of runs at which nothing is mapped.
    pub(in crate::heap) fn end_empty_runs(&mut self) -> Result<()> {
        let is_empty = |run: &crate::stitch::Run| run.slots.iter().all(|slot| slot.page.is_none());
        let empty: Vec<RangeId> =
            self.stitch.runs().filter(|(_, run)| is_empty(run)).map(|(id, _)| id).collect();
        for id in empty {
            let run = self.stitch.run_mut(id);
            run.retract();
            let (addr, size_bytes, list) = (run.addr, run.size_bytes(), run.list);
            let block = run.first_block();
            self.device.unreserve(addr, size_bytes)?;
            self.stitch.remove_run(id);
            self.ranks.end(self.blocks[block].segment_rank);
            self.blocks.lists.end_segment(list);
            self.blocks.arena.remove(block);
        }
        Ok(())
    }
}
