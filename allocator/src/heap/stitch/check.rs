//! The invariants of `stitch`, for [`Heap::check`].

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use events::Addr;

use crate::arena::Block;
use crate::heap::Heap;
use crate::heap::check::ensure;
use crate::ids::RangeId;
use crate::stitch::{PAGE_BYTES, PageId, Run, SlotRef};
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Every page has one home, whose bytes are in mapped blocks; every slot says which page is mapped there.
    pub(in crate::heap) fn check_stitch(&self) -> Result<(), String> {
        if !self.stitch.is_on {
            return Ok(());
        }
        let mut mapped: BTreeMap<PageId, usize> = BTreeMap::new();
        let mut homes = 0;
        for (id, run) in self.stitch.runs() {
            self.check_run(id, run)?;
            for (slot, mapping) in run.slots.iter().enumerate() {
                let Some(page) = mapping.page else { continue };
                *mapped.entry(page).or_default() += 1;
                let at = SlotRef { run: id, slot };
                ensure!(
                    self.stitch.pages[page].slots.contains(&at),
                    "{page:?} does not know that it is mapped at {at:?}"
                );
            }
        }
        let mut mapped_slots = 0;
        for (id, page) in self.stitch.pages.iter() {
            let known = mapped.get(&id).copied().unwrap_or(0);
            ensure!(page.slots.len() == known, "{id:?} is mapped at {known} slots: {page:?}");
            mapped_slots += known;
            let Some(home) = page.home else {
                ensure!(
                    self.stitch.pages.spare.contains(&id),
                    "{id:?} has no home and is not spare"
                );
                continue;
            };
            homes += 1;
            ensure!(
                page.tail.is_some() == self.stitch.pages.parted.contains(&id),
                "{id:?} has two homes, or has not: {page:?}"
            );
            for home in core::iter::once(home).chain(page.tail.map(|tail| tail.at)) {
                let run = self.stitch.run(home.run);
                let slot = &run.slots[home.slot];
                ensure!(
                    slot.page == Some(id) && slot.is_open,
                    "{id:?} is not open at its home {home:?}"
                );
                let addr = Addr(run.slot_addr(home.slot).0 + page.bytes_at(home).start);
                let block = &self.blocks[run.block_at(&self.blocks.arena, addr)];
                ensure!(block.mapped, "{id:?}: its home at {addr} is in an unmapped block");
            }
        }
        ensure!(mapped_slots == self.stitch.pages.mapped_slots, "{mapped_slots} slots are mapped");
        let blocks = self.blocks.arena.iter().map(|(_, block)| block);
        let bytes: u64 = blocks
            .filter(|block| block.range.is_some() && block.mapped)
            .map(|b| b.size_bytes)
            .sum();
        ensure!(bytes == homes * PAGE_BYTES, "{homes} homes hold {bytes} bytes of blocks");
        Ok(())
    }

    /// The blocks of a run tile it, and its index finds each of them.
    fn check_run(&self, id: RangeId, run: &Run) -> Result<(), String> {
        let mut at = run.addr;
        let mut next = Some(run.first_block());
        while let Some(block_id) = next {
            let block: &Block = &self.blocks[block_id];
            ensure!(block.addr == at, "{id:?}: a block begins at {}, not at {at}", block.addr);
            ensure!((block.range, block.list) == (Some(id), run.list), "{block_id:?} is of {id:?}");
            let is_indexed = block.addr > run.frontier()
                || run.block_at(&self.blocks.arena, block.addr) == block_id;
            ensure!(is_indexed, "{id:?}: its index does not find {block_id:?}");
            if block.mapped {
                for slot in run.touched_slots(block.addr, block.end()) {
                    let (first, bytes) =
                        (run.slot_addr(slot).0, self.stitch.home_bytes(SlotRef { run: id, slot }));
                    let end = block.end().0.min(first + PAGE_BYTES);
                    ensure!(
                        first + bytes.start <= block.addr.0.max(first) && end <= first + bytes.end,
                        "{block_id:?} lies in slot {slot}, which is the home of {bytes:?}"
                    );
                }
            }
            at = block.end();
            next = block.next;
        }
        ensure!(at.0 == run.addr.0 + run.size_bytes(), "{id:?} ends at {at}");
        Ok(())
    }
}
