//! Expandable segments: finding room for a block, mapping it, and unmapping what is free.

use alloc::vec::Vec;

use events::{Addr, Event, PoolId};

use super::Heap;
use super::hot_path::AllocParams;
use crate::arena::{Block, BlockId};
use crate::expandable::Range;
use crate::ids::{PoolIndex, RangeId};
use crate::size::page_bytes;
use device::{Device, DeviceError, Result};
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Grows an expandable segment until a free block fits, out of its list (`try_allocate_expandable_block`). What was
    /// mapped stays mapped if memory runs out on the way.
    pub(super) fn map_expandable_block(&mut self, params: &AllocParams) -> Result<Option<BlockId>> {
        let Some(mut candidate) = self.find_expandable_block(params)? else { return Ok(None) };
        if !self.blocks[candidate].mapped {
            let first_bytes = self.blocks[candidate].size_bytes.min(params.size_bytes);
            if !self.map_block(candidate, first_bytes)? {
                return Ok(None);
            }
        }
        while self.blocks[candidate].size_bytes < params.size_bytes {
            let missing_bytes = params.size_bytes - self.blocks[candidate].size_bytes;
            let next = self.blocks[candidate].next.expect("the chain has room");
            let next_bytes = self.blocks[next].size_bytes.min(missing_bytes);
            if !self.map_block(next, next_bytes)? {
                return Ok(None);
            }
            candidate = next;
        }
        self.blocks.take_free(candidate);
        Ok(Some(candidate))
    }

    /// The lowest run of free and unmapped blocks with enough addresses; a new segment where there is none.
    fn find_expandable_block(&mut self, params: &AllocParams) -> Result<Option<BlockId>> {
        let list = self.blocks.lists.find(params.pool, params.stream);
        for id in list.into_iter().flat_map(|list| self.blocks.lists[list].unmapped()) {
            let start = match self.blocks[id].prev {
                Some(prev) if self.blocks[prev].is_idle() => prev,
                _ => id,
            };
            if self.has_room(start, params.size_bytes) {
                return Ok(Some(start));
            }
        }
        let page = page_bytes(params.pool.is_small(), &self.config);
        if params.size_bytes > Range::reach_bytes(page, self.reserve_bytes()) {
            // PyTorch reserves here too, in vain, and once more with every such request.
            return Ok(None);
        }
        let (reserve_bytes, share) = (self.reserve_bytes(), self.page_sharing());
        match Range::reserve(&mut self.device, params.stream, page, reserve_bytes, share) {
            Ok(range) => Ok(Some(self.add_range(range, params.pool))),
            Err(DeviceError::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The addresses of an expandable segment: 9/8 of the device's memory unless set, so that it can hold all of it and
    /// still move.
    pub(super) fn reserve_bytes(&self) -> u64 {
        self.config.segment_reserve.bytes(self.device_total_bytes)
    }

    fn has_room(&self, start: BlockId, size_bytes: u64) -> bool {
        let mut room_bytes = 0;
        let mut at = Some(start);
        while let Some(id) = at.filter(|id| room_bytes < size_bytes && self.blocks[*id].is_idle()) {
            room_bytes += self.blocks[id].size_bytes;
            at = self.blocks[id].next;
        }
        room_bytes >= size_bytes
    }

    /// Enters a new range as one unmapped block.
    fn add_range(&mut self, mut range: Range, pool: PoolIndex) -> BlockId {
        let list = self.blocks.lists.begin_segment(pool, range.stream());
        range.list = Some(list);
        let segment_rank = self.next_segment_rank(range.addr);
        let block = Block { segment_rank, ..Block::new(range.addr, range.size_bytes(), list) };
        let range = self.ranges.insert(range);
        self.count_segments(pool, 1);
        let id = self.blocks.arena.insert(Block { range: Some(range), mapped: false, ..block });
        self.blocks.put_unmapped(id);
        id
    }

    /// Maps the front of an unmapped block, whole pages, and enters it into the free list, merged with its neighbours
    /// (`map_block`). False when the device has no memory.
    fn map_block(&mut self, id: BlockId, size_bytes: u64) -> Result<bool> {
        let block = &self.blocks[id];
        assert!(!block.mapped && size_bytes <= block.size_bytes, "an unmapped block is mapped");
        let addr = block.addr;
        let range_id = block.range.expect("only expandable blocks are unmapped");
        let range = self.ranges.get_mut(range_id);
        let span = range.map(&mut self.device, addr, size_bytes, &self.peers);
        self.ranges.note_leftovers(range_id);
        let span = span?;
        if span.size_bytes == 0 {
            return Ok(false);
        }
        assert!(span.addr == addr && span.size_bytes >= size_bytes, "mapped from its front on");

        self.blocks.take_unmapped(id);
        self.blocks[id].mapped = true;
        self.cut(id, span.size_bytes);
        let is_first = self.blocks[id].prev.is_none();
        for neighbour in [self.blocks[id].prev, self.blocks[id].next].into_iter().flatten() {
            self.blocks.merge(id, neighbour);
        }
        self.blocks.put_free(id);
        if is_first {
            self.blocks[id].segment_stack = self.stack;
        }

        let (stream, pool) = (self.blocks.stream_of(id), self.blocks.pool_of(id));
        let (is_small, pool) = (pool.is_small(), self.pools.id_of(pool));
        self.reserved_bytes += span.size_bytes;
        self.stats.on_reserve(pool, is_small, span.size_bytes);
        self.record(Event::SegmentMap {
            addr,
            size_bytes: span.size_bytes,
            stream,
            pool,
            is_large: !is_small,
        });
        Ok(true)
    }

    /// Cuts a block down to `size_bytes`; the rest becomes an unmapped block behind it.
    fn cut(&mut self, id: BlockId, size_bytes: u64) {
        let block = &self.blocks[id];
        let rest_bytes = block.size_bytes - size_bytes;
        if rest_bytes == 0 {
            return;
        }
        let (addr, list) = (Addr(block.addr.0 + size_bytes), block.list);
        let rest = Block {
            prev: Some(id),
            next: block.next,
            range: block.range,
            segment_rank: block.segment_rank,
            mapped: false,
            ..Block::new(addr, rest_bytes, list)
        };
        let rest = self.blocks.arena.insert_linked(rest);
        self.blocks[id].size_bytes = size_bytes;
        assert!(self.blocks.arena.is_linked(rest), "a cut leaves neighbours");
        self.blocks.put_unmapped(rest);
    }

    /// Unmaps the whole pages of a free block; what is left of it at its ends stays free (`unmap_block`). A segment
    /// without mapped pages is given up.
    pub(super) fn unmap_block(&mut self, id: BlockId) -> Result<()> {
        let block = &self.blocks[id];
        let (addr, size_bytes, list) = (block.addr, block.size_bytes, block.list);
        let range_id = block.range.expect("only expandable blocks are unmapped");
        let range = self.ranges.get_mut(range_id);
        let (span, result) = range.unmap(&mut self.device, addr, size_bytes);
        self.ranges.note_leftovers(range_id);
        if span.size_bytes == 0 {
            return result;
        }

        self.blocks.take_free(id);
        let before_bytes = span.addr.0 - addr.0;
        if before_bytes > 0 {
            let block = &self.blocks[id];
            let before = Block {
                prev: block.prev,
                next: Some(id),
                range: block.range,
                segment_rank: block.segment_rank,
                segment_stack: block.segment_stack,
                ..Block::new(addr, before_bytes, list)
            };
            let before = self.blocks.arena.insert_linked(before);
            self.blocks.put_free(before);
        }
        let after_bytes = size_bytes - before_bytes - span.size_bytes;
        if after_bytes > 0 {
            let after = Block {
                prev: Some(id),
                next: self.blocks[id].next,
                range: self.blocks[id].range,
                segment_rank: self.blocks[id].segment_rank,
                ..Block::new(Addr(span.addr.0 + span.size_bytes), after_bytes, list)
            };
            let after = self.blocks.arena.insert_linked(after);
            self.blocks.put_free(after);
        }
        let block = &mut self.blocks[id];
        block.addr = span.addr;
        block.size_bytes = span.size_bytes;
        block.mapped = false;
        let neighbours = [block.prev, block.next];
        assert!(self.blocks.arena.is_linked(id), "unmapped pages and their ends are neighbours");
        for neighbour in neighbours.into_iter().flatten() {
            self.blocks.merge(id, neighbour);
        }
        self.blocks.put_unmapped(id);

        let (stream, pool) = (self.blocks.stream_of(id), self.blocks.pool_of(id));
        let (is_small, pool_id) = (pool.is_small(), self.pools.id_of(pool));
        self.reserved_bytes -= span.size_bytes;
        self.stats.on_unreserve(pool_id, is_small, span.size_bytes);
        self.record(Event::SegmentUnmap {
            addr: span.addr,
            size_bytes: span.size_bytes,
            stream,
            pool: pool_id,
            is_large: !is_small,
        });
        result?;
        if self.blocks[id].is_split() { Ok(()) } else { self.give_up_range(id, range_id) }
    }

    /// Tries once more to give back the memory of pages that an earlier failure left behind.
    pub(super) fn take_back_pages(&mut self) {
        self.ranges.take_back(&mut self.device);
        self.ipc.close_or_log(&mut self.device);
    }

    /// Gives up the segments of a pool (of all, for the default) that got no page, or whose addresses the device did
    /// not take back.
    pub(super) fn give_up_empty_ranges(&mut self, pool: PoolId) -> Result<()> {
        let empty: Vec<BlockId> = if pool.is_default() {
            self.empty_ranges(self.blocks.lists.pools()).collect()
        } else {
            let slot = self.pools.find(pool);
            slot.into_iter().flat_map(|slot| self.empty_ranges(PoolIndex::both_of(slot))).collect()
        };
        for id in empty {
            let range = self.blocks[id].range.expect("only expandable blocks are unmapped");
            self.give_up_range(id, range)?;
        }
        Ok(())
    }

    /// Whether a private pool has memory: a segment whose addresses the device did not take back has none.
    pub(super) fn holds_memory(&self, slot: u32) -> bool {
        let empty_count = self.empty_ranges(PoolIndex::both_of(slot)).count();
        self.pools.get(slot).segment_count as usize > empty_count
    }

    /// The segments without a mapped page, each one unmapped block.
    fn empty_ranges(
        &self,
        halves: impl Iterator<Item = PoolIndex>,
    ) -> impl Iterator<Item = BlockId> {
        // Runs of `stitch` end by themselves.
        let halves = halves.filter(|half| half.private().is_some() || !self.stitch.is_on);
        let unmapped = halves.flat_map(|half| self.blocks.lists.unmapped(half));
        unmapped.filter(|id| !self.blocks[*id].is_split())
    }

    /// Returns the addresses of a segment that is one unmapped block (`release_expandable_segment`).
    fn give_up_range(&mut self, id: BlockId, range_id: RangeId) -> Result<()> {
        self.ranges.get_mut(range_id).unreserve(&mut self.device)?;
        self.ranges.remove(range_id);
        self.count_segments(self.blocks.pool_of(id), -1);
        let block = &self.blocks[id];
        let list = block.list;
        self.ranks.end(block.segment_rank);
        self.blocks.take_unmapped(id);
        self.blocks.lists.end_segment(list);
        self.blocks.arena.remove(id);
        Ok(())
    }
}
