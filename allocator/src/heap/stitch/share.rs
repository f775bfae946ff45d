//! Pages in other processes and for other devices.

use alloc::vec::Vec;

use events::{Addr, DeviceId, Stream};

use crate::arena::Block;
use crate::heap::{AllocError, Heap, HeapError, SharedPages};
use crate::ids::RangeId;
use crate::stitch::{PAGE_BYTES, SlotRef};
use device::{Device, HandleType, Result};
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Shares the pages of a block: a handle for each.
    pub(in crate::heap) fn share_stitched(
        &mut self,
        id: RangeId,
        block: Block,
    ) -> Result<SharedPages, AllocError> {
        let share = self.page_sharing();
        if share == HandleType::None {
            return Err(HeapError::NotShared.into());
        }
        let run = self.stitch.run(id);
        let touched = run.touched_slots(block.addr, block.end());
        let offset_bytes = block.addr.0 - run.slot_addr(touched.start).0;
        let pages =
            run.slots[touched].iter().map(|slot| slot.page.expect("a live block is mapped"));
        let mut handles = Vec::new();
        for page in pages.collect::<Vec<_>>() {
            let page = &mut self.stitch.pages[page];
            let handle = match page.shared {
                Some(handle) => handle,
                None => *page.shared.insert(self.device.export(page.handle, share)?),
            };
            handles.push(handle);
        }
        Ok(SharedPages { page_bytes: PAGE_BYTES, offset_bytes, handles })
    }

    /// Lets `peer` reach every mapping, ghosts included.
    pub(in crate::heap) fn open_runs_to(&mut self, peer: DeviceId) -> Result<()> {
        let mut mapped: Vec<SlotRef> = Vec::new();
        for (id, run) in self.stitch.runs() {
            let open = run.slots.iter().enumerate().filter(|(_, slot)| slot.is_open);
            mapped.extend(open.map(|(slot, _)| SlotRef { run: id, slot }));
        }
        for span in mapped.chunk_by(SlotRef::is_before) {
            let addr: Addr = self.stitch.run(span[0].run).slot_addr(span[0].slot);
            self.device.set_access(addr, span.len() as u64 * PAGE_BYTES, peer)?;
        }
        Ok(())
    }

    /// Each run's stream, whether it serves small requests, and the bytes of its homes.
    pub(in crate::heap) fn run_sizes(&self) -> impl Iterator<Item = (Stream, bool, u64)> {
        self.stitch.runs().map(|(id, run)| {
            let homes = (0..run.slots.len()).map(|slot| {
                let bytes = self.stitch.home_bytes(SlotRef { run: id, slot });
                bytes.end - bytes.start
            });
            let is_small = self.blocks.lists[run.list].pool.is_small();
            (run.stream, is_small, homes.sum())
        })
    }
}
