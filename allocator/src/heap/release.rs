//! Returning cached memory to the device: on request, and when memory is short.

use alloc::vec::Vec;

use events::{Addr, Event, PoolId, StackId};

use super::Heap;
use super::hot_path::AllocParams;
use crate::arena::BlockId;
use crate::ids::PoolIndex;
use device::{Device, Result};
use events::Recorder;
use settings::UNLIMITED;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Returns what is cached: everything for the default pool, one released private pool otherwise
    /// (`torch.cuda.empty_cache`, `emptyCache`).
    ///
    /// # Errors
    /// When the device fails; what was returned before stays returned.
    pub fn empty_cache(&mut self, pool: PoolId, stack: StackId) -> Result<()> {
        self.stack = stack;
        self.record(Event::EmptyCache { pool, inferred: false });
        let given_up = self.give_up_empty_ranges(pool);
        let released = if pool.is_default() && self.holds_back_flush() {
            self.release_freeable_pools(pool, None)
        } else {
            self.release_cached_blocks(pool, None)
        };
        given_up.and(released)
    }

    /// Waits for pending frees and returns all unsplit segments and free pages (`release_cached_blocks`). Private pools
    /// take part once they have no users, and end when they are empty; `asking` is that of the request in progress, and
    /// does not.
    pub(super) fn release_cached_blocks(
        &mut self,
        pool: PoolId,
        asking: Option<u32>,
    ) -> Result<()> {
        if pool.is_default() {
            self.synchronize_and_free_events(None)?;
            if self.stitch.is_on {
                self.release_free_pages(usize::MAX)?;
            } else {
                self.release_blocks(PoolIndex::new(None, false))?;
                self.release_blocks(PoolIndex::new(None, true))?;
            }
        }
        self.release_freeable_pools(pool, asking)?;
        self.take_back_pages();
        Ok(())
    }

    /// Returns what released private pools hold: of all of them for the default pool, else of the one named.
    pub(super) fn release_freeable_pools(
        &mut self,
        pool: PoolId,
        asking: Option<u32>,
    ) -> Result<()> {
        let freeable: Vec<u32> = if pool.is_default() {
            self.pools.freeable.iter().collect()
        } else {
            let slot = self.pools.find(pool);
            slot.filter(|slot| self.pools.freeable.contains(*slot)).into_iter().collect()
        };
        for slot in freeable {
            if !pool.is_default() && !self.holds_back_flush() {
                self.synchronize_and_free_events(Some(slot))?;
            }
            self.release_blocks(PoolIndex::new(Some(slot), true))?;
            self.release_blocks(PoolIndex::new(Some(slot), false))?;
            if self.pools.get(slot).segment_count == 0 && asking != Some(slot) {
                self.pools.remove(slot);
            }
        }
        Ok(())
    }

    /// Returns the unsplit segments and the free pages of a small or large pool.
    fn release_blocks(&mut self, pool: PoolIndex) -> Result<()> {
        // Unmapping changes the list, so what goes is chosen first.
        let (pages, segments): (Vec<BlockId>, Vec<BlockId>) =
            self.blocks.lists.free(pool).partition(|id| self.blocks[*id].range.is_some());
        for id in segments {
            if !self.blocks[id].is_split() {
                self.release_block(id)?;
            }
        }
        for id in pages {
            self.unmap_block(id)?;
        }
        Ok(())
    }

    /// Returns one unsplit segment (`release_block`).
    pub(super) fn release_block(&mut self, id: BlockId) -> Result<()> {
        assert!(self.is_whole_segment(id), "a whole segment is released");
        let block = &self.blocks[id];
        let (addr, size_bytes, list) = (block.addr, block.size_bytes, block.list);
        let (stream, pool) = (self.blocks.stream_of(id), self.blocks.pool_of(id));
        self.relaxed(|heap| heap.give_back_segment(pool, addr, size_bytes))?;
        let (is_small, pool_id) = (pool.is_small(), self.pools.id_of(pool));
        self.blocks.take_free(id);
        self.ranks.end(self.blocks[id].segment_rank);
        self.blocks.lists.end_segment(list);
        self.blocks.arena.remove(id);
        self.reserved_bytes -= size_bytes;
        self.count_segments(pool, -1);
        self.stats.rare.segment.decrease(is_small, 1);
        self.stats.on_unreserve(pool_id, is_small, size_bytes);
        if self.is_oversize(size_bytes) {
            self.stats.rare.oversize_segments.decrease(1);
        }
        tracing::debug!(%addr, size_bytes, %stream, pool = %pool_id, "segment freed");
        self.record(Event::SegmentFree {
            addr,
            size_bytes,
            stream,
            pool: pool_id,
            is_large: !is_small,
        });
        Ok(())
    }

    fn is_whole_segment(&self, id: BlockId) -> bool {
        self.blocks[id].range.is_none() && !self.blocks[id].is_split()
    }

    /// To the pool's own source, else to the device.
    fn give_back_segment(&mut self, pool: PoolIndex, addr: Addr, size_bytes: u64) -> Result<()> {
        match pool.private().and_then(|slot| self.pools.get(slot).source.as_ref()) {
            Some(source) => source.free(addr, size_bytes),
            None => self.device.free(addr),
        }
    }

    /// Returns just enough oversize blocks of the stream for this request; false if there are not enough
    /// (`release_available_cached_blocks`). A part of a segment can be oversize too, where segments are larger than the
    /// limit or the limit was lowered: it stays.
    pub(super) fn release_oversize_blocks(&mut self, params: &AllocParams) -> Result<bool> {
        let max_split = self.config.max_split_size_bytes;
        if max_split == UNLIMITED {
            return Ok(false);
        }
        let needed_bytes = params.size_bytes.max(max_split);
        let Some(list) = self.blocks.lists.find(params.pool, params.stream) else {
            return Ok(false);
        };
        let list = &self.blocks.lists[list];
        let fit = list.first_fit(&self.blocks.arena, needed_bytes).map(|(_, id)| id);
        if let Some(id) = fit.filter(|id| self.is_whole_segment(*id)) {
            self.release_block(id)?;
            return Ok(true);
        }
        // No single block is enough: the largest ones, until together they are.
        let size_bytes = |id: &BlockId| self.blocks[*id].size_bytes;
        let oversize = list.iter().rev().take_while(|id| size_bytes(id) >= max_split);
        let candidates: Vec<_> = oversize.filter(|id| size_bytes(id) < needed_bytes).collect();
        let mut released_bytes = 0;
        for id in candidates {
            if released_bytes >= needed_bytes {
                break;
            }
            if self.is_whole_segment(id) {
                released_bytes += self.blocks[id].size_bytes;
                self.release_block(id)?;
            }
        }
        Ok(released_bytes >= needed_bytes)
    }
}
