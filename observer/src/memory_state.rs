//! The memory as the entries describe it, and the recorder that gets each event once it fits.

use std::collections::HashMap;

use trace_format::{Addr, BaseState, Event, PoolId, Record, StackId, State, StateError, ThreadId};

use super::scopes;
use events::{BlockSlot, Recorder};

pub(super) struct MemoryState<R> {
    pub(super) state: State,
    pub(super) recorder: R,
    pub(super) contradictions: u64,
    slots: Slots,
}

impl<R: Recorder> MemoryState<R> {
    pub(super) fn new(base: &BaseState, recorder: R) -> Result<Self, StateError> {
        let state = State::from_base(base)?;
        let mut slots = Slots::default();
        for block in state.live_blocks_from(Addr(0)) {
            slots.take(block.addr);
        }
        Ok(Self { state, recorder, contradictions: 0, slots })
    }

    /// Records an event, and what it does to the memory. One that does not fit is counted as lost instead.
    pub(super) fn record(&mut self, stack: StackId, event: Event) {
        let record = Record { time_ns: 0, thread: ThreadId(0), stack, event };
        if self.state.apply(&record).is_err() {
            self.contradict();
            return;
        }
        match event {
            Event::Alloc { addr, .. } => {
                let slot = self.slots.take(addr);
                self.recorder.record_block(slot, stack, event, &());
            }
            Event::Free { addr, pending: true, .. } => {
                let slot = self.slots.of(addr);
                self.recorder.record_block(slot, stack, event, &());
            }
            Event::Free { addr, .. } | Event::FreeCompleted { addr, .. } => {
                let slot = self.slots.give_back(addr);
                self.recorder.record_block(slot, stack, event, &());
            }
            _ => self.recorder.record(stack, event),
        }
    }

    /// Allocations come from this pool from here on. A scope is as short as its allocations allow, apart from its end:
    /// it stays open until an allocation from another pool.
    pub(super) fn enter(&mut self, pool: PoolId) {
        let left = self.open_pool();
        if pool == left {
            return;
        }
        if !left.is_default() {
            scopes::end(left).for_each(|event| self.record(StackId::NONE, event));
        }
        if pool.is_default() {
            return;
        }
        if self.state.pools().use_count(pool) == 0 {
            self.record(StackId::NONE, Event::PoolCreate { pool, own_source: false });
        }
        scopes::begin(pool).for_each(|event| self.record(StackId::NONE, event));
    }

    /// The pool has no users any more: its memory goes back to the device.
    pub(super) fn release(&mut self, pool: PoolId) {
        if pool == self.open_pool() {
            self.enter(PoolId::DEFAULT);
        }
        if self.state.pools().use_count(pool) > 0 {
            self.record(StackId::NONE, Event::PoolRelease { pool });
        }
    }

    /// The pool of the open scope; without one, the default pool.
    fn open_pool(&self) -> PoolId {
        self.state.pools().scopes().newest().unwrap_or(PoolId::DEFAULT)
    }

    /// An entry that contradicts those before it. What follows is read as if it had not been.
    pub(super) fn contradict(&mut self) {
        self.contradictions += 1;
        self.recorder.record(StackId::NONE, Event::Lost { count: 1 });
    }
}

/// A number for each block that is not free, as a heap's arena would give: low ones first.
#[derive(Default)]
struct Slots {
    by_addr: HashMap<Addr, BlockSlot>,
    free: Vec<BlockSlot>,
    next: u32,
}

impl Slots {
    fn take(&mut self, addr: Addr) -> BlockSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            BlockSlot(self.next - 1)
        });
        self.by_addr.insert(addr, slot);
        slot
    }

    fn of(&mut self, addr: Addr) -> BlockSlot {
        match self.by_addr.get(&addr) {
            Some(slot) => *slot,
            None => self.take(addr),
        }
    }

    fn give_back(&mut self, addr: Addr) -> BlockSlot {
        let slot = self.of(addr);
        self.by_addr.remove(&addr);
        self.free.push(slot);
        slot
    }
}
