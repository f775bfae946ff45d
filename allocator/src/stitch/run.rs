//! A run: reserved addresses in slots of a page, up to a frontier that grows.

use alloc::vec::Vec;
use core::ops::Range;

use events::{Addr, Stream};

use super::starts::Starts;
use super::{PAGE_BYTES, PageId};
use crate::arena::{Arena, BlockId};
use crate::cast;
use crate::ids::FreeListId;

/// Tickets that are written at once: blocks of hundreds of pages are freed.
const STAMPED: usize = 16;

/// Addresses for one page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// The page that is mapped here.
    pub(crate) page: Option<PageId>,
    /// Whether the device may use the mapping; false only after a failure.
    pub(crate) is_open: bool,
}

/// Reserved addresses, of which those before the frontier were mapped at some time.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) addr: Addr,
    pub(crate) slot_count: usize,
    pub(crate) list: FreeListId,
    pub(crate) stream: Stream,
    /// The slots before the frontier.
    pub(crate) slots: Vec<Slot>,
    /// When the last block that touched each slot was freed. Apart, as every free writes them.
    tickets: Vec<u64>,
    starts: Starts,
}

impl Run {
    /// A run that is one unmapped block.
    pub(crate) fn new(
        addr: Addr,
        slot_count: usize,
        (list, stream): (FreeListId, Stream),
        block: BlockId,
    ) -> Self {
        let mut starts = Starts::default();
        starts.grow(1);
        starts.begin(0, 0, block);
        let (slots, tickets) = (Vec::new(), Vec::new());
        Self { addr, slot_count, list, stream, slots, tickets, starts }
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.slot_count as u64 * PAGE_BYTES
    }

    /// Where the slots end that were ever mapped.
    #[inline]
    pub(crate) fn frontier(&self) -> Addr {
        self.slot_addr(self.slots.len())
    }

    #[inline]
    pub(crate) const fn slot_addr(&self, slot: usize) -> Addr {
        Addr(self.addr.0 + slot as u64 * PAGE_BYTES)
    }

    /// The slot of an address.
    #[inline]
    pub(crate) fn slot_of(&self, addr: Addr) -> usize {
        cast::index((addr.0 - self.addr.0) / PAGE_BYTES)
    }

    /// The slots that lie wholly between two addresses.
    #[inline]
    pub(crate) fn whole_slots(&self, start: Addr, end: Addr) -> Range<usize> {
        let first = cast::index((start.0 - self.addr.0).div_ceil(PAGE_BYTES));
        first..self.slot_of(end).max(first)
    }

    /// The slots that a range of addresses touches.
    #[inline]
    pub(crate) fn touched_slots(&self, start: Addr, end: Addr) -> Range<usize> {
        self.slot_of(start)..cast::index((end.0 - self.addr.0).div_ceil(PAGE_BYTES))
    }

    /// Moves the frontier behind a slot, unless it is there already.
    pub(crate) fn extend_to(&mut self, end: usize) {
        if end > self.slots.len() {
            self.slots.resize(end, Slot::default());
            self.tickets.resize(end, 0);
            // One more: the unmapped rest starts at the frontier.
            self.starts.grow(end + 1);
        }
    }

    /// Moves the frontier back over slots where nothing is mapped.
    pub(crate) fn retract(&mut self) {
        while self.slots.last().is_some_and(|slot| slot.page.is_none()) {
            self.slots.pop();
        }
        self.tickets.truncate(self.slots.len());
        self.starts.grow(self.slots.len() + 1);
    }

    /// The block at the first address.
    pub(crate) fn first_block(&self) -> BlockId {
        self.starts.first_in(0).expect("a run begins with a block").1
    }

    #[inline]
    fn place(&self, addr: Addr) -> (usize, u32) {
        let offset = (addr.0 - self.addr.0) % PAGE_BYTES;
        (self.slot_of(addr), cast::id(cast::index(offset)))
    }

    /// A block starts at an address, or takes the start of another over.
    #[inline]
    pub(crate) fn begin(&mut self, addr: Addr, id: BlockId) {
        let (slot, offset) = self.place(addr);
        self.starts.begin(slot, offset, id);
    }

    /// No block starts at an address any more; the next one behind it is given.
    #[inline]
    pub(crate) fn end(&mut self, addr: Addr, arena: &Arena, next: Option<BlockId>) {
        let (slot, offset) = self.place(addr);
        let next = next.and_then(|id| {
            let (next_slot, offset) = self.place(arena[id].addr);
            (next_slot == slot).then_some((offset, id))
        });
        self.starts.end(slot, offset, next);
    }

    /// The block at an address before the frontier.
    #[inline]
    pub(crate) fn block_at(&self, arena: &Arena, addr: Addr) -> BlockId {
        let (slot, offset) = self.place(addr);
        let mut id = match self.starts.first_in(slot) {
            Some((first, id)) if first <= offset => id,
            Some((_, id)) => {
                return arena[id].prev.expect("the first block starts at the first slot");
            }
            None => match self.starts.first_after(slot) {
                Some(id) => return arena[id].prev.expect("a block starts before every slot"),
                None => self.starts.last_before(slot).expect("a block starts before every slot"),
            },
        };
        while let Some(next) = arena[id].next.filter(|next| arena[*next].addr <= addr) {
            id = next;
        }
        debug_assert!(
            arena[id].addr <= addr && addr < arena[id].end(),
            "the block has the address"
        );
        id
    }

    /// The home slots side by side, this one included, that no byte is used of; empty where a byte of this one is.
    pub(crate) fn free_around(&self, arena: &Arena, slot: usize) -> Range<usize> {
        let block = &arena[self.block_at(arena, self.slot_addr(slot))];
        let whole = self.whole_slots(block.addr, block.end());
        if block.is_idle() && block.mapped && whole.contains(&slot) { whole } else { 0..0 }
    }

    /// Notes when the slots of a block were last used.
    #[inline]
    pub(crate) fn stamp(&mut self, start: Addr, end: Addr, ticket: u64) {
        let touched = self.touched_slots(start, end);
        let (many, rest) = self.tickets[touched].as_chunks_mut::<STAMPED>();
        for tickets in many {
            *tickets = [ticket; STAMPED];
        }
        // `fill` takes longer for the few of a small block.
        for written in rest {
            *written = ticket;
        }
    }

    /// When the last block that touched a slot was freed.
    #[inline]
    pub(crate) fn ticket(&self, slot: usize) -> u64 {
        self.tickets[slot]
    }

    /// Whether nothing is mapped at a slot, or the stream has passed its last use.
    pub(crate) fn is_unused(&self, slot: usize, passed: u64) -> bool {
        self.slots.get(slot).is_none_or(|slot| slot.page.is_none()) || self.ticket(slot) <= passed
    }

    /// The page of another slot, which was used last at that time, is used here from now on.
    pub(crate) fn inherit_ticket(&mut self, slot: usize, ticket: u64) {
        self.tickets[slot] = self.tickets[slot].max(ticket);
    }
}
