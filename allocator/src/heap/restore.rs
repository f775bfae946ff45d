//! Starting from a recorded state: a tape that begins in the middle of a run brings what was there.

use alloc::vec::Vec;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use events::{Addr, BaseState, BlockState, BlockStatus, PoolId, SegmentState};
use rustc_hash::FxHashMap;

use super::page_parts::{has_all_parts, with_whole_pages};
use super::pending::Ticket;
use super::pools::Scope;
use super::runs::{BaseRange, base_ranges};
use super::stitch::RestoredPages;
use super::{AllocError, Heap};
use crate::arena::{Block, BlockId};
use crate::cast;
use crate::expandable::Range;
use crate::ids::{FreeListId, PoolIndex, RangeId};
use device::{Device, DeviceCall, DeviceError, Result};
use events::Recorder;
use settings::Compat;

/// How a live or pending block was restored.
#[derive(Clone, Copy, Debug)]
pub enum RestoredBlock {
    /// Handed out, at this address.
    Allocated(Addr),
    /// Given back and awaited; [`Heap::complete_free`] of the ticket completes it.
    PendingFree(Ticket),
}

/// Recorded addresses and what stands for them now.
pub type Restored = Vec<(Addr, RestoredBlock)>;

/// What is known of a state's orders by address, and what was restored so far.
pub(super) struct Restoring {
    /// Places in the order of creation, from 1.
    ranks: FxHashMap<Addr, u32>,
    /// Ages of free blocks.
    ages: FxHashMap<Addr, u32>,
    restored: Restored,
}

impl Restoring {
    fn new(base: &BaseState) -> Self {
        let order = &base.order;
        Self {
            ranks: order.begun.iter().copied().zip(1..).collect(),
            ages: order.ages.iter().copied().collect(),
            restored: Restored::new(),
        }
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Takes over a recorded state; the heap must be empty. Peaks start at the state's values, sums at zero. The
    /// segments come from this heap's device, so addresses may differ from the recorded ones.
    ///
    /// # Errors
    /// When the device does not have that much memory, or fails.
    pub fn restore(&mut self, base: &BaseState) -> Result<Restored, AllocError> {
        assert!(
            self.blocks.arena.iter().next().is_none(),
            "a state is restored into an empty heap"
        );
        let has_parts = self.stitch.is_on && has_all_parts(base);
        let whole = (!has_parts && !base.pages.is_empty()).then(|| with_whole_pages(base));
        let base = whole.as_ref().unwrap_or(base);
        self.restore_pools(base);
        let mut restoring = Restoring::new(base);
        self.ranks.restart_behind(cast::id(base.order.begun.len()));
        for segment in base.segments.iter().filter(|segment| !segment.is_expandable) {
            let addr = self.device.malloc(segment.size_bytes)?;
            let pool = self.pool_for(segment.pool, segment.is_large);
            self.count_segments(pool, 1);
            self.stats.rare.segment.increase(pool.is_small(), 1);
            if self.is_oversize(segment.size_bytes) {
                self.stats.rare.oversize_segments.increase(1);
            }
            self.count_run(segment);
            let list = self.blocks.lists.begin_segment(pool, segment.stream);
            let rank = self.restored_rank(&restoring, segment.addr, addr);
            self.chain((list, None, rank), addr, &[(addr, Some(segment))], &mut restoring);
        }
        let large_page_bytes = self.config.large_segment_size_bytes;
        let mut pages = RestoredPages::new(base);
        for range in base_ranges(base, large_page_bytes, self.reserve_bytes()) {
            if self.stitch.is_on && range.pool.is_default() {
                self.restore_run(&range, &mut pages, &mut restoring)?;
            } else {
                self.restore_range(&range, &mut restoring)?;
            }
        }
        self.restore_ghosts(base, &pages)?;
        let restored = restoring.restored;
        self.restore_flush_order(base, &restored);
        self.stats.reset_peak();
        self.stats.reset_accumulated();
        Ok(restored)
    }

    fn restore_pools(&mut self, base: &BaseState) {
        for state in &base.pools {
            if self.pools.find(state.pool).is_some() {
                continue; // A hostile state may have it twice.
            }
            let slot = self.pools.insert(state.pool, None, &mut self.blocks.lists);
            self.pools.get_mut(slot).use_count = state.use_count;
            if state.use_count == 0 {
                self.pools.freeable.insert(slot);
            }
            if state.use_on_oom {
                self.pools.use_on_oom.insert(state.pool);
            }
            if state.no_split {
                self.pools.no_split.insert(state.pool);
            }
        }
        let order = &base.order;
        let released = order.released_pools.iter().rev(); // Of those named twice, the first place counts.
        let places: BTreeMap<PoolId, usize> =
            released.copied().zip((0..order.released_pools.len()).rev()).collect();
        let mut freeable: Vec<u32> = self.pools.freeable.iter().collect();
        freeable.sort_by_key(|slot| places.get(&self.pools.get(*slot).id));
        self.pools.freeable = freeable.into_iter().collect();
        if !order.lending_pools.is_empty() {
            self.pools.use_on_oom = order.lending_pools.iter().copied().collect();
        }
        if !order.unsplit_pools.is_empty() {
            self.pools.no_split = order.unsplit_pools.iter().copied().collect();
        }
        for scope in &base.scopes {
            // Whom the scope took is not on the tape: its requests name their pool.
            let (pool, kind) = (scope.pool, scope.filter);
            self.scopes.push(Scope { pool, kind, filter: Arc::new(|_| false) });
        }
    }

    /// Lets a flush complete the pending frees in the recorded order.
    fn restore_flush_order(&mut self, base: &BaseState, restored: &Restored) {
        let tickets: FxHashMap<Addr, Ticket> = restored
            .iter()
            .filter_map(|(addr, block)| match block {
                RestoredBlock::PendingFree(ticket) => Some((*addr, *ticket)),
                RestoredBlock::Allocated(_) => None,
            })
            .collect();
        for addr in &base.order.pending {
            if let Some(ticket) = tickets.get(addr) {
                self.pending.put_last(*ticket);
            }
        }
    }

    /// The rank of a segment that began at this recorded address and is at `addr` now; behind all known ones where it
    /// is not known.
    fn restored_rank(&mut self, restoring: &Restoring, recorded: Addr, addr: Addr) -> u32 {
        match restoring.ranks.get(&recorded) {
            Some(rank) if self.config.compat == Compat::V2_15 => {
                self.ranks.restore(*rank, addr);
                *rank
            }
            _ => self.next_segment_rank(addr),
        }
    }

    pub(super) fn pool_for(&mut self, pool: PoolId, is_large: bool) -> PoolIndex {
        let private = (!pool.is_default()).then(|| {
            let known = self.pools.find(pool);
            known.unwrap_or_else(|| self.pools.insert(pool, None, &mut self.blocks.lists))
        });
        PoolIndex::new(private, !is_large)
    }

    pub(super) fn count_run(&mut self, run: &SegmentState) {
        self.reserved_bytes += run.size_bytes;
        self.stats.on_reserve(run.pool, !run.is_large, run.size_bytes);
    }

    fn restore_range(
        &mut self,
        recorded: &BaseRange<'_>,
        restoring: &mut Restoring,
    ) -> Result<(), AllocError> {
        let (stream, page, runs) = (recorded.stream, recorded.page_bytes, &recorded.runs);
        let (reserve_bytes, share) = (self.reserve_bytes(), self.page_sharing());
        let mut range = Range::reserve(&mut self.device, stream, page, reserve_bytes, share)?;
        let base = range.addr;
        let mut pieces = Vec::new();
        let mut end = base;
        for run in runs {
            let addr = Addr(base.0 + (run.addr.0 - recorded.addr.0));
            if addr > end {
                pieces.push((end, None));
            }
            if let Err(error) = self.map_run(&mut range, addr, run.size_bytes) {
                self.abandon(range, &pieces);
                return Err(error.into());
            }
            pieces.push((addr, Some(*run)));
            end = Addr(addr.0 + run.size_bytes);
        }
        for run in runs {
            self.count_run(run);
        }
        let range_end = Addr(base.0 + range.size_bytes());
        if range_end > end {
            pieces.push((end, None));
        }
        let pool = self.pool_for(recorded.pool, recorded.is_large);
        self.count_segments(pool, 1);
        let list = self.blocks.lists.begin_segment(pool, stream);
        range.list = Some(list);
        let id = self.ranges.insert(range);
        let rank = self.restored_rank(restoring, recorded.addr, base);
        self.chain((list, Some(id), rank), range_end, &pieces, restoring);
        Ok(())
    }

    fn map_run(&mut self, range: &mut Range, addr: Addr, size_bytes: u64) -> Result<()> {
        let fits = addr.0 + size_bytes <= range.addr.0 + range.size_bytes();
        if !fits || range.map(&mut self.device, addr, size_bytes, &self.peers)?.size_bytes == 0 {
            return Err(DeviceError::OutOfMemory { call: DeviceCall::Create, size_bytes });
        }
        Ok(())
    }

    /// Gives back a range whose runs did not all find memory.
    fn abandon(&mut self, mut range: Range, pieces: &[(Addr, Option<&SegmentState>)]) {
        let runs = pieces.iter().filter_map(|(addr, run)| Some((*addr, (*run)?.size_bytes)));
        let unmapped = runs.map(|(addr, size)| range.unmap(&mut self.device, addr, size).1);
        let unmapped: Result<()> = unmapped.collect();
        if let Err(error) = unmapped.and_then(|()| range.unreserve(&mut self.device)) {
            tracing::error!(%error, addr = %range.addr, "an address range is not given back");
        }
    }

    /// Builds a segment's chain of blocks from its mapped runs and the gaps between them.
    fn chain(
        &mut self,
        (list, range, segment_rank): (FreeListId, Option<RangeId>, u32),
        range_end: Addr,
        pieces: &[(Addr, Option<&SegmentState>)],
        restoring: &mut Restoring,
    ) {
        let mut prev = None;
        let mut chained: Vec<(BlockId, Option<&BlockState>)> = Vec::new();
        for (at, (addr, run)) in pieces.iter().enumerate() {
            let mut link = |heap: &mut Self, addr, size_bytes, state: Option<&'_ BlockState>| {
                let block = Block {
                    prev,
                    range,
                    segment_rank,
                    mapped: state.is_some(),
                    ..Block::new(addr, size_bytes, list)
                };
                let id = heap.blocks.arena.insert_linked(block);
                prev = Some(id);
                id
            };
            if let Some(run) = run {
                for state in &run.blocks {
                    let addr = Addr(addr.0 + (state.addr.0 - run.addr.0));
                    let id = link(self, addr, state.size_bytes, Some(state));
                    self.blocks[id].segment_stack = run.stack;
                    chained.push((id, Some(state)));
                }
            } else {
                let end = pieces.get(at + 1).map_or(range_end, |(next, _)| *next);
                chained.push((link(self, *addr, end.0 - addr.0, None), None));
            }
        }
        for (id, state) in chained {
            if let Some(state) = state {
                self.adopt(id, state, restoring);
            } else {
                self.blocks.put_unmapped(id);
            }
        }
    }

    /// Gives a chained block its recorded status.
    pub(super) fn adopt(&mut self, id: BlockId, state: &BlockState, restoring: &mut Restoring) {
        let block = &mut self.blocks[id];
        block.requested_bytes = state.requested_bytes;
        block.stack = state.stack;
        let (addr, size_bytes) = (block.addr, block.size_bytes);
        let is_small = self.blocks.pool_of(id).is_small();
        if state.status == BlockStatus::Inactive {
            if self.blocks[id].is_split() && self.blocks[id].range.is_none() {
                self.stats.on_piece_added(is_small, size_bytes);
            }
            self.blocks.put_free(id);
            let age = restoring.ages.get(&state.addr).copied().unwrap_or_default();
            let block = &mut self.blocks[id];
            block.search_count_at_free = block.search_count_at_free.wrapping_sub(age);
            return;
        }
        self.stats.on_alloc(is_small, size_bytes, state.requested_bytes);
        if state.status == BlockStatus::Allocated {
            self.blocks[id].allocated = true;
            self.blocks.addresses.insert(&self.blocks.arena, addr, id);
            if self.is_oversize(size_bytes) {
                self.stats.rare.oversize_allocations.increase(1);
            }
            restoring.restored.push((state.addr, RestoredBlock::Allocated(addr)));
        } else {
            self.stats.on_free_requested(is_small, size_bytes);
            self.stats.on_wait(is_small, size_bytes);
            self.blocks[id].event_count = 1;
            let ticket = self.pending.defer(id);
            restoring.restored.push((state.addr, RestoredBlock::PendingFree(ticket)));
        }
    }
}
