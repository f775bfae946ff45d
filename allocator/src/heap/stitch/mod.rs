//! `stitch`, from top to bottom: an allocation and a free of the default pool. The structures are in `crate::stitch`.
//!
//! A request is offered, in this order: the addresses of the same request in earlier steps (`place.rs`), the home bytes
//! that are least in the way of requests to come and leave most pages wholly free, a window of home and ghost slots
//! (`choose.rs`), and at last mappings (`grow.rs`) of the pages that became free longest ago, of the free ends of pages
//! in use (`edges.rs`), and of new ones for the rest. Only the last makes driver calls.
#![allow(clippy::inline_always, reason = "the hot path is one function")]

mod budget;
mod check;
mod choose;
mod edges;
mod grow;
mod holes;
mod parts;
mod place;
mod planned;
mod rehome;
mod release;
mod restore;
mod settle;
mod share;
mod streams;
mod windows;

use events::{Addr, StackId};

pub(super) use restore::RestoredPages;

use super::Heap;
use super::hot_path::{AllocParams, Candidate, Freed};
use crate::arena::{Block, BlockId};
use crate::blocks::Blocks;
use crate::free_list::ListPlace;
use crate::stitch::Placement;
use device::Device;
use events::Recorder;

/// One allocation.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves a request without a driver call.
    #[inline(always)]
    pub(super) fn malloc_stitched(&mut self, params: &AllocParams) -> Option<Addr> {
        if !params.pool.is_small() && self.stitch.config.has_placement_memory {
            if self.stitch.awaits_plan(params.stream) {
                self.begin_plan(params);
            }
            let follower = self.stitch.follower(params.stream);
            let place = follower.observe(params.size_bytes, self.reserved_bytes);
            if let Some(place) = place
                && let Some(id) = self.blocks.take_whole_at(place, params, self.stack)
            {
                self.blocks[id].search_count_at_free = follower.remember(place);
                self.enter(id, (place.addr, params.size_bytes), params);
                return Some(place.addr);
            }
            let served = place.and_then(|place| self.serve_at(params, place));
            if served.is_some() {
                return served;
            }
        }
        self.place_stitched(params)
    }

    /// Serves a request at one place.
    #[inline(never)]
    fn serve_at(&mut self, params: &AllocParams, place: Placement) -> Option<Addr> {
        let id = self.place_at(params, place.run, place.addr)?;
        Some(self.hand_over_placed(id, params))
    }

    /// The same for a request that its most likely place did not serve, or that was tried before.
    #[inline(never)]
    pub(super) fn place_stitched(&mut self, params: &AllocParams) -> Option<Addr> {
        let id = if params.pool.is_small() {
            self.place_small(params)
        } else {
            self.place_large(params)
        };
        id.map(|id| self.hand_over_placed(id, params))
    }

    /// Makes a block that was taken the caller's.
    #[inline(never)]
    pub(super) fn hand_over_placed(&mut self, id: BlockId, params: &AllocParams) -> Addr {
        if !params.pool.is_small() && self.stitch.config.has_placement_memory {
            let block = &self.blocks[id];
            let (run, addr) = (block.range.expect("a block of stitch has a run"), block.addr);
            let place = Placement { run, block: Some(id), addr };
            let number = self.stitch.follower(params.stream).remember(place);
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
        self.reunite_free_pages();
        let window = self.find_mapped_window(params)?;
        self.place_at(params, window.run, window.addr)
    }

    fn place_large(&mut self, params: &AllocParams) -> Option<BlockId> {
        if self.stitch.config.has_placement_memory {
            let follower = self.stitch.follower(params.stream);
            let mut places = follower.recent().into_iter().chain(follower.older()).flatten();
            let id = places.find_map(|place| self.place_at(params, place.run, place.addr));
            if id.is_some() {
                return id;
            }
        }
        self.reunite_free_pages();
        let is_clear = self.expect_requests(params);
        if self.planned_window(params).is_some() {
            return None;
        }
        if let Some((id, addr)) = self.best_home(params, is_clear) {
            return Some(self.take_part(id, addr, params, None));
        }
        let window = self.find_mapped_window(params)?;
        self.place_at(params, window.run, window.addr)
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
            let candidate = Candidate { id, size_bytes: block.size_bytes, place: Some(place) };
            return self.blocks.take_whole(candidate, params, self.stack);
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

/// The blocks' part of it.
impl Blocks {
    /// Takes the block that the request got at a place, where it is free and has the same bytes: the one that
    /// [`place_at`](Heap::place_at) would find.
    #[inline(always)]
    fn take_whole_at(
        &mut self,
        place: Placement,
        params: &AllocParams,
        stack: StackId,
    ) -> Option<BlockId> {
        let id = place.block?;
        let block = &self.arena[id];
        let list = &mut self.lists[block.list];
        // The id, the run and the addresses may be those of something else by now.
        let is_there = (block.addr, block.size_bytes) == (place.addr, params.size_bytes)
            && block.range == Some(place.run)
            && (list.stream, list.pool) == (params.stream, params.pool);
        if !(is_there && block.is_idle() && block.mapped) {
            return None;
        }
        list.remove(&self.arena, id);
        let candidate = Candidate { id, size_bytes: params.size_bytes, place: None };
        Some(self.take_whole(candidate, params, stack))
    }
}

/// One free.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// Makes a block of `stitch` reusable. The pages that it leaves wholly free are not unmapped.
    #[inline(always)]
    pub(super) fn finish_free_stitched(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (start, end) = (block.addr, block.end());
        let run = block.range.expect("a block of stitch has a run");
        let (number, stream) = (block.search_count_at_free, self.blocks.lists[block.list].stream);
        let Freed { is_small, requested_bytes, merged: [prev, next], .. } =
            self.blocks.put_back(id);
        if !is_small && self.stitch.config.has_placement_memory {
            self.stitch.follower(stream).note_free(number);
        }

        self.stitch.ticket += 1;
        let ticket = self.stitch.ticket;
        let run = self.stitch.run_mut(run);
        run.stamp(start, end, ticket);
        let arena = &self.blocks.arena;
        // A block that is not merged starts where it did.
        if let Some(whole) = prev.or(next) {
            let behind = arena[whole].next;
            if next.is_some() {
                run.end(end, arena, behind);
            }
            if prev.is_some() {
                run.end(start, arena, behind);
            } else {
                run.begin(start, whole);
            }
        }
        self.stats.on_free_completed(is_small, requested_bytes);
    }
}
