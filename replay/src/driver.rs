//! Drives the real allocator with a tape's inputs, by the replay rule: a recorded `FreeCompleted` is the moment its
//! event is done, under any settings; a flush that the recording did not have completes all pending frees; recorded
//! block addresses are names of blocks and nothing more.

use std::sync::Arc;

use allocator::config::{Config, ConfigError};
use allocator::device::DeviceError;
use allocator::device::sim::SimDevice;
use allocator::heap::{AllocError, Heap, HeapError, PoolChoice, Request, RestoredBlock, Ticket};
use allocator::record::Recorder;
use allocator::size::MIN_BLOCK_BYTES;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use trace_format::{Addr, BaseState, BlockStatus, Event, Record};

/// Which inputs of the tape are followed besides allocations and frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Run-time changes of the settings; off where the settings are the question.
    pub settings: bool,
    /// Cache flushes that an importer concluded from segments that went away.
    pub inferred_empty_cache: bool,
}

impl Default for Follow {
    fn default() -> Self {
        Self { settings: true, inferred_empty_cache: true }
    }
}

/// A tape that the allocator cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// An event contradicts what came before it.
    #[error("record {index}: {reason}; the tape is damaged or was edited, try `vramtape info`")]
    Contradiction {
        /// Number of the record on its device, from 0.
        index: u64,
        /// What does not fit.
        reason: String,
    },
    /// Recorded settings that do not parse.
    #[error("record {index}: settings: {source}")]
    Settings {
        /// Number of the record on its device, from 0.
        index: u64,
        /// What is wrong with them.
        source: ConfigError,
    },
    /// The state the tape starts from does not fit the device.
    #[error("the recorded start does not fit: {0}; try a larger --capacity")]
    Base(AllocError),
    /// The simulated device failed other than by being full.
    #[error("the simulated device failed: {0}")]
    Device(#[from] DeviceError),
}

/// Where a recorded block is in the replay.
#[derive(Clone, Copy, Debug)]
enum Live {
    Held {
        addr: Addr,
        bytes: u64,
    },
    Waiting {
        ticket: Ticket,
        bytes: u64,
    },
    /// The replay had no memory for it.
    Absent,
}

/// A replay in progress.
#[derive(Clone)]
pub struct Driver<R> {
    heap: Heap<SimDevice, R>,
    follow: Follow,
    live: HashMap<u64, Live, FxBuildHasher>,
    /// The recorded device refused memory and the recorded retry chain is at work: what completes now was completed
    /// by its flush.
    refused: bool,
    /// Completions of that flush, for a replay that has no flush here.
    late: Vec<Ticket>,
    live_bytes: u64,
    peak_live_bytes: u64,
    steps: u64,
}

impl<R: Recorder> Driver<R> {
    /// A replay that starts from `base` on an empty device.
    ///
    /// # Errors
    /// When the device has no room for what is there at the start.
    pub fn new(
        device: SimDevice,
        config: Config,
        recorder: R,
        base: &BaseState,
        follow: Follow,
    ) -> Result<Self, DriveError> {
        let mut heap = Heap::new(device, config, recorder)?;
        if let Some(fraction) = base.memory_fraction {
            heap.set_memory_fraction(fraction).map_err(|error| DriveError::Base(error.into()))?;
        }
        let mut live = HashMap::with_capacity_and_hasher(4096, FxBuildHasher);
        let held = base.segments.iter().flat_map(|segment| &segment.blocks);
        let held = held.filter(|block| block.status != BlockStatus::Inactive);
        let bytes_at: HashMap<u64, u64> =
            held.map(|block| (block.addr.0, live_bytes(block.requested_bytes))).collect();
        for (recorded, block) in heap.restore(base).map_err(DriveError::Base)? {
            let bytes = bytes_at.get(&recorded.0).copied().unwrap_or_default();
            let state = match block {
                RestoredBlock::Allocated(addr) => Live::Held { addr, bytes },
                RestoredBlock::PendingFree(ticket) => Live::Waiting { ticket, bytes },
            };
            live.insert(recorded.0, state);
        }
        let live_bytes = bytes_at.values().sum();
        Ok(Self {
            heap,
            follow,
            live,
            refused: false,
            late: Vec::new(),
            live_bytes,
            peak_live_bytes: live_bytes,
            steps: 0,
        })
    }

    /// Limits the allocator to a fraction of the device, as if set at the start.
    ///
    /// # Errors
    /// When the fraction is outside `[0, 1]`.
    pub fn limit(&mut self, fraction: f64) -> Result<(), DriveError> {
        self.heap.set_memory_fraction(fraction).map_err(|error| DriveError::Base(error.into()))
    }

    /// The allocator.
    pub fn heap(&self) -> &Heap<SimDevice, R> {
        &self.heap
    }

    /// The allocator.
    pub fn heap_mut(&mut self) -> &mut Heap<SimDevice, R> {
        &mut self.heap
    }

    /// The most bytes that were alive at once, each request rounded up to 512 bytes, until its free completed: no
    /// policy can reserve less.
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    /// Follows one record; `text` looks interned strings up.
    ///
    /// # Errors
    /// When the record contradicts the ones before it, or its settings do not parse.
    pub fn step<'t>(
        &mut self,
        record: &Record,
        text: impl Fn(trace_format::StringId) -> &'t str,
    ) -> Result<(), DriveError> {
        self.steps += 1;
        let followed = match record.event {
            Event::Alloc { addr, requested_bytes, stream, pool, .. } => {
                let request = Request {
                    requested_bytes,
                    stream,
                    pool: PoolChoice::Exactly(pool),
                    stack: record.stack,
                };
                self.alloc(addr, &request)
            }
            Event::Free { addr, pending, .. } => self.free(addr, pending, record),
            Event::FreeCompleted { addr, .. } => self.complete(addr),
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
            Event::EmptyCache { pool, .. } => {
                self.heap.empty_cache(pool, record.stack).map_err(AllocError::from)
            }
            Event::Settings { text: id } => return self.settings(text(id)),
            ref other => self.pools_and_counters(other).map_err(AllocError::from),
        };
        followed.map_err(|error| match error {
            AllocError::Device(error) => DriveError::Device(error),
            error => DriveError::Contradiction { index: self.steps - 1, reason: error.to_string() },
        })
    }

    fn alloc(&mut self, recorded: Addr, request: &Request) -> Result<(), AllocError> {
        let bytes = live_bytes(request.requested_bytes);
        let state = match self.malloc(request)? {
            Some(addr) => {
                self.live_bytes += bytes;
                self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
                Live::Held { addr, bytes }
            }
            None => Live::Absent,
        };
        self.live.insert(recorded.0, state);
        Ok(())
    }

    /// Asks again for what the recording could not have. Where this replay can, it is given back at once: nobody used
    /// it in the recording.
    fn retry_recorded_oom(&mut self, request: &Request) -> Result<(), AllocError> {
        if let Some(addr) = self.malloc(request)? {
            self.heap.free(addr, request.stack)?;
        }
        Ok(())
    }

    /// `None` when memory is out.
    fn malloc(&mut self, request: &Request) -> Result<Option<Addr>, AllocError> {
        if let PoolChoice::Exactly(pool) = request.pool
            && !pool.is_default()
            && self.heap.pool_use_count(pool).is_err()
        {
            self.heap.create_pool(pool, None)?;
        }
        let answer = self.heap.malloc(request);
        self.refused = false;
        for ticket in self.late.drain(..) {
            self.heap.complete_free(ticket);
        }
        match answer {
            Ok(addr) => Ok(Some(addr)),
            Err(AllocError::OutOfMemory(_) | AllocError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free(&mut self, recorded: Addr, pending: bool, record: &Record) -> Result<(), AllocError> {
        match self.live.get_mut(&recorded.0) {
            Some(state @ Live::Held { .. }) => {
                let Live::Held { addr, bytes } = *state else { unreachable!("matched above") };
                if pending {
                    let ticket = self.heap.free_deferred(addr, record.stack)?;
                    *state = Live::Waiting { ticket, bytes };
                    return Ok(());
                }
                self.live.remove(&recorded.0);
                self.live_bytes -= bytes;
                self.heap.free(addr, record.stack)
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
            Some(Live::Waiting { ticket, bytes }) => {
                self.live_bytes -= bytes;
                if self.refused {
                    self.heap.flush_last(ticket);
                    self.late.push(ticket);
                } else {
                    self.heap.complete_free(ticket);
                }
                Ok(())
            }
            // The second half of a free whose allocation had no room here.
            None => Ok(()),
            Some(_) => Err(HeapError::UnknownPointer { addr: recorded }.into()),
        }
    }

    fn settings(&mut self, text: &str) -> Result<(), DriveError> {
        if self.follow.settings {
            let index = self.steps - 1;
            let parsed = self.heap.config().reparse(text);
            let parsed = parsed.map_err(|source| DriveError::Settings { index, source })?;
            self.heap.set_config(parsed.config);
        }
        Ok(())
    }

    fn pools_and_counters(&mut self, event: &Event) -> Result<(), HeapError> {
        let heap = &mut self.heap;
        match *event {
            Event::PoolCreate { pool, .. } => heap.create_pool(pool, None),
            // Requests of a tape name their pool, so the scope's filter takes nobody.
            Event::PoolBegin { pool, filter } => heap.begin_pool(pool, filter, Arc::new(|_| false)),
            Event::PoolEnd { pool } => heap.end_pool(pool),
            Event::PoolRelease { pool } => heap.release_pool(pool),
            Event::PoolUseOnOom { pool, enabled } => {
                heap.set_use_on_oom(pool, enabled);
                Ok(())
            }
            Event::PoolNoSplit { pool } => {
                heap.set_no_split(pool);
                Ok(())
            }
            Event::CaptureBegin { pool } => heap.capture_begin(pool),
            Event::CaptureEnd { pool } => heap.capture_end(pool),
            Event::MemoryFraction { fraction } => heap.set_memory_fraction(fraction),
            Event::ResetPeak => {
                heap.reset_peak_stats();
                Ok(())
            }
            Event::ResetAccumulated => {
                heap.reset_accumulated_stats();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What a request holds at least: its size in units of 512 bytes.
fn live_bytes(requested_bytes: u64) -> u64 {
    requested_bytes.max(1).next_multiple_of(MIN_BLOCK_BYTES)
}
