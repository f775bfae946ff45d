//! The heap's orders and ages, as a base state carries them; `restore.rs` is the way back.

use alloc::vec::Vec;

use events::{Addr, BaseOrder, PoolId, RangeState};
use rustc_hash::FxHashMap;

use super::Heap;
use crate::arena::BlockId;
use crate::ids::PoolIndex;
use crate::size::SMALL_SEGMENT_BYTES;
use crate::stitch::PAGE_BYTES;
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// What later placements depend on besides memory and pools.
    pub(super) fn order(&self) -> BaseOrder {
        let pools = &self.pools;
        BaseOrder {
            begun: self.ranks.oldest_first().collect(),
            ranges: self.range_states(),
            ages: self.ages(),
            pending: self.flush_order(),
            released_pools: pools.freeable.iter().map(|slot| pools.get(slot).id).collect(),
            lending_pools: pools.use_on_oom.iter().collect(),
            unsplit_pools: pools.no_split.iter().collect(),
        }
    }

    fn range_states(&self) -> Vec<RangeState> {
        let ranges = self.ranges.iter().filter_map(|range| {
            let pool = self.blocks.lists[range.list?].pool;
            Some(RangeState {
                addr: range.addr,
                page_bytes: range.page_bytes,
                stream: range.stream(),
                pool: self.pools.id_of(pool),
                is_large: !pool.is_small(),
            })
        });
        let runs = self.stitch.runs().map(|(_, run)| RangeState {
            addr: run.addr,
            page_bytes: PAGE_BYTES,
            stream: run.stream,
            pool: PoolId::DEFAULT,
            is_large: !self.blocks.lists[run.list].pool.is_small(),
        });
        let mut ranges: Vec<_> = ranges.chain(runs).collect();
        ranges.sort_unstable_by_key(|range| range.addr);
        ranges
    }

    /// Ages of the blocks that garbage collection looks at; all are 0 where it never ran.
    fn ages(&self) -> Vec<(Addr, u32)> {
        let pool = Self::collected_pool();
        let mut ages: Vec<_> = self
            .blocks
            .lists
            .free(pool)
            .map(|id| (self.blocks[id].addr, self.blocks.age(id)))
            .filter(|(_, age)| *age > 0)
            .collect();
        ages.sort_unstable();
        ages
    }

    /// The pool whose segments garbage collection returns.
    pub(super) fn collected_pool() -> PoolIndex {
        PoolIndex::new(None, false)
    }

    /// Pending frees in the order in which a flush completes them: stream by stream, a block with its last event.
    fn flush_order(&self) -> Vec<Addr> {
        let mut left: FxHashMap<BlockId, u32> = FxHashMap::default();
        let mut order = Vec::new();
        for id in self.pending_blocks() {
            let left = left.entry(id).or_insert_with(|| self.blocks[id].event_count.max(1));
            *left = left.saturating_sub(1);
            if *left == 0 {
                order.push(self.blocks[id].addr);
            }
        }
        order
    }
}

/// Larger pages than any device has are damage.
const PAGE_MAX_BYTES: u64 = 1 << 40;

/// Whether a page has a size that segments can have.
pub(super) const fn is_page(page_bytes: u64) -> bool {
    page_bytes > 0 && page_bytes <= PAGE_MAX_BYTES && page_bytes.is_multiple_of(SMALL_SEGMENT_BYTES)
}
