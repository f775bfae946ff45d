//! The runs of a recorded state: the homes of its pages, the blocks there, and the ghosts. The placements of earlier
//! steps are not part of a state.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use events::{Addr, BaseState, BlockState, BlockStatus, PageNumber, Recorder, SegmentState};
use rustc_hash::FxHashMap;

use crate::heap::hot_path::AllocParams;
use crate::heap::restore::Restoring;
use crate::heap::runs::BaseRange;
use crate::heap::{AllocError, Heap};
use crate::ids::RangeId;
use crate::stitch::{EdgeMove, NO_REQUEST, PAGE_BYTES, PageId, SlotRef};
use device::{Device, DeviceCall, DeviceError};

/// The recorded pages, and the pages restored for them.
#[derive(Debug)]
pub(in crate::heap) struct RestoredPages {
    numbers: FxHashMap<Addr, PageNumber>,
    pages: FxHashMap<PageNumber, PageId>,
    /// Those of which one part is restored, and the other is not.
    parts: FxHashMap<PageNumber, PageId>,
    /// The runs with their recorded addresses, ascending.
    runs: BTreeMap<Addr, RangeId>,
}

impl RestoredPages {
    pub(in crate::heap) fn new(base: &BaseState) -> Self {
        let numbers = base.pages.iter().copied().collect();
        let (pages, parts) = (FxHashMap::default(), FxHashMap::default());
        Self { numbers, pages, parts, runs: BTreeMap::new() }
    }

    /// The last run that starts at a recorded address or before it, with its recorded start.
    fn run_before(&self, addr: Addr) -> Option<(Addr, RangeId)> {
        self.runs.range(..=addr).next_back().map(|(start, run)| (*start, *run))
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Takes over the mapped addresses of one recorded run. Records nothing.
    ///
    /// # Errors
    /// When the device fails or has too little memory, or the addresses are not those of pages and their parts.
    pub(in crate::heap) fn restore_run(
        &mut self,
        recorded: &BaseRange<'_>,
        pages: &mut RestoredPages,
        restoring: &mut Restoring,
    ) -> Result<(), AllocError> {
        let params = AllocParams {
            requested_bytes: 0,
            size_bytes: 0,
            stream: recorded.stream,
            pool: self.pool_for(recorded.pool, recorded.is_large),
            expandable: false,
            stitched: true,
            in_capture: false,
        };
        let Some(run) = self.reserve_run(&params)? else { return Err(no_room(PAGE_BYTES)) };
        pages.runs.insert(recorded.addr, run);
        let base = self.stitch.run(run).addr;
        let moved = |addr: Addr| Addr(base.0 + (addr.0 - recorded.addr.0));
        for part in &recorded.runs {
            self.restore_homes(run, moved(part.addr), part, pages)?;
            for state in part.blocks.iter().filter(|state| state.status != BlockStatus::Inactive) {
                self.restore_block(run, moved(state.addr), state, &params, restoring)?;
            }
        }
        Ok(())
    }

    /// Makes recorded addresses the homes of new pages, or of the other part of a page.
    fn restore_homes(
        &mut self,
        run: RangeId,
        addr: Addr,
        part: &SegmentState,
        pages: &mut RestoredPages,
    ) -> Result<(), AllocError> {
        let of = self.stitch.run(run);
        let end = Addr(addr.0.saturating_add(part.size_bytes));
        let last = of.addr.0 + of.size_bytes();
        if part.size_bytes == 0 || end.0 > last || addr < of.frontier() {
            return Err(no_room(part.size_bytes));
        }
        let mut new: Vec<(SlotRef, Option<PageNumber>, Option<PageNumber>)> = Vec::new();
        let mut known = Vec::new();
        for slot in of.touched_slots(addr, end) {
            let recorded = of.slot_addr(slot).0.wrapping_sub(addr.0).wrapping_add(part.addr.0);
            let number = pages.numbers.get(&Addr(recorded)).copied();
            let start = of.slot_addr(slot).0;
            let bytes = addr.0.saturating_sub(start)..(end.0 - start).min(PAGE_BYTES);
            let at = SlotRef { run, slot };
            let part = number.filter(|_| bytes != (0..PAGE_BYTES));
            // The other part may be in the same run.
            let is_new = |number: &PageNumber| {
                let is_here = new.iter().any(|(.., part)| *part == Some(*number));
                !is_here && !pages.parts.contains_key(number)
            };
            match part.filter(|number| !is_new(number)) {
                Some(number) => known.push((number, at, bytes)),
                None => new.push((at, number, part)),
            }
        }
        let frontier = of.touched_slots(addr, end).end;
        self.stitch.run_mut(run).extend_to(frontier);
        let slots: Vec<_> = new.iter().map(|(at, ..)| *at).collect();
        let homes = self.open_new_pages(&slots)?;
        let parts = new.iter().zip(&homes);
        pages.parts.extend(parts.filter_map(|((.., part), page)| Some(((*part)?, *page))));
        let known = known.into_iter().map(|(number, to, bytes)| {
            let page = pages.parts.remove(&number).expect("a page has two parts");
            EdgeMove { page, to, bytes }
        });
        let known: Vec<_> = known.collect();
        let (parts, parted): (Vec<_>, Vec<_>) =
            known.iter().map(|part| (part.to, part.page)).unzip();
        if let Err(error) = self.open_slots(&parts, &parted) {
            self.stitch.pages.spare.extend(homes);
            self.return_spare_pages();
            return Err(error.into());
        }
        for ((at, number, _), page) in new.into_iter().zip(homes) {
            self.stitch.pages[page].home = Some(at);
            pages.pages.extend(number.map(|number| (number, page)));
        }
        for EdgeMove { page, to, bytes } in known {
            self.stitch.pages.part(page, to, &bytes);
        }
        self.enter_home_bytes(run, (addr, end));
        self.count_run(part);
        Ok(())
    }

    /// New pages at slots where nothing is mapped.
    fn open_new_pages(&mut self, slots: &[SlotRef]) -> Result<Vec<PageId>, AllocError> {
        let mut pages = Vec::new();
        let created = self.create_pages(slots.len(), &mut pages);
        if let Err(error) = created.and_then(|()| self.open_slots(slots, &pages)) {
            self.stitch.pages.spare.append(&mut pages);
            self.return_spare_pages();
            return Err(error.into());
        }
        Ok(pages)
    }

    /// Maps the ghosts of the restored pages. Addresses in no restored run are left out.
    ///
    /// # Errors
    /// When the device fails.
    pub(in crate::heap) fn restore_ghosts(
        &mut self,
        base: &BaseState,
        restored: &RestoredPages,
    ) -> Result<(), AllocError> {
        let (mut slots, mut pages) = (Vec::new(), Vec::new());
        for (addr, number) in &base.pages {
            let Some((start, id)) = restored.run_before(*addr) else { continue };
            let (offset, run) = (addr.0 - start.0, self.stitch.run(id));
            let Some(page) = restored.pages.get(number) else { continue };
            if !offset.is_multiple_of(PAGE_BYTES) || offset >= run.size_bytes() {
                continue;
            }
            let slot = run.slot_of(Addr(run.addr.0 + offset));
            if run.slots.get(slot).is_none_or(|slot| slot.page.is_none()) {
                self.stitch.run_mut(id).extend_to(slot + 1);
                slots.push(SlotRef { run: id, slot });
                pages.push(*page);
            }
        }
        Ok(self.open_slots(&slots, &pages)?)
    }

    /// Gives a recorded block its place and status.
    fn restore_block(
        &mut self,
        run: RangeId,
        addr: Addr,
        state: &BlockState,
        params: &AllocParams,
        restoring: &mut Restoring,
    ) -> Result<(), AllocError> {
        let id = self.stitch.run(run).block_at(&self.blocks.arena, addr);
        let block = &self.blocks[id];
        let end = addr.0.saturating_add(state.size_bytes);
        if state.size_bytes == 0 || !block.is_idle() || !block.mapped || end > block.end().0 {
            return Err(no_room(state.size_bytes));
        }
        let params = AllocParams { size_bytes: state.size_bytes, ..*params };
        let id = self.take_part(id, addr, &params, None);
        let block = &mut self.blocks[id];
        block.allocated = false;
        block.search_count_at_free = NO_REQUEST;
        self.adopt(id, state, restoring);
        Ok(())
    }
}

/// A state that no heap can have, or more than there is.
fn no_room(size_bytes: u64) -> AllocError {
    DeviceError::OutOfMemory { call: DeviceCall::Create, size_bytes }.into()
}
