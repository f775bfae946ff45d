//! Frees that a replay completes: the tape has the moment.

use events::{Addr, StackId};

use super::pending::Ticket;
use super::{Heap, HeapError};
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Gives memory back that a tape says other streams still use; [`complete_free`](Self::complete_free) of the ticket
    /// follows.
    ///
    /// # Errors
    /// When the address is not handed out.
    pub fn free_deferred(&mut self, addr: Addr, stack: StackId) -> Result<Ticket, HeapError> {
        let id = self.take_address(addr)?;
        self.end_use(id, stack, true);
        self.pending.forget_uses(id);
        let block = &mut self.blocks[id];
        block.used_by_others = false;
        block.event_count = 1;
        Ok(self.pending.defer(id))
    }

    /// Completes a free begun with [`free_deferred`](Self::free_deferred); does nothing if a flush completed it.
    pub fn complete_free(&mut self, ticket: Ticket) {
        if let Some(id) = self.pending.take_deferred(ticket) {
            self.complete_event(id);
        }
    }

    /// Lets a flush complete this free after all others begun with [`free_deferred`](Self::free_deferred): a tape knows
    /// in which order a recorded flush did.
    pub fn flush_last(&mut self, ticket: Ticket) {
        self.pending.put_last(ticket);
    }
}
