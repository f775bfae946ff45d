//! What all models have in common: pools, frees that wait, the chain of attempts when memory is short, statistics.
//!
//! - A tape's **private pool** is a pool of the model's own, with memory that no other pool is given: what a CUDA graph
//!   has addresses of stays. It ends with its last user and its last block, and its memory goes back. That it lends
//!   blocks when memory is short, or never splits them, are PyTorch's own options; models have no notion of them.
//! - **`record_stream`** shows on a tape as a deferred free: the model gets the free when it completes.
//! - **Short of memory**: all deferred frees are waited for, every pool returns what its policy can return, and the
//!   request is tried once more. Where that fails too, memory is out.
//! - **Captures** are not seen: what they hold back is on the tape as deferred frees.

use crate::drive_error::Result;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use allocator::heap::{AllocError, HeapError, PoolChoice, Request};
use device::DeviceCall;
use models::memory::Memory;
use models::model::{Ask, Model, Piece};
use settings::ConfigError;
use sim_device::SimDevice;
use trace_format::{Addr, BaseState, Event, PoolId, Record, StackId, Stream};

use super::{ReplayTotals, Starts, Strategy, request_anew};
use crate::drive_error::DriveError;

/// More than any address space holds; PyTorch's limit too (`kMaxRequest`: 1 EB).
const LARGEST_REQUEST_BYTES: u64 = 1 << 60;

/// A model at work for all pools of a device.
pub struct Hosted<M: Model> {
    settings: M::Settings,
    memory: Memory,
    /// The first is the default pool. Those of pools that ended are empty.
    rooms: Vec<Room<M>>,
    /// The place of each pool that has users.
    room_of: BTreeMap<PoolId, usize>,
    /// Deferred frees in the order of their tickets, and when each was.
    waiting: BTreeMap<u64, (HeldBlock, u64)>,
    next_ticket: u64,
    has_waited: bool,
    now_ns: u64,
    allocated_bytes: u64,
    /// What the device gave to the models of private pools, and has not got back.
    private_reserved_bytes: u64,
    totals: ReplayTotals,
}

struct Room<M> {
    pool: PoolId,
    users: u32,
    /// Blocks handed out or awaited.
    blocks: u64,
    model: Option<M>,
}

/// A block handed out.
#[derive(Clone, Copy, Debug)]
pub struct HeldBlock {
    room: usize,
    piece: Piece,
    stream: Stream,
}

impl HeldBlock {
    /// Where it is, and how many bytes it has.
    pub fn place(self) -> (Addr, u64) {
        (self.piece.addr, self.piece.size_bytes)
    }
}

impl<M: Model> Hosted<M> {
    /// A model with nothing handed out.
    ///
    /// # Errors
    /// When its settings cannot be had on this device.
    pub fn new(device: SimDevice, settings: M::Settings) -> Result<Self> {
        let mut memory = Memory::new(device)?;
        let model = M::new(&settings, &mut memory, false)
            .map_err(|reason| DriveError::Start { strategy: M::NAME, reason })?;
        let room = Room { pool: PoolId::DEFAULT, users: 1, blocks: 0, model: Some(model) };
        Ok(Self {
            settings,
            memory,
            rooms: vec![room],
            room_of: BTreeMap::from([(PoolId::DEFAULT, 0)]),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            has_waited: false,
            now_ns: 0,
            allocated_bytes: 0,
            private_reserved_bytes: 0,
            totals: ReplayTotals::default(),
        })
    }

    /// Limits what may be held to a fraction of the device.
    ///
    /// # Errors
    /// When the fraction is outside `[0, 1]`.
    pub fn limit(&mut self, fraction: f64) -> Result<()> {
        let event = Event::MemoryFraction { fraction };
        self.input(&event).map_err(|error| DriveError::Base(error.into()))
    }

    /// The device's memory as the model has it.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    fn room(&self, pool: PoolId) -> Option<usize> {
        self.room_of.get(&pool).copied()
    }

    fn add_users(&mut self, pool: PoolId, count: u32) -> usize {
        if let Some(at) = self.room(pool) {
            self.rooms[at].users = self.rooms[at].users.saturating_add(count);
            return at;
        }
        let at = self.rooms.len();
        self.rooms.push(Room { pool, users: count, blocks: 0, model: None });
        self.room_of.insert(pool, at);
        at
    }

    /// Takes users off a pool, which ends with its last block once it has none.
    fn drop_users(&mut self, at: usize, count: u32) {
        let room = &mut self.rooms[at];
        room.users -= count;
        if room.users == 0 {
            self.room_of.remove(&room.pool);
            self.end_if_over(at);
        }
    }

    fn ask(&mut self, at: usize, ask: Ask) -> Option<Piece> {
        self.work(at, |room, memory, settings| {
            if room.model.is_none() {
                room.model = Some(M::new(settings, memory, true).ok()?);
            }
            let piece = room.model.as_mut()?.malloc(memory, ask)?;
            room.blocks += 1;
            Some(piece)
        })
    }

    /// Lets the model of a pool obtain and give back memory.
    fn work<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Room<M>, &mut Memory, &M::Settings) -> T,
    ) -> T {
        let before_bytes = self.memory.reserved_bytes();
        let done = act(&mut self.rooms[at], &mut self.memory, &self.settings);
        if !self.rooms[at].pool.is_default() {
            self.private_reserved_bytes += self.memory.reserved_bytes();
            self.private_reserved_bytes -= before_bytes;
        }
        done
    }

    /// Waits for the device and lets cached memory go: everybody's, or one private pool's.
    fn let_go(&mut self, only: Option<usize>) {
        self.memory.synchronize();
        self.has_waited = true;
        let concerns = |held: &HeldBlock| only.is_none_or(|room| held.room == room);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (now, later) = waiting.partition(|(_, (held, _))| concerns(held));
        self.waiting = later;
        let now: BTreeMap<u64, (HeldBlock, u64)> = now;
        for (held, freed_ns) in now.into_values() {
            self.take_back(held, Some(freed_ns));
        }
        for at in 0..self.rooms.len() {
            if only.is_none_or(|only| only == at) {
                self.work(at, |room, memory, _| {
                    if let Some(model) = &mut room.model {
                        model.empty_cache(memory);
                    }
                });
            }
        }
    }

    /// The block is free for the model; where it waited for other streams, with when it was freed.
    fn take_back(&mut self, held: HeldBlock, waits_since_ns: Option<u64>) {
        let HeldBlock { piece, stream, .. } = held;
        let now_ns = self.now_ns;
        self.work(held.room, |room, memory, _| {
            let model = room.model.as_mut().expect("a pool with blocks is there");
            match waits_since_ns {
                None => model.free(memory, piece, stream, now_ns),
                Some(freed_ns) => model.free_awaited(memory, piece, stream, freed_ns, now_ns),
            }
            room.blocks -= 1;
        });
        self.end_if_over(held.room);
    }

    fn end_if_over(&mut self, at: usize) {
        self.work(at, |room, memory, _| {
            if room.users == 0
                && room.blocks == 0
                && let Some(model) = room.model.take()
            {
                model.close(memory);
            }
        });
    }

    fn hand_out(&mut self, at: usize, piece: Piece, stream: Stream) -> HeldBlock {
        self.totals.allocs += 1;
        self.allocated_bytes += piece.size_bytes;
        let peak = &mut self.totals.peak_allocated_bytes;
        *peak = (*peak).max(self.allocated_bytes);
        HeldBlock { room: at, piece, stream }
    }

    fn note_free(&mut self, held: HeldBlock) {
        self.totals.frees += 1;
        self.allocated_bytes -= held.piece.size_bytes;
    }
}

impl<M: Model> Strategy for Hosted<M> {
    const GRANULE_BYTES: u64 = M::GRANULE_BYTES;
    type Block = HeldBlock;
    type Ticket = u64;

    /// Asks for everything that was handed out or awaited, in order of address: a model has segments of its own, and
    /// nothing of it was there before.
    fn restore(&mut self, base: &BaseState) -> Result<Starts<Self>> {
        if let Some(fraction) = base.memory_fraction {
            self.memory.limit(fraction);
        }
        for state in &base.pools {
            if state.use_count > 0 {
                self.add_users(state.pool, state.use_count);
            }
        }
        self.now_ns = base.time_ns;
        let starts = request_anew(self, base)?;
        // A pool without users ends with its last block, as at any other time.
        for state in base.pools.iter().filter(|state| state.use_count == 0) {
            if let Some(at) = self.room(state.pool) {
                self.drop_users(at, self.rooms[at].users);
            }
        }
        // A tape from the beginning of a run has what the model begins with.
        if !base.segments.is_empty() {
            self.memory.count_from_here();
        }
        let peak_allocated_bytes = self.totals.peak_allocated_bytes;
        self.totals = ReplayTotals { peak_allocated_bytes, ..ReplayTotals::default() };
        Ok(starts)
    }

    fn at(&mut self, record: &Record) {
        self.now_ns = record.time_ns;
    }

    fn malloc(&mut self, request: &Request) -> Result<Option<HeldBlock>, AllocError> {
        let PoolChoice::Exactly(pool) = request.pool else {
            unreachable!("a replay names the pool of each request")
        };
        let at = match self.room(pool) {
            Some(at) => at,
            None => self.add_users(pool, 1),
        };
        let ask = Ask {
            size_bytes: request.requested_bytes.max(1),
            stream: request.stream,
            now_ns: self.now_ns,
        };
        let mut piece = None;
        if ask.size_bytes <= LARGEST_REQUEST_BYTES {
            piece = self.ask(at, ask);
            if piece.is_none() {
                self.totals.retries += 1;
                self.let_go(None);
                piece = self.ask(at, ask);
            }
        }
        self.totals.ooms += i64::from(piece.is_none());
        Ok(piece.map(|piece| self.hand_out(at, piece, request.stream)))
    }

    fn free(&mut self, held: HeldBlock, _stack: StackId) -> Result<(), AllocError> {
        self.note_free(held);
        self.take_back(held, None);
        Ok(())
    }

    fn free_deferred(&mut self, held: HeldBlock, _stack: StackId) -> Result<u64, AllocError> {
        self.note_free(held);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(ticket, (held, self.now_ns));
        Ok(ticket)
    }

    fn complete_free(&mut self, ticket: u64) {
        if let Some((held, freed_ns)) = self.waiting.remove(&ticket) {
            self.take_back(held, Some(freed_ns));
        }
    }

    fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }

    fn empty_cache(&mut self, pool: PoolId, _stack: StackId) -> Result<(), AllocError> {
        if pool.is_default() {
            self.let_go(None);
        } else if let Some(at) = self.room(pool) {
            self.let_go(Some(at));
        }
        Ok(())
    }

    fn input(&mut self, event: &Event) -> Result<(), HeapError> {
        match *event {
            Event::PoolCreate { pool, .. } | Event::PoolBegin { pool, .. } => {
                self.add_users(pool, 1);
            }
            Event::PoolRelease { pool } => {
                let room = self.room(pool).filter(|_| !pool.is_default());
                let at = room.ok_or(HeapError::UnknownPool { pool })?;
                self.drop_users(at, 1);
            }
            Event::MemoryFraction { fraction } => {
                if !(0.0..=1.0).contains(&fraction) {
                    return Err(HeapError::InvalidFraction { fraction });
                }
                self.memory.limit(fraction);
            }
            _ => {}
        }
        Ok(())
    }

    /// They are PyTorch's, and no model has them.
    fn settings(&mut self, _text: &str) -> Result<(), ConfigError> {
        Ok(())
    }

    fn same_with(&mut self) -> Option<RangeInclusive<u64>> {
        self.memory.same_with()
    }

    fn reserved_bytes(&self) -> u64 {
        self.memory.reserved_bytes()
    }

    fn private_reserved_bytes(&self) -> u64 {
        self.private_reserved_bytes
    }

    fn driver_calls(&mut self) -> u64 {
        self.memory.counts().total()
    }

    fn totals(&mut self) -> ReplayTotals {
        let (device_allocs, device_frees) = self.memory.calls();
        let counts = self.memory.counts();
        ReplayTotals {
            peak_reserved_bytes: self.memory.peak_reserved_bytes(),
            peak_mapped_bytes: self.memory.peak_mapped_bytes(),
            device_allocs,
            device_frees,
            driver_calls: counts.total(),
            driver_maps: counts.of(DeviceCall::Map),
            driver_time_ns: self.memory.price_ns(),
            ..self.totals
        }
    }
}
