//! Which free block serves a request that has no remembered address: the one that leaves most pages wholly free.

use events::Addr;

use super::grow::SETTLED_AFTER;
use crate::arena::BlockId;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use crate::stitch::Slot;
use device::Device;
use events::Recorder;

/// Free blocks that are compared.
const COMPARED_BLOCKS: usize = 32;

/// Occurrences of a request in a step that is followed, after which those after it are expected to come as in the step
/// before.
const EXPECTED_AFTER: usize = 4;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Marks the pages that requests to come want during the life of this one, which occurred often in a step that is
    /// followed, or may have a place of a plan. Elsewhere fewer requests come as expected, and keeping clear of their
    /// pages costs more memory than it saves. Returns whether keeping clear is worth more pages: not under a plan
    /// alone, which the run may have left.
    pub(super) fn expect_requests(&mut self, params: &AllocParams) -> bool {
        self.stitch.expected.clear();
        let follower = self.stitch.follower(params.stream);
        let occurrences = if follower.is_followed() { follower.occurrences() } else { 0 };
        self.stitch.keeps_small_pages = occurrences >= SETTLED_AFTER;
        let is_expected = occurrences >= EXPECTED_AFTER;
        if !is_expected && !self.stitch.is_planned() {
            return false;
        }
        let mut expected = core::mem::take(&mut self.stitch.expected);
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
        is_expected
    }

    /// The end of a free block, out of the smallest that fit, that takes the fewest pages of those that requests to
    /// come are expected to want, and uses up the fewest wholly free ones: the first counts more if it `is_clear`, else
    /// the second.
    pub(super) fn best_home(
        &self,
        params: &AllocParams,
        is_clear: bool,
    ) -> Option<(BlockId, Addr)> {
        let list = &self.blocks.lists[self.blocks.lists.find(params.pool, params.stream)?];
        let (mut place, mut id) = list.first_fit(&self.blocks.arena, params.size_bytes)?;
        let least = params.least_pages();
        let order =
            |conflicts, pages| if is_clear { (conflicts, pages) } else { (pages, conflicts) };
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
                let cost = order(conflicts, pages);
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, id, addr));
                }
            }
            if best.is_some_and(|(cost, ..)| cost <= order(0, least)) {
                break;
            }
            match list.after(place) {
                Some(next) => (place, id) = next,
                None => break,
            }
        }
        best.map(|(_, id, addr)| (id, addr))
    }
}
