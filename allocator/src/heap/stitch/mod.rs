//! `stitch`, from top to bottom: an allocation and a free of the default pool. The structures are in `crate::stitch`.
//!
//! A request is offered, in this order: the addresses of the same request in earlier steps (`place.rs`), the home bytes
//! that are least in the way of requests to come and leave most pages wholly free, a window of home and ghost slots
//! (`choose.rs`), and at last mappings (`grow.rs`) of the pages that became free longest ago and of new ones for the
//! rest. Only the last makes driver calls.

mod check;
mod choose;
mod grow;
mod holes;
mod place;
mod planned;
mod rehome;
mod release;
mod restore;
mod share;
mod streams;
mod windows;

use events::Addr;

use super::Heap;
use super::hot_path::AllocParams;
use crate::arena::{Block, BlockId};
use crate::free_list::ListPlace;
use crate::ids::RangeId;
use device::Device;
use events::Recorder;

/// One allocation.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves a request without a driver call.
    #[inline(never)]
    pub(super) fn malloc_stitched(&mut self, params: &AllocParams) -> Option<Addr> {
        if !params.pool.is_small() && self.stitch.config.has_placement_memory {
            if self.stitch.awaits_plan(params.stream) {
                self.begin_plan(params);
            }
            let follower = self.stitch.follower(params.stream);
            follower.observe(params.size_bytes);
            self.stitch.is_repeated = follower.is_repeated();
        } else {
            self.stitch.is_repeated = false;
        }
        self.place_stitched(params)
    }

    /// The same for a request that was tried before.
    pub(super) fn place_stitched(&mut self, params: &AllocParams) -> Option<Addr> {
        let id = if params.pool.is_small() {
            self.place_small(params)
        } else {
            self.place_large(params)
        };
        id.map(|id| self.hand_over_stitched(id, params))
    }

    /// Makes a block that was taken the caller's.
    #[inline]
    pub(super) fn hand_over_stitched(&mut self, id: BlockId, params: &AllocParams) -> Addr {
        if !params.pool.is_small() && self.stitch.config.has_placement_memory {
            let block = &self.blocks[id];
            let (run, addr) = (block.range.expect("a block of stitch has a run"), block.addr);
            let number = self.stitch.follower(params.stream).remember(run, addr);
            // A block has no age while it is handed out.
            self.blocks[id].search_count_at_free = number;
        }
        self.hand_over(id, params)
    }

    /// A small request: best fit as in `native`, then a ghost whose page is free.
    fn place_small(&mut self, params: &AllocParams) -> Option<BlockId> {
        let list = self.blocks.lists.find(params.pool, params.stream)?;
        let fit = self.blocks.lists[list].first_fit(&self.blocks.arena, params.size_bytes);
        if let Some((place, id)) = fit {
            let addr = self.blocks[id].addr;
            return Some(self.take_part(id, addr, params, Some(place)));
        }
        let window = self.find_mapped_window(params)?;
        self.place_at(params, window.run, window.addr)
    }

    fn place_large(&mut self, params: &AllocParams) -> Option<BlockId> {
        if self.stitch.config.has_placement_memory {
            let recent = self.stitch.follower(params.stream).recent();
            if let Some(id) = self.place_at_any(params, recent) {
                return Some(id);
            }
            let older = self.stitch.follower(params.stream).older();
            if let Some(id) = self.place_at_any(params, older) {
                return Some(id);
            }
        }
        self.expect_requests(params);
        if self.planned_window(params).is_some() {
            return None;
        }
        if let Some((id, addr)) = self.best_home(params) {
            return Some(self.take_part(id, addr, params, None));
        }
        let window = self.find_mapped_window(params)?;
        self.place_at(params, window.run, window.addr)
    }

    #[inline]
    fn place_at_any(
        &mut self,
        params: &AllocParams,
        places: [Option<(RangeId, Addr)>; 2],
    ) -> Option<BlockId> {
        places.into_iter().flatten().find_map(|(run, addr)| self.place_at(params, run, addr))
    }

    /// Hands out the part of a free block that starts at an address.
    pub(super) fn take_part(
        &mut self,
        id: BlockId,
        addr: Addr,
        params: &AllocParams,
        place: Option<ListPlace>,
    ) -> BlockId {
        let arena = &mut self.blocks.arena;
        let block = &arena[id];
        let end = Addr(addr.0 + params.size_bytes);
        debug_assert!(block.is_idle() && block.mapped && block.addr <= addr && end <= block.end());
        let list = &mut self.blocks.lists[block.list];
        let place = place.unwrap_or_else(|| list.find(arena, id));
        if block.size_bytes == params.size_bytes {
            list.take(place);
            let block = &mut arena[id];
            block.allocated = true;
            block.requested_bytes = params.requested_bytes;
            block.stack = self.stack;
            return id;
        }
        let block = *block;
        let run = self.stitch.run_mut(block.range.expect("a block of stitch has a run"));
        if block.addr == addr {
            let handed = (params.requested_bytes, self.stack);
            let front = arena.split(id, params.size_bytes, handed, 0);
            list.settle(arena, place, id);
            run.begin(addr, front);
            run.begin(end, id);
            return front;
        }
        // The front keeps its id and its place in the list.
        let new = Block {
            range: block.range,
            segment_rank: block.segment_rank,
            ..Block::new(addr, params.size_bytes, block.list)
        };
        arena[id].size_bytes = addr.0 - block.addr.0;
        list.settle(arena, place, id);
        let taken = arena.insert(Block {
            prev: Some(id),
            next: block.next,
            allocated: true,
            requested_bytes: params.requested_bytes,
            stack: self.stack,
            ..new
        });
        arena[id].next = Some(taken);
        run.begin(addr, taken);
        let mut last = taken;
        if end < block.end() {
            let rest = Block { addr: end, size_bytes: block.end().0 - end.0, ..new };
            last = arena.insert(Block { prev: Some(taken), next: block.next, ..rest });
            arena[taken].next = Some(last);
            run.begin(end, last);
            list.insert(arena, last);
        }
        if let Some(next) = block.next {
            arena[next].prev = Some(last);
        }
        taken
    }
}

/// One free.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// Makes a block of `stitch` reusable. The pages that it leaves wholly free are not unmapped.
    #[inline(never)]
    pub(super) fn finish_free_stitched(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (start, end) = (block.addr, block.end());
        let run = block.range.expect("a block of stitch has a run");
        let (number, list) = (block.search_count_at_free, &self.blocks.lists[block.list]);
        let arena = &self.blocks.arena;
        let is_free = |id: &BlockId| arena[*id].is_idle() && arena[*id].mapped;
        let (prev, next) = (block.prev.filter(is_free), block.next.filter(is_free));
        if !list.pool.is_small() && self.stitch.config.has_placement_memory {
            self.stitch.follower(list.stream).note_free(number);
        }
        let (is_small, requested_bytes) = self.blocks.put_back_uncounted(id);

        self.stitch.ticket += 1;
        let ticket = self.stitch.ticket;
        let run = self.stitch.run_mut(run);
        run.stamp(start, end, ticket);
        let arena = &self.blocks.arena;
        let whole = prev.or(next).unwrap_or(id);
        let behind = arena[whole].next;
        if next.is_some() {
            run.end(end, arena, behind);
        }
        if prev.is_some() {
            run.end(start, arena, behind);
        } else {
            run.begin(start, whole);
        }
        self.stats.on_free_completed(is_small, requested_bytes);
    }
}
