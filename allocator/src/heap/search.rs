//! Best fit: which free block serves a request (`get_free_block`), and whether it is split (`should_split`).

use super::Heap;
use super::malloc::Want;
use crate::block::BlockId;
use crate::config::UNLIMITED;
use crate::device::Device;
use crate::record::Recorder;
use crate::size::{MIN_BLOCK_BYTES, SMALL_BYTES};

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Takes the best fitting free block of the wanted pool and stream out of its list.
    pub(super) fn take_best_fit(&mut self, want: &Want) -> Option<BlockId> {
        if self.collects_garbage() {
            self.pools[want.pool].search_count += 1;
        }
        let id = self.best_fit(want)?;
        self.take_free(id);
        Some(id)
    }

    fn best_fit(&self, want: &Want) -> Option<BlockId> {
        let free = &self.pools[want.pool].free;
        let entries = free.of(want.stream);
        let mut at = free.first_fit(want.stream, want.size_bytes);
        let first = entries.get(at)?;
        if self.blocks[first.id].range.is_some() {
            if want.expandable {
                // A block at a growable tail counts as large as it can become, so a block that is complete wins.
                while let Some(next) = entries.get(at + 1) {
                    let here = entries[at].id;
                    if self.blocks[here].range.is_none()
                        || self.expandable_bytes(next.id) >= self.expandable_bytes(here)
                    {
                        break;
                    }
                    at += 1;
                }
            } else {
                // Expandable segments were switched off: only other segments serve.
                at +=
                    entries[at..].iter().position(|entry| self.blocks[entry.id].range.is_none())?;
            }
        }
        let found = entries[at];
        let max_split = self.config.max_split_size_bytes;
        let is_oversize_for_small_request =
            want.size_bytes < max_split && found.size_bytes >= max_split;
        let wastes_too_much = max_split != UNLIMITED
            && want.size_bytes >= max_split
            && found.size_bytes
                >= want.size_bytes.saturating_add(self.config.max_non_split_rounding_bytes);
        (!is_oversize_for_small_request && !wastes_too_much).then_some(found.id)
    }

    /// A block's size with the unmapped addresses behind it.
    fn expandable_bytes(&self, id: BlockId) -> u64 {
        let block = &self.blocks[id];
        let room = block.next.map_or(0, |next| {
            let next = &self.blocks[next];
            if next.mapped { 0 } else { next.size_bytes }
        });
        block.size_bytes + room
    }

    pub(super) fn should_split(&self, id: BlockId, want: &Want) -> bool {
        if !self.pools.no_split.is_empty()
            && self.pools.no_split.contains(&self.pools.id_of(want.pool))
        {
            return false;
        }
        let rest_bytes = self.blocks[id].size_bytes - want.size_bytes;
        if want.pool.is_small() || want.expandable {
            rest_bytes >= MIN_BLOCK_BYTES
        } else {
            want.size_bytes < self.config.max_split_size_bytes && rest_bytes > SMALL_BYTES
        }
    }
}
