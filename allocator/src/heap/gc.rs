//! Garbage collection: returning segments that were not used for long, before memory is short.

use alloc::vec::Vec;

use super::Heap;
use crate::arena::BlockId;
use crate::cast;
use device::{Device, Result};
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Whether ages are counted and old segments returned: a threshold and a memory fraction are set.
    pub(super) fn collects_garbage(&self) -> bool {
        self.allowed_bytes.is_some() && self.config.garbage_collection_threshold > 0.0
    }

    /// Returns the default pool's large unsplit segments from the oldest on, until the reserved memory is back at the
    /// threshold (`garbage_collect_cached_blocks`). Waits for nothing.
    pub(super) fn collect_garbage(&mut self) -> Result<()> {
        let Some(allowed_bytes) = self.allowed_bytes.filter(|_| self.collects_garbage()) else {
            return Ok(());
        };
        let threshold = self.config.garbage_collection_threshold;
        let threshold_bytes = cast::whole_bytes(threshold * allowed_bytes as f64);
        let Some(target_bytes) =
            self.reserved_bytes.checked_sub(threshold_bytes).filter(|excess| *excess > 0)
        else {
            return Ok(());
        };

        if self.stitch.is_on {
            if self.holds_back_flush() {
                return Ok(());
            }
            let pages = target_bytes.div_ceil(crate::stitch::PAGE_BYTES);
            return self.release_free_pages(cast::index(pages));
        }
        let pool = Self::collected_pool();
        let age = |heap: &Self, id: BlockId| u64::from(heap.blocks.age(id));
        let mut candidates: Vec<BlockId> = self.blocks.lists.free(pool).collect();
        candidates.retain(|id| !self.blocks[*id].is_split());
        // PyTorch counts unsplit expandable blocks into the average, though they are never returned here.
        let mut count = candidates.len();
        let mut total_age: u64 = candidates.iter().map(|id| age(self, *id)).sum();
        candidates.retain(|id| self.blocks[*id].range.is_none());

        let mut reclaimed_bytes = 0;
        let mut progress = true;
        while reclaimed_bytes < target_bytes && progress && count > 0 {
            let threshold_age = total_age as f64 / count as f64;
            progress = false;
            // A pass does not stop at the target, so that collections stay rare.
            for id in core::mem::take(&mut candidates) {
                let block_age = age(self, id);
                if (block_age as f64) < threshold_age {
                    candidates.push(id);
                    continue;
                }
                progress = true;
                reclaimed_bytes += self.blocks[id].size_bytes;
                total_age -= block_age;
                count -= 1;
                self.release_block(id)?;
            }
        }
        tracing::debug!(reclaimed_bytes, target_bytes, "garbage collected");
        Ok(())
    }
}
