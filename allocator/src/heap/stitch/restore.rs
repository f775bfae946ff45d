//! The runs of a recorded state: the homes of its pages, and the blocks there. Ghosts and the placements of earlier
//! steps are not part of a state.

use alloc::vec::Vec;

use events::{Addr, BlockState, BlockStatus, Recorder, SegmentState};

use crate::heap::hot_path::AllocParams;
use crate::heap::restore::Restoring;
use crate::heap::runs::BaseRange;
use crate::heap::{AllocError, Heap};
use crate::ids::RangeId;
use crate::stitch::{NO_REQUEST, PAGE_BYTES, SlotRef};
use device::{Device, DeviceCall, DeviceError};

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Takes over the mapped addresses of one recorded run. Records nothing.
    ///
    /// # Errors
    /// When the device fails or has too little memory, or the addresses are not those of whole pages.
    pub(in crate::heap) fn restore_run(
        &mut self,
        recorded: &BaseRange<'_>,
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
        let base = self.stitch.run(run).addr;
        let moved = |addr: Addr| Addr(base.0 + (addr.0 - recorded.addr.0));
        for part in &recorded.runs {
            self.restore_homes(run, moved(part.addr), part)?;
            for state in part.blocks.iter().filter(|state| state.status != BlockStatus::Inactive) {
                self.restore_block(run, moved(state.addr), state, &params, restoring)?;
            }
        }
        Ok(())
    }

    /// Makes recorded addresses the homes of new pages.
    fn restore_homes(
        &mut self,
        run: RangeId,
        addr: Addr,
        part: &SegmentState,
    ) -> Result<(), AllocError> {
        let of = self.stitch.run(run);
        let end = addr.0.saturating_add(part.size_bytes);
        let are_pages = [addr.0 - of.addr.0, part.size_bytes].iter().all(|n| n % PAGE_BYTES == 0);
        if part.size_bytes == 0
            || !are_pages
            || end > of.addr.0 + of.size_bytes()
            || addr < of.frontier()
        {
            return Err(no_room(part.size_bytes));
        }
        let touched = of.touched_slots(addr, Addr(end));
        let (first, count) = (SlotRef { run, slot: touched.start }, touched.len());
        let slots: Vec<_> = touched.map(|slot| SlotRef { run, slot }).collect();
        self.stitch.run_mut(run).extend_to(first.slot + count);
        let mut pages = Vec::new();
        if !self.fill(&mut pages, &slots)? {
            self.stitch.run_mut(run).retract();
            return Err(no_room(part.size_bytes));
        }
        for (page, slot) in pages.iter().zip(slots) {
            self.stitch.pages[*page].home = Some(slot);
        }
        self.enter_homes(first, count);
        self.count_run(part);
        Ok(())
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
