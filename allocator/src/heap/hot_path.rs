//! One cache hit and one free, from top to bottom: round, choose the pool, best fit, split, hand out; find, merge, put
//! back. What a miss does is in `grow.rs`, what a free that other streams delay does in `pending.rs`.
//!
//! Every step is inlined into the call of the C ABI. Other callers share one copy, through the functions at the end.
#![allow(clippy::inline_always, reason = "the hot path is one function")]

use events::{Addr, Event, StackId, Stream};

use super::{AllocError, Heap, HeapError, Miss, Request};
use crate::arena::{Block, BlockId};
use crate::blocks::Blocks;
use crate::free_list::{FreeList, ListPlace};
use crate::ids::{FreeListId, PoolIndex};
use crate::size;
use crate::stats::{PieceMerge, Pieces};
use device::Device;
use events::Recorder;

/// A request after rounding (`AllocParams`).
#[derive(Clone, Copy, Debug)]
pub(super) struct AllocParams {
    pub(super) requested_bytes: u64,
    pub(super) size_bytes: u64,
    pub(super) stream: Stream,
    pub(super) pool: PoolIndex,
    /// Whether this request may be served from, and grow, expandable segments.
    pub(super) expandable: bool,
    /// Whether `stitch` serves it.
    pub(super) stitched: bool,
    /// Whether a real graph capture holds back whatever waits or frees.
    pub(super) in_capture: bool,
}

/// A free block that serves a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: BlockId,
    pub(super) size_bytes: u64,
    /// Its place in the free list of the pool; `None` for a new segment, which is in no list.
    pub(super) place: Option<ListPlace>,
}

/// One allocation.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// Serves the request from the cache. A miss goes on with [`malloc_growing`](Self::malloc_growing); a caller that
    /// has free-memory callbacks runs them in between, without the lock.
    ///
    /// # Errors
    /// When the device fails.
    #[inline]
    pub fn malloc_cached(&mut self, request: &Request) -> Result<Result<Addr, Miss>, AllocError> {
        assert!(request.requested_bytes > 0, "an allocation has a size");
        self.stack = request.stack;
        if request.requested_bytes >= size::MAX_REQUEST_BYTES {
            return Err(AllocError::TooLarge { requested_bytes: request.requested_bytes });
        }
        let in_capture = self.in_capture(request.pool, request.stream)?;
        if in_capture {
            if self.config.graph_capture_record_stream_reuse {
                self.free_safe_blocks_in_capture(request.stream)?;
            }
        } else if self.pending.awaits_streams() {
            self.process_events()?;
        }
        if self.stitch.is_on {
            return Ok(self.malloc_under_stitch(request, in_capture).ok_or(Miss(*request)));
        }
        let params = self.round(request, in_capture);
        Ok(match self.best_fit(&params) {
            Some(candidate) => Ok(self.hand_out(candidate, &params)),
            None => Err(Miss(*request)),
        })
    }

    /// Rounds the size and chooses the pool.
    #[inline(always)]
    fn round(&self, request: &Request, in_capture: bool) -> AllocParams {
        let requested_bytes = request.requested_bytes;
        let size_bytes = if self.rounds_plainly {
            size::round_plain(requested_bytes)
        } else {
            size::round(requested_bytes, &self.config)
        };
        let private = self.private_pool_for(request.pool, request.stream);
        let own_source = private.is_some_and(|slot| self.pools.get(slot).source.is_some());
        AllocParams {
            requested_bytes,
            size_bytes,
            stream: request.stream,
            pool: PoolIndex::new(private, size::is_small(size_bytes)),
            expandable: self.config.expandable_segments && !own_source,
            stitched: false,
            in_capture,
        }
    }

    /// The best fitting free block of the pool and stream (`get_free_block`).
    #[inline(always)]
    fn best_fit(&mut self, params: &AllocParams) -> Option<Candidate> {
        if self.collects_garbage() {
            let count = &mut self.blocks.lists[params.pool].search_count;
            *count = count.wrapping_add(1);
        }
        let list = &self.blocks.lists[self.blocks.lists.find(params.pool, params.stream)?];
        let (mut place, mut id) = list.first_fit(&self.blocks.arena, params.size_bytes)?;
        let mut block = &self.blocks[id];
        if block.range.is_some() {
            (place, id) = self.blocks.best_expandable_fit(list, (place, id), params.expandable)?;
            block = &self.blocks[id];
        }
        let size_bytes = block.size_bytes;
        let serves = size::may_serve(size_bytes, params.size_bytes, &self.config);
        serves.then_some(Candidate { id, size_bytes, place: Some(place) })
    }

    /// Makes a free block the caller's: splits, counts, records (`alloc_found_block`).
    #[inline(always)]
    fn hand_out(&mut self, candidate: Candidate, params: &AllocParams) -> Addr {
        let rest_bytes = candidate.size_bytes - params.size_bytes;
        self.hand_out_part(candidate, params, self.should_split(rest_bytes, params))
    }

    /// Whether the rest of a block is cut off and stays free (`should_split`).
    #[inline(always)]
    fn should_split(&self, rest_bytes: u64, params: &AllocParams) -> bool {
        if !self.pools.no_split.is_empty()
            && self.pools.no_split.contains(self.pools.id_of(params.pool))
        {
            return false;
        }
        let is_small_or_expandable = params.pool.is_small() || params.expandable;
        size::is_split(params.size_bytes, rest_bytes, is_small_or_expandable, &self.config)
    }

    /// Hands out the block's front, or all of it.
    #[inline(always)]
    fn hand_out_part(&mut self, candidate: Candidate, params: &AllocParams, splits: bool) -> Addr {
        let is_small = params.pool.is_small();
        let block = &self.blocks[candidate.id];
        let (addr, list, was_split) = (block.addr, block.list, block.is_split());
        // Expandable segments are always split; PyTorch does not count their pieces.
        let is_counted = block.range.is_none();
        let rest_bytes = candidate.size_bytes - params.size_bytes;
        let (id, size_bytes) = if splits {
            if is_counted && was_split {
                self.stats.on_piece_cut(is_small, params.size_bytes);
            } else if is_counted {
                self.stats.on_piece_added(is_small, rest_bytes);
            }
            (self.blocks.take_front(candidate, list, params, self.stack), params.size_bytes)
        } else {
            if is_counted && was_split {
                self.stats.on_piece_taken(is_small, candidate.size_bytes);
            }
            (self.blocks.take_whole(candidate, params, self.stack), candidate.size_bytes)
        };
        self.enter(id, (addr, size_bytes), params);
        addr
    }

    /// Enters a block that was taken into the table of addresses, the statistics and the tape.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        id: BlockId,
        (addr, size_bytes): (Addr, u64),
        params: &AllocParams,
    ) {
        self.blocks.addresses.insert(&self.blocks.arena, addr, id);
        debug_assert!(
            self.blocks[id].allocated
                && !self.blocks.lists[self.blocks[id].list].holds(&self.blocks.arena, id),
            "handed out once"
        );
        self.stats.on_alloc(params.pool.is_small(), size_bytes, params.requested_bytes);
        if self.is_oversize(size_bytes) {
            self.stats.rare.oversize_allocations.increase(1);
        }
        let event = Event::Alloc {
            addr,
            requested_bytes: params.requested_bytes,
            size_bytes,
            stream: params.stream,
            pool: self.pools.id_of(params.pool),
        };
        self.record_block(id, event);
    }
}

/// One free.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// Gives memory back. It is reusable at once on its own stream; if other streams used it, once they are done.
    ///
    /// # Errors
    /// [`AllocError::Heap`] for an address that is not handed out, the heap unchanged; [`AllocError::Device`] when no
    /// event could be recorded, the block then waits for the next flush.
    #[inline]
    pub fn free(&mut self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        let id = self.take_address(addr)?;
        let is_pending = self.begin_free(id, stack, false);
        if is_pending {
            return self.await_other_streams(id);
        }
        self.finish_free(id);
        Ok(())
    }

    /// Finds the block of an address and takes the address out of the table.
    #[inline(always)]
    pub(super) fn take_address(&mut self, addr: Addr) -> Result<BlockId, HeapError> {
        let id = self.blocks.addresses.remove(&self.blocks.arena, addr);
        id.ok_or(HeapError::UnknownPointer { addr })
    }

    /// Ends the caller's use of a block. Returns whether other streams still use it: the free is complete later.
    #[inline(always)]
    fn begin_free(&mut self, id: BlockId, stack: StackId, is_deferred: bool) -> bool {
        self.stack = stack;
        let block = &mut self.blocks[id];
        let pending = block.used_by_others | is_deferred;
        assert!(block.allocated, "the address table holds allocated blocks");
        block.allocated = false;
        let (addr, size_bytes, requested_bytes, list) =
            (block.addr, block.size_bytes, block.requested_bytes, block.list);
        let is_small = self.blocks.lists[list].pool.is_small();
        self.stats.on_free_requested(is_small, size_bytes);
        if pending {
            self.stats.on_wait(is_small, size_bytes);
        }
        self.record_block(id, Event::Free { addr, requested_bytes, size_bytes, pending });
        if self.is_oversize(size_bytes) {
            self.stats.rare.oversize_allocations.decrease(1);
        }
        pending
    }

    /// Makes a block reusable: merges it with its free neighbours into its pool (`free_block`).
    #[inline(always)]
    fn finish_free(&mut self, id: BlockId) {
        if self.stitch.is_on {
            return self.finish_free_under_stitch(id);
        }
        self.finish_free_natively(id);
    }

    #[inline(always)]
    fn finish_free_natively(&mut self, id: BlockId) {
        let Freed { is_small, requested_bytes, merge, .. } = self.blocks.put_back(id);
        if let Some(merge) = merge {
            self.stats.on_pieces_merged(is_small, merge);
        }
        self.stats.on_free_completed(is_small, requested_bytes);
    }
}

/// A block that became reusable.
pub(super) struct Freed {
    pub(super) is_small: bool,
    pub(super) requested_bytes: u64,
    /// The free neighbours that it was merged with.
    pub(super) merged: [Option<BlockId>; 2],
    /// What became of the free pieces of its segment; `None` where they are not counted.
    merge: Option<PieceMerge>,
}

/// The blocks' part of both.
impl Blocks {
    /// Takes all of a free block out of its list and hands it out.
    #[inline(always)]
    pub(super) fn take_whole(
        &mut self,
        candidate: Candidate,
        params: &AllocParams,
        stack: StackId,
    ) -> BlockId {
        let block = &mut self.arena[candidate.id];
        block.allocated = true;
        block.requested_bytes = params.requested_bytes;
        block.stack = stack;
        if let Some(place) = candidate.place {
            self.lists[block.list].take(place);
        }
        candidate.id
    }

    /// Cuts the wanted size off the front of a free block and hands it out; the rest keeps its place in the list where
    /// the order allows it.
    #[inline(always)]
    fn take_front(
        &mut self,
        candidate: Candidate,
        list: FreeListId,
        params: &AllocParams,
        stack: StackId,
    ) -> BlockId {
        let search_count = self.lists[params.pool].search_count;
        let handed = (params.requested_bytes, stack);
        let front = self.arena.split(candidate.id, params.size_bytes, handed, search_count);
        let list = &mut self.lists[list];
        match candidate.place {
            Some(place) => list.settle(&self.arena, place, candidate.id),
            None => list.insert(&self.arena, candidate.id),
        }
        front
    }

    /// Enters a block into its free list, merged with its free neighbours. A neighbour is what remains, so that the
    /// list has nothing to do unless the order changes.
    #[inline(always)]
    pub(super) fn put_back(&mut self, id: BlockId) -> Freed {
        let Self { arena, lists, addresses } = self;
        let block = &arena[id];
        assert!(block.is_idle(), "a reusable block is idle");
        debug_assert!(block.mapped && !lists[block.list].holds(arena, id), "a block is freed once");
        debug_assert!(addresses.get(arena, block.addr).is_none(), "no holder frees it again");
        let is_counted = block.is_split() && block.range.is_none();
        let Block { prev, next, list, requested_bytes, .. } = *block;
        let pool = lists[list].pool;
        let search_count = lists[pool].search_count;
        let is_free = |id: &BlockId| {
            let block = &arena[*id];
            block.is_idle() & block.mapped
        };
        let (prev, next) = (prev.filter(is_free), next.filter(is_free));
        let list = &mut lists[list];
        let mut removed = Pieces::default();
        let whole = match (prev, next) {
            (None, None) => {
                list.insert(arena, id);
                id
            }
            (Some(prev), next) => {
                removed = Pieces::one(arena[prev].size_bytes);
                if let Some(next) = next {
                    let size_bytes = removed.size_bytes + arena[next].size_bytes;
                    removed = Pieces { count: 2, size_bytes };
                    list.remove(arena, next);
                    arena.join(id, next);
                }
                let place = list.find(arena, prev);
                arena.join(prev, id);
                list.settle(arena, place, prev);
                prev
            }
            (None, Some(next)) => {
                removed = Pieces::one(arena[next].size_bytes);
                let place = list.find(arena, next);
                arena.join_ahead(id, next);
                list.settle(arena, place, next);
                next
            }
        };
        debug_assert!(arena.is_linked(whole) && list.holds(arena, whole), "a free block is listed");
        let whole = &mut arena[whole];
        whole.requested_bytes = requested_bytes;
        whole.search_count_at_free = search_count;
        // Expandable segments are always split; PyTorch does not count their pieces.
        let merge = is_counted.then(|| {
            let is_piece = whole.is_split();
            let added = if is_piece { Pieces::one(whole.size_bytes) } else { Pieces::default() };
            PieceMerge { added, removed }
        });
        let merged = [prev, next];
        Freed { is_small: pool.is_small(), requested_bytes, merged, merge }
    }

    /// The best fit where the first is part of an expandable segment. A call, so that the path without them keeps its
    /// registers.
    #[inline(never)]
    fn best_expandable_fit(
        &self,
        list: &FreeList,
        first: (ListPlace, BlockId),
        may_expand: bool,
    ) -> Option<(ListPlace, BlockId)> {
        let (mut place, mut id) = first;
        loop {
            let next = list.after(place);
            let is_expandable = self[id].range.is_some();
            if may_expand {
                // A block at a growable tail counts as large as it can become, so a block that is complete wins.
                let is_better = |next: &(ListPlace, BlockId)| {
                    self.expandable_bytes(next.1) < self.expandable_bytes(id)
                };
                match next.filter(|next| is_expandable && is_better(next)) {
                    Some(next) => (place, id) = next,
                    None => return Some((place, id)),
                }
            } else if is_expandable {
                // Expandable segments were switched off: only other segments serve.
                (place, id) = next?;
            } else {
                return Some((place, id));
            }
        }
    }

    /// A block's size with the unmapped addresses behind it.
    fn expandable_bytes(&self, id: BlockId) -> u64 {
        let block = &self[id];
        let room = block.next.map_or(0, |next| {
            let next = &self[next];
            if next.mapped { 0 } else { next.size_bytes }
        });
        block.size_bytes + room
    }
}

/// The same steps for all other callers, once.
impl<D: Device, R: Recorder> Heap<D, R> {
    /// [`round`](Self::round) off the hot path.
    #[inline(never)]
    pub(super) fn params(&self, request: &Request, in_capture: bool) -> AllocParams {
        self.params_inlined(request, in_capture)
    }

    #[inline(always)]
    fn params_inlined(&self, request: &Request, in_capture: bool) -> AllocParams {
        let mut params = self.round(request, in_capture);
        if self.stitch.is_on {
            params.expandable = false;
            params.stitched = params.pool.private().is_none();
        }
        params
    }

    /// A request where `stitch` serves the default pool. Cold, so that `native` keeps its registers.
    #[cold]
    #[inline(never)]
    fn malloc_under_stitch(&mut self, request: &Request, in_capture: bool) -> Option<Addr> {
        let params = self.params_inlined(request, in_capture);
        if params.stitched {
            return self.malloc_stitched(&params);
        }
        let candidate = self.search(&params)?;
        Some(self.serve(candidate, &params, None))
    }

    /// A free where `stitch` serves the default pool.
    #[cold]
    #[inline(never)]
    fn finish_free_under_stitch(&mut self, id: BlockId) {
        if self.blocks[id].range.is_some() {
            self.finish_free_stitched(id);
        } else {
            self.finish_free_natively(id);
        }
    }

    /// [`best_fit`](Self::best_fit) off the hot path.
    #[inline(never)]
    pub(super) fn search(&mut self, params: &AllocParams) -> Option<Candidate> {
        self.best_fit(params)
    }

    /// [`hand_out_part`](Self::hand_out_part) off the hot path; without `splits`, as the settings want it.
    #[inline(never)]
    pub(super) fn serve(
        &mut self,
        candidate: Candidate,
        params: &AllocParams,
        splits: Option<bool>,
    ) -> Addr {
        let rest_bytes = candidate.size_bytes - params.size_bytes;
        let splits = splits.unwrap_or_else(|| self.should_split(rest_bytes, params));
        self.hand_out_part(candidate, params, splits)
    }

    /// Hands out a block that was taken.
    #[inline]
    pub(super) fn hand_over(&mut self, id: BlockId, params: &AllocParams) -> Addr {
        let block = &self.blocks[id];
        let (addr, size_bytes) = (block.addr, block.size_bytes);
        self.enter(id, (addr, size_bytes), params);
        addr
    }

    /// [`free`](Self::free) off the hot path.
    #[inline(never)]
    pub(super) fn give_back(&mut self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        let id = self.take_address(addr)?;
        if self.end_use(id, stack, false) {
            return self.await_other_streams(id);
        }
        self.make_reusable(id);
        Ok(())
    }

    /// [`begin_free`](Self::begin_free) off the hot path.
    #[inline(never)]
    pub(super) fn end_use(&mut self, id: BlockId, stack: StackId, is_deferred: bool) -> bool {
        self.begin_free(id, stack, is_deferred)
    }

    /// [`finish_free`](Self::finish_free) off the hot path.
    #[inline(never)]
    pub(super) fn make_reusable(&mut self, id: BlockId) {
        self.finish_free(id);
    }
}
