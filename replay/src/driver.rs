//! Drives a strategy with a tape's inputs, by the replay rule: a recorded `FreeCompleted` is the moment its event is
//! done, under any strategy; a flush that the recording did not have completes all pending frees; recorded block
//! addresses are names of blocks and nothing more.

use std::ops::RangeInclusive;

use allocator::heap::{AllocError, Heap, HeapError, PoolChoice, Request, Ticket};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use settings::Config;
use sim_device::SimDevice;
use trace_format::{Addr, BaseState, BlockStatus, Bound, Event, Record, SegmentState};

pub use crate::drive_error::{DriveError, Result};
use crate::pool_peaks::{HeldBytes, PoolTracker, PoolsApart};
use crate::strategy::{Native, ReplayTotals, Start, Strategy};
use crate::timeline::Witness;

/// Which inputs of the tape are followed besides allocations and frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Run-time changes of the settings, how far the device had come with each stream, and the runs of `stitch` at the
    /// start; off where the settings are in question.
    pub is_as_recorded: bool,
    /// Cache flushes that an importer inferred from segments that went away.
    pub inferred_empty_cache: bool,
    /// How many times the usual driver calls ([`Bound::DRIVER_CALLS`]) the replay may make; 0 and 1 are the usual ones.
    pub trust_factor: u64,
}

impl Default for Follow {
    fn default() -> Self {
        Self { is_as_recorded: true, inferred_empty_cache: true, trust_factor: 1 }
    }
}

/// Where a recorded block is in the replay.
#[derive(Clone, Copy, Debug)]
enum Live<B, T> {
    Held {
        block: B,
        size: LiveSize,
    },
    Waiting {
        ticket: T,
        size: LiveSize,
    },
    /// The replay had no memory for it.
    Absent,
}

/// What a block adds to the live bytes.
#[derive(Clone, Copy, Debug, Default)]
struct LiveSize {
    bytes: u64,
    is_private: bool,
}

/// The recorded blocks by their addresses.
type Blocks<S> = HashMap<u64, Live<<S as Strategy>::Block, <S as Strategy>::Ticket>, FxBuildHasher>;

/// A replay in progress.
#[derive(Clone)]
pub struct Driver<S: Strategy> {
    strategy: S,
    follow: Follow,
    live: Blocks<S>,
    /// The recorded device refused memory and the recorded retry chain is at work: what completes now was completed
    /// by its flush.
    refused: bool,
    /// Completions of that flush, for a replay that has no flush here.
    late: Vec<S::Ticket>,
    live_bytes: u64,
    /// Those of them in private pools.
    private_live_bytes: u64,
    /// Those of them that were given back and not completed.
    waiting_bytes: u64,
    peak_live_bytes: u64,
    /// Once there is a private pool.
    pools: Option<PoolTracker>,
    steps: u64,
    /// Requests that found no memory here.
    refusals: u64,
}

impl<R: Witness> Driver<Native<R>> {
    /// A replay of the live allocator that starts from `base` on an empty device.
    ///
    /// # Errors
    /// When the memory of the start does not fit the device.
    pub fn new(
        device: SimDevice,
        config: Config,
        recorder: R,
        base: &BaseState,
        follow: Follow,
    ) -> Result<Self> {
        let native = Native::new(device, config, recorder)?;
        Self::start(native.as_recorded(follow.is_as_recorded), base, follow)
    }

    /// Limits the allocator to a fraction of the device, as if set at the start.
    ///
    /// # Errors
    /// When the fraction is outside `[0, 1]`.
    pub fn limit(&mut self, fraction: f64) -> Result<()> {
        let limited = self.heap_mut().set_memory_fraction(fraction);
        limited.map_err(|error| DriveError::Base(error.into()))
    }

    /// The allocator.
    pub fn heap(&self) -> &Heap<SimDevice, R> {
        self.strategy.heap()
    }

    /// The allocator.
    pub fn heap_mut(&mut self) -> &mut Heap<SimDevice, R> {
        self.strategy.heap_mut()
    }

    /// The blocks that are handed out: their recorded addresses, and those in the replay.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Addr, Addr)> {
        self.live.iter().filter_map(|(recorded, live)| match live {
            Live::Held { block, .. } => Some((Addr(*recorded), *block)),
            Live::Waiting { .. } | Live::Absent => None,
        })
    }

    /// The frees that wait for other streams.
    pub(crate) fn pending(&self) -> Vec<Ticket> {
        let waiting = self.live.values().filter_map(|live| match live {
            Live::Waiting { ticket, .. } => Some(*ticket),
            Live::Held { .. } | Live::Absent => None,
        });
        waiting.collect()
    }
}

impl<S: Strategy> Driver<S> {
    /// A replay of a strategy that starts from `base`.
    ///
    /// # Errors
    /// When the memory of the start does not fit the strategy's device.
    pub fn start<'b>(mut strategy: S, base: &'b BaseState, follow: Follow) -> Result<Self> {
        let mut live = HashMap::with_capacity_and_hasher(4096, FxBuildHasher);
        let of_segment = |segment: &'b SegmentState| {
            segment.blocks.iter().map(|block| (block, !segment.pool.is_default()))
        };
        let held = base.segments.iter().flat_map(of_segment);
        let held = held.filter(|(block, _)| block.status != BlockStatus::Inactive);
        let size_at: HashMap<u64, LiveSize> = held
            .map(|(block, is_private)| {
                let bytes = live_bytes::<S>(block.requested_bytes.min(block.size_bytes));
                (block.addr.0, LiveSize { bytes, is_private })
            })
            .collect();
        let mut waiting_bytes = 0;
        for (recorded, start) in strategy.restore(base)? {
            let size = size_at.get(&recorded.0).copied().unwrap_or_default();
            let state = match start {
                Start::Held(block) => Live::Held { block, size },
                Start::Waiting(ticket) => {
                    waiting_bytes += size.bytes;
                    Live::Waiting { ticket, size }
                }
            };
            live.insert(recorded.0, state);
        }
        let live_bytes = size_at.values().map(|size| size.bytes).sum();
        let private = size_at.values().filter(|size| size.is_private);
        let private_live_bytes = private.map(|size| size.bytes).sum();
        let mut driver = Self {
            strategy,
            follow,
            live,
            refused: false,
            late: Vec::new(),
            live_bytes,
            private_live_bytes,
            waiting_bytes,
            peak_live_bytes: live_bytes,
            pools: None,
            steps: 0,
            refusals: 0,
        };
        if base.segments.iter().any(|segment| !segment.pool.is_default()) {
            driver.pools = Some(PoolTracker::new(HeldBytes::default()));
            driver.note_pools();
        }
        Ok(driver)
    }

    /// The reserved bytes and device calls so far.
    pub fn totals(&mut self) -> ReplayTotals {
        self.strategy.totals()
    }

    /// Bytes held from the device now.
    pub fn reserved_bytes(&self) -> u64 {
        self.strategy.reserved_bytes()
    }

    /// Requests that found no memory so far: those that were out of memory, and those that the settings reject.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// The device capacities with which all of this would have been the same, as far as that is known.
    pub(crate) fn same_with(&mut self) -> Option<RangeInclusive<u64>> {
        self.strategy.same_with()
    }

    /// Bytes alive now, as [`peak_live_bytes`](Self::peak_live_bytes) counts them.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The most bytes that were alive at once, each request rounded up to the strategy's smallest unit, until its free
    /// completed here: nothing that hands out such units can reserve less.
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    /// The peaks of the default pool and of the private pools, where there were any.
    pub(crate) fn pools(&self) -> Option<PoolsApart> {
        self.pools.as_ref().map(PoolTracker::peaks)
    }

    /// Follows one record; `text` looks interned strings up.
    ///
    /// # Errors
    /// When the record contradicts the ones before it, or its settings do not parse.
    pub fn step<'t>(
        &mut self,
        record: &Record,
        text: impl Fn(trace_format::StringId) -> &'t str,
    ) -> Result<()> {
        self.steps += 1;
        self.strategy.at(record);
        let followed = match record.event {
            Event::Alloc { requested_bytes: 0, .. } | Event::Oom { requested_bytes: 0, .. } => {
                let reason = "a request of no bytes".to_owned();
                return Err(DriveError::Contradiction { index: self.steps - 1, reason });
            }
            Event::Alloc { addr, requested_bytes, stream, pool, .. } => {
                if !pool.is_default() {
                    self.begin_pools();
                }
                let request = Request {
                    requested_bytes,
                    stream,
                    pool: PoolChoice::Exactly(pool),
                    stack: record.stack,
                };
                self.alloc(addr, &request, !pool.is_default())
            }
            Event::Free { addr, pending, .. } => self.free(addr, pending, record),
            Event::FreeCompleted { addr, .. } => self.complete(addr),
            Event::RecordStream { addr, stream } => {
                if let Some(&Live::Held { block, .. }) = self.live.get(&addr.0) {
                    self.strategy.record_stream(block, stream, record.stack);
                }
                Ok(())
            }
            Event::Category { addr, category } => {
                if let Some(&Live::Held { block, .. }) = self.live.get(&addr.0) {
                    self.strategy.categorize(block, category, record.stack);
                }
                Ok(())
            }
            Event::Oom { requested_bytes, stream, pool, .. } => {
                let pool = PoolChoice::Exactly(pool);
                let request = Request { requested_bytes, stream, pool, stack: record.stack };
                self.retry_recorded_oom(&request)
            }
            Event::DriverRefused { .. } => {
                self.refused = true;
                Ok(())
            }
            Event::EmptyCache { inferred: true, .. } if !self.follow.inferred_empty_cache => Ok(()),
            Event::EmptyCache { pool, .. } => self.strategy.empty_cache(pool, record.stack),
            Event::Settings { text: id } => return self.settings(text(id)),
            ref other => self.strategy.input(other).map_err(AllocError::from),
        };
        let index = self.steps - 1;
        followed.map_err(|error| match error {
            AllocError::Device(error) => DriveError::Device(error),
            error => DriveError::Contradiction { index, reason: error.to_string() },
        })?;
        self.note_pools();
        Bound::DRIVER_CALLS
            .check(self.strategy.driver_calls(), self.steps, self.follow.trust_factor)
            .map_err(|error| DriveError::TooMuch { index, error })
    }

    /// Keeps the peaks of the default pool and of private pools from here on.
    fn begin_pools(&mut self) {
        if self.pools.is_none() {
            let reserved_bytes = self.strategy.totals().peak_reserved_bytes;
            self.pools = Some(PoolTracker::new(HeldBytes {
                live_bytes: self.peak_live_bytes,
                reserved_bytes,
            }));
        }
    }

    fn note_pools(&mut self) {
        let Some(mut pools) = self.pools else { return };
        let (mut all, mut private) = self.held_by_pools();
        if self.waiting_bytes > 0 && pools.would_rise(all, private) {
            self.settle_waited_frees();
            (all, private) = self.held_by_pools();
        }
        pools.note(all, private);
        self.pools = Some(pools);
    }

    /// What all pools hold, and what private ones do.
    fn held_by_pools(&self) -> (HeldBytes, HeldBytes) {
        let held = |live_bytes, reserved_bytes| HeldBytes { live_bytes, reserved_bytes };
        let private_bytes = self.strategy.private_reserved_bytes();
        let all = held(self.live_bytes, self.strategy.reserved_bytes());
        (all, held(self.private_live_bytes, private_bytes))
    }

    fn alloc(
        &mut self,
        recorded: Addr,
        request: &Request,
        is_private: bool,
    ) -> Result<(), AllocError> {
        let state = match self.malloc(request)? {
            Some(block) => {
                let bytes = live_bytes::<S>(request.requested_bytes);
                self.live_bytes += bytes;
                self.private_live_bytes += if is_private { bytes } else { 0 };
                if self.live_bytes > self.peak_live_bytes && self.waiting_bytes > 0 {
                    self.settle_waited_frees();
                }
                self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
                Live::Held { block, size: LiveSize { bytes, is_private } }
            }
            None => Live::Absent,
        };
        self.live.insert(recorded.0, state);
        Ok(())
    }

    /// Frees completed by a wait of the strategy's own are no longer live, even if the recording completes them later.
    /// Called before a free is deferred, so that a wait does not count for a later free, and where live bytes are read.
    fn settle_waited_frees(&mut self) {
        if !self.strategy.has_waited() {
            return;
        }
        self.waiting_bytes = 0;
        let (mut bytes, mut private_bytes) = (0, 0);
        for live in self.live.values_mut() {
            if let Live::Waiting { size, .. } = live {
                let size = std::mem::take(size);
                bytes += size.bytes;
                private_bytes += if size.is_private { size.bytes } else { 0 };
            }
        }
        self.live_bytes -= bytes;
        self.private_live_bytes -= private_bytes;
    }

    /// A block's memory may be used again.
    fn end(&mut self, size: LiveSize) {
        self.live_bytes -= size.bytes;
        self.private_live_bytes -= if size.is_private { size.bytes } else { 0 };
    }

    /// Retries a request that was refused in the recording. A block is freed at once: the recording did not use it.
    fn retry_recorded_oom(&mut self, request: &Request) -> Result<(), AllocError> {
        if let Some(block) = self.malloc(request)? {
            self.strategy.free(block, request.stack)?;
        }
        Ok(())
    }

    /// `None` when memory is out.
    fn malloc(&mut self, request: &Request) -> Result<Option<S::Block>, AllocError> {
        let answer = self.strategy.malloc(request);
        self.refused = false;
        for ticket in self.late.drain(..) {
            self.strategy.complete_free(ticket);
        }
        self.refusals += u64::from(matches!(answer, Ok(None)));
        answer
    }

    fn free(&mut self, recorded: Addr, pending: bool, record: &Record) -> Result<(), AllocError> {
        match self.live.get(&recorded.0).copied() {
            Some(Live::Held { block, size }) if pending => {
                self.settle_waited_frees();
                let ticket = self.strategy.free_deferred(block, record.stack)?;
                self.live.insert(recorded.0, Live::Waiting { ticket, size });
                self.waiting_bytes += size.bytes;
                Ok(())
            }
            Some(Live::Held { block, size }) => {
                self.live.remove(&recorded.0);
                self.end(size);
                self.strategy.free(block, record.stack)
            }
            Some(Live::Absent) => {
                self.live.remove(&recorded.0);
                Ok(())
            }
            Some(Live::Waiting { .. }) | None => {
                Err(HeapError::UnknownPointer { addr: recorded }.into())
            }
        }
    }

    fn complete(&mut self, recorded: Addr) -> Result<(), AllocError> {
        match self.live.remove(&recorded.0) {
            Some(Live::Waiting { ticket, size }) => {
                self.end(size);
                self.waiting_bytes -= size.bytes;
                if self.refused {
                    self.strategy.flush_last(ticket);
                    self.late.push(ticket);
                } else {
                    self.strategy.complete_free(ticket);
                }
                Ok(())
            }
            // The second half of a free whose allocation did not fit here.
            None => Ok(()),
            Some(_) => Err(HeapError::UnknownPointer { addr: recorded }.into()),
        }
    }

    fn settings(&mut self, text: &str) -> Result<()> {
        if self.follow.is_as_recorded {
            let index = self.steps - 1;
            let changed = self.strategy.settings(text);
            changed.map_err(|source| DriveError::Settings { index, source })?;
        }
        Ok(())
    }
}

/// The least size of a request's block: its size in the strategy's units.
fn live_bytes<S: Strategy>(requested_bytes: u64) -> u64 {
    requested_bytes.max(1).next_multiple_of(S::GRANULE_BYTES)
}
