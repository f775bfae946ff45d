//! One free, from the address to the pool.

use events::{Addr, Event, StackId};

use super::malloc::{COLD, HOT};
use super::pending::Ticket;
use super::{AllocError, Heap, HeapError};
use crate::block::BlockId;
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Gives memory back. It is reusable at once on its own stream; if other streams used it, once they are done.
    ///
    /// # Errors
    /// [`AllocError::Heap`] for an address that is not handed out, the heap unchanged; [`AllocError::Device`] when no
    /// event could be recorded, the block then waits for the next flush.
    #[inline]
    pub fn free(&mut self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        self.free_copy::<HOT>(addr, stack)
    }

    #[inline]
    pub(super) fn free_copy<const COPY: bool>(
        &mut self,
        addr: Addr,
        stack: StackId,
    ) -> Result<(), AllocError> {
        let id = self.take_address(addr)?;
        let pending = self.begin_free::<COPY>(id, stack, false);
        if pending {
            return self.await_other_streams(id);
        }
        self.finish_free::<COPY>(id);
        Ok(())
    }

    /// Gives memory back that a tape says other streams still use; [`complete_free`](Self::complete_free) of the ticket
    /// follows.
    ///
    /// # Errors
    /// When the address is not handed out.
    pub fn free_deferred(&mut self, addr: Addr, stack: StackId) -> Result<Ticket, HeapError> {
        let id = self.take_address(addr)?;
        self.begin_free::<COLD>(id, stack, true);
        self.pending.forget_uses(id);
        let block = &mut self.blocks[id];
        block.used_by_others = false;
        block.event_count = 1;
        Ok(self.pending.await_word(id))
    }

    /// Completes a free begun with [`free_deferred`](Self::free_deferred); does nothing if a flush completed it.
    pub fn complete_free(&mut self, ticket: Ticket) {
        if let Some(id) = self.pending.take_word(ticket) {
            self.complete_event(id);
        }
    }

    /// Lets a flush complete this free after all others begun with [`free_deferred`](Self::free_deferred): a tape knows
    /// in which order a recorded flush did.
    pub fn flush_last(&mut self, ticket: Ticket) {
        self.pending.put_last(ticket);
    }

    #[inline]
    fn take_address(&mut self, addr: Addr) -> Result<BlockId, HeapError> {
        self.allocated.remove(&self.blocks, addr).ok_or(HeapError::UnknownPointer { addr })
    }

    /// The half of a free that the caller asks for; whether the other half is still to come. The address is in the
    /// table no more.
    #[inline]
    fn begin_free<const COPY: bool>(
        &mut self,
        id: BlockId,
        stack: StackId,
        is_deferred: bool,
    ) -> bool {
        self.stack = stack;
        let block = &mut self.blocks[id];
        let pending = block.used_by_others | is_deferred;
        assert!(block.allocated, "the address table holds allocated blocks");
        block.allocated = false;
        let (addr, size_bytes, requested_bytes) =
            (block.addr, block.size_bytes, block.requested_bytes);
        let is_small = self.pools[block.lane].pool.is_small();
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

    /// The half that makes the block reusable: merges it with its free neighbours into its pool (`free_block`). The
    /// neighbour is what remains, so that the free list has nothing to do unless the order changes.
    #[inline]
    pub(super) fn finish_free<const COPY: bool>(&mut self, id: BlockId) {
        let block = self.blocks[id];
        assert!(block.is_idle(), "a reusable block is idle");
        let pool = self.pools[block.lane].pool;
        let search_count = self.pools[pool].search_count as u32;
        let (prev, next) = (self.free_neighbour(block.prev), self.free_neighbour(block.next));
        let lane = &mut self.pools[block.lane];
        let mut merged = (0, 0);
        let whole = match (prev, next) {
            (None, None) => {
                lane.insert(&self.blocks, id);
                id
            }
            (Some(prev), next) => {
                merged = (1, self.blocks[prev].size_bytes);
                if let Some(next) = next {
                    merged = (2, merged.1 + self.blocks[next].size_bytes);
                    lane.remove(&self.blocks, next);
                    self.blocks.join(id, next);
                }
                let place = lane.find(&self.blocks, prev);
                self.blocks.join(prev, id);
                lane.settle(&self.blocks, place, prev);
                prev
            }
            (None, Some(next)) => {
                merged = (1, self.blocks[next].size_bytes);
                let place = lane.find(&self.blocks, next);
                self.blocks.join_ahead(id, next);
                lane.settle(&self.blocks, place, next);
                next
            }
        };
        let merged_block = &mut self.blocks[whole];
        merged_block.requested_bytes = block.requested_bytes;
        merged_block.search_count_at_free = search_count;

        if block.is_split() && block.range.is_none() {
            let added = if merged_block.is_split() { (1, merged_block.size_bytes) } else { (0, 0) };
            let (counts, bytes) = ((added.0, merged.0), (added.1, merged.1));
            self.stats.on_inactive_split(pool.is_small(), counts, bytes);
        }
        self.stats.on_free_completed(pool.is_small(), block.requested_bytes);
    }

    /// The neighbour, if it is free and mapped.
    #[inline]
    fn free_neighbour(&self, neighbour: Option<BlockId>) -> Option<BlockId> {
        neighbour.filter(|id| {
            let block = &self.blocks[*id];
            block.is_idle() & block.mapped
        })
    }

    /// Merges a free neighbour into `id`, which is in no list, where both are mapped or both unmapped
    /// (`try_merge_blocks`).
    pub(super) fn merge(&mut self, id: BlockId, neighbour: BlockId) {
        let other = self.blocks[neighbour];
        if !other.is_idle() || other.mapped != self.blocks[id].mapped {
            return;
        }
        if other.mapped {
            self.take_free(neighbour);
        } else {
            self.pools[other.lane].remove_unmapped(other.addr, neighbour);
        }
        if other.next == Some(id) {
            self.blocks.join_ahead(neighbour, id);
        } else {
            self.blocks.join(id, neighbour);
        }
    }
}
