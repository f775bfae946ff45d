//! The heap's state at one moment, as PyTorch's snapshots show it.

use alloc::vec::Vec;

use events::{BlockState, BlockStatus, Event, PoolId, SegmentState, StackId, Stream};

use super::Heap;
use crate::arena::{Block, BlockId};
use crate::blocks::Blocks;
use crate::size::{RunShape, SMALL_SEGMENT_BYTES};
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
        let runs = self.mapped_runs().filter(|run| pool.is_default() || run.pool == pool);
        let mut segments: Vec<SegmentState> = runs.map(|run| run.state()).collect();
        segments.sort_unstable_by_key(|segment| segment.addr);
        segments
    }

    /// The same memory in no order, without a copy.
    pub fn mapped_runs(&self) -> impl Iterator<Item = MappedRun<'_>> {
        let heads = self.blocks.arena.iter().filter(|(_, block)| self.begins_mapped_run(block));
        heads.map(|(head, block)| {
            let list = &self.blocks.lists[block.list];
            MappedRun {
                blocks: &self.blocks,
                head,
                stream: list.stream,
                pool: self.pools.id_of(list.pool),
                is_large: !list.pool.is_small(),
                is_expandable: block.range.is_some(),
            }
        })
    }

    /// Each expandable segment's stream, whether it serves small requests, and its mapped bytes
    /// (`getExpandableSegmentSizes`).
    pub fn expandable_segments(&self) -> impl Iterator<Item = (Stream, bool, u64)> {
        let ranges = self.ranges.iter().map(|range| {
            (range.stream(), range.page_bytes == SMALL_SEGMENT_BYTES, range.open_bytes())
        });
        ranges.chain(self.run_sizes())
    }

    /// The largest free block of any pool, in bytes; 0 where nothing is cached (`cacheInfo`).
    pub fn largest_cached_bytes(&self) -> u64 {
        let free = self.blocks.lists.pools().flat_map(|half| self.blocks.lists.free(half));
        free.map(|id| self.blocks[id].size_bytes).max().unwrap_or(0)
    }

    fn begins_mapped_run(&self, block: &Block) -> bool {
        block.mapped && block.prev.is_none_or(|prev| !self.blocks[prev].mapped)
    }
}

/// A contiguous mapped part of a segment: all of a plain one, or a run of pages of an expandable one.
#[derive(Clone, Copy, Debug)]
pub struct MappedRun<'h> {
    blocks: &'h Blocks,
    head: BlockId,
    /// The stream it serves.
    pub stream: Stream,
    /// The pool it serves.
    pub pool: PoolId,
    /// Whether it serves large requests (over 1 MiB).
    pub is_large: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
}

impl<'h> MappedRun<'h> {
    /// Its blocks in ascending order of address, without gaps.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = BlockState> + use<'h> {
        self.chain().map(Block::state)
    }

    /// Its place, and the shape that decides which parts of it can go back to the device.
    #[inline]
    pub fn shape(&self) -> RunShape {
        let head = &self.blocks[self.head];
        let is_one_block = head.next.is_none_or(|next| !self.blocks[next].mapped);
        let Self { is_large, is_expandable, .. } = *self;
        RunShape { addr: head.addr, is_large, is_expandable, is_one_block }
    }

    /// Bytes of the free or unmapped memory behind it, up to the next live block of its segment; `None` where the
    /// segment ends with it, or with unmapped pages.
    pub fn room_behind_bytes(&self) -> Option<u64> {
        let last = self.chain().last()?;
        let gap = &self.blocks[last.next?];
        let next = &self.blocks[gap.next?];
        Some(gap.size_bytes + if next.is_idle() { next.size_bytes } else { 0 })
    }

    /// Its mapped blocks.
    #[inline]
    fn chain(&self) -> impl Iterator<Item = &'h Block> + use<'h> {
        let blocks = self.blocks;
        let links = |block: &&'h Block| block.next.map(|next| &blocks[next]);
        core::iter::successors(Some(&blocks[self.head]), links).take_while(|block| block.mapped)
    }

    fn state(&self) -> SegmentState {
        let head = &self.blocks[self.head];
        let blocks: Vec<BlockState> = self.blocks().collect();
        SegmentState {
            addr: head.addr,
            size_bytes: blocks.iter().map(|block| block.size_bytes).sum(),
            stream: self.stream,
            pool: self.pool,
            is_large: self.is_large,
            is_expandable: self.is_expandable,
            stack: head.segment_stack,
            blocks,
        }
    }
}
