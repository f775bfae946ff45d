//! The heap's state at one moment, as PyTorch's snapshots show it.

use alloc::vec::Vec;

use events::{BlockStatus, Event, PoolId, SegmentState, StackId, Stream};

use super::Heap;
use crate::arena::{Block, BlockId};
use crate::size::SMALL_SEGMENT_BYTES;
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Every segment with its blocks, in ascending order of address; of one private pool unless the default is named.
    /// An expandable segment appears once for each contiguous mapped run.
    pub fn snapshot(&mut self, pool: PoolId) -> Vec<SegmentState> {
        let segments = self.segments(pool);
        let active = segments.iter().flat_map(|segment| &segment.blocks);
        let active_bytes = active
            .filter(|block| block.status != BlockStatus::Inactive)
            .map(|block| block.size_bytes)
            .sum();
        self.recorder.record(StackId::NONE, Event::Snapshot { active_bytes });
        segments
    }

    /// The same without leaving a trace.
    pub fn segments(&self, pool: PoolId) -> Vec<SegmentState> {
        let heads = self.blocks.arena.iter().filter(|(_, block)| self.begins_mapped_run(block));
        let mut segments: Vec<SegmentState> = heads
            .filter(|(id, _)| {
                pool.is_default() || self.pools.id_of(self.blocks.pool_of(*id)) == pool
            })
            .map(|(id, block)| self.segment_from(id, block))
            .collect();
        segments.sort_unstable_by_key(|segment| segment.addr);
        segments
    }

    /// Each expandable segment's stream, whether it serves small requests, and its mapped bytes
    /// (`getExpandableSegmentSizes`).
    pub fn expandable_segments(&self) -> impl Iterator<Item = (Stream, bool, u64)> {
        self.ranges.iter().map(|range| {
            (range.stream(), range.page_bytes == SMALL_SEGMENT_BYTES, range.open_bytes())
        })
    }

    /// The largest free block of any pool, in bytes; 0 where nothing is cached (`cacheInfo`).
    pub fn largest_cached_bytes(&self) -> u64 {
        let free = self.blocks.lists.pools().flat_map(|half| self.blocks.lists.free(half));
        free.map(|id| self.blocks[id].size_bytes).max().unwrap_or(0)
    }

    fn begins_mapped_run(&self, block: &Block) -> bool {
        block.mapped && block.prev.is_none_or(|prev| !self.blocks[prev].mapped)
    }

    fn segment_from(&self, head: BlockId, block: &Block) -> SegmentState {
        let mut blocks = Vec::new();
        let mut at = Some(head);
        while let Some(block) = at.map(|id| &self.blocks[id]).filter(|block| block.mapped) {
            blocks.push(block.state());
            at = block.next;
        }
        SegmentState {
            addr: block.addr,
            size_bytes: blocks.iter().map(|block| block.size_bytes).sum(),
            stream: self.blocks.stream_of(head),
            pool: self.pools.id_of(self.blocks.pool_of(head)),
            is_large: !self.blocks.pool_of(head).is_small(),
            is_expandable: block.range.is_some(),
            stack: block.segment_stack,
            blocks,
        }
    }
}
