//! One free, from the address to the pool.

use trace_format::{Addr, Event, StackId};

use super::pending::Ticket;
use super::{AllocError, Heap, HeapError};
use crate::block::BlockId;
use crate::device::Device;
use crate::record::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Gives memory back. It is reusable at once on its own stream; if other streams used it, once they are done.
    ///
    /// # Errors
    /// [`AllocError::Heap`] for an address that is not handed out, the heap unchanged; [`AllocError::Device`] when no
    /// event could be recorded, the block then waits for the next flush.
    pub fn free(&mut self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        let id = self.find(addr)?;
        let pending = self.blocks[id].used_by_others;
        self.begin_free(id, stack, pending);
        if pending {
            return self.await_other_streams(id);
        }
        self.finish_free(id);
        Ok(())
    }

    /// Gives memory back that a tape says other streams still use; [`complete_free`](Self::complete_free) of the ticket
    /// follows.
    ///
    /// # Errors
    /// When the address is not handed out.
    pub fn free_deferred(&mut self, addr: Addr, stack: StackId) -> Result<Ticket, HeapError> {
        let id = self.find(addr)?;
        self.begin_free(id, stack, true);
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

    /// The half of a free that the caller asks for: the address is unknown from here on.
    fn begin_free(&mut self, id: BlockId, stack: StackId, pending: bool) {
        self.stack = stack;
        let block = &mut self.blocks[id];
        assert!(block.allocated, "the address table holds allocated blocks");
        block.allocated = false;
        let (addr, size_bytes, requested_bytes) =
            (block.addr, block.size_bytes, block.requested_bytes);
        let is_small = block.pool.is_small();
        self.allocated.remove(&addr.0);
        self.stats.on_free_requested(is_small, size_bytes);
        self.record_block(id, Event::Free { addr, requested_bytes, size_bytes, pending });
        if self.is_oversize(size_bytes) {
            self.stats.oversize_allocations.decrease(1);
        }
    }

    /// The half that makes the block reusable: merges it with its free neighbours into its pool (`free_block`).
    pub(super) fn finish_free(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        assert!(block.is_idle(), "a reusable block is nobody's");
        let (size_bytes, requested_bytes) = (block.size_bytes, block.requested_bytes);
        let is_small = block.pool.is_small();
        let counts_inactive = block.range.is_none();
        let neighbours = [block.prev, block.next];

        let mut merged_blocks = 0;
        let mut merged_bytes = 0;
        for neighbour in neighbours.into_iter().flatten() {
            let gained_bytes = self.merge(id, neighbour);
            merged_blocks += i64::from(gained_bytes > 0);
            merged_bytes += gained_bytes as i64;
        }
        self.put_free(id);

        if counts_inactive {
            let (added_blocks, added_bytes) = if self.blocks[id].is_split() {
                (1, self.blocks[id].size_bytes as i64)
            } else {
                (0, 0)
            };
            self.stats.inactive_split.change(is_small, added_blocks, merged_blocks);
            self.stats.inactive_split_bytes.change(is_small, added_bytes, merged_bytes);
        }
        self.stats.on_free_completed(is_small, size_bytes, requested_bytes);
    }

    /// Merges a free neighbour into `id` where both are mapped or both unmapped; returns the bytes gained
    /// (`try_merge_blocks`).
    pub(super) fn merge(&mut self, id: BlockId, neighbour: BlockId) -> u64 {
        let other = &self.blocks[neighbour];
        if !other.is_idle() || other.mapped != self.blocks[id].mapped {
            return 0;
        }
        let (addr, size_bytes, stream, pool) =
            (other.addr, other.size_bytes, other.stream, other.pool);
        let segment_stack = other.segment_stack;
        if other.mapped {
            self.take_free(neighbour);
        } else {
            self.pools[pool].unmapped.remove(stream, addr, neighbour);
        }
        let block = &mut self.blocks[id];
        if block.prev == Some(neighbour) {
            block.addr = addr;
            block.segment_stack = segment_stack;
        }
        block.size_bytes += size_bytes;
        self.blocks.unlink(neighbour);
        self.blocks.remove(neighbour);
        size_bytes
    }
}
