//! One device's heap: the allocator itself, deterministic and without a lock.
//!
//! Read `hot_path.rs` first: a cache hit and a free, from top to bottom. A miss grows the heap (`grow.rs`, `map.rs`) or
//! releases cached memory (`release.rs`, `gc.rs`); a free of memory that other streams used waits (`pending.rs`). It
//! mirrors PyTorch's `DeviceCachingAllocator`, placement for placement.

mod base;
mod capture_deferred;
mod check;
mod checkpoint;
mod deferred;
mod error;
mod gc;
mod grow;
mod hot_path;
mod malloc;
mod map;
mod oom;
mod order;
mod page_parts;
mod pending;
mod pools;
mod reject;
mod release;
mod restore;
mod runs;
mod share;
mod snapshot;
mod stitch;

use alloc::vec::Vec;

pub use checkpoint::{CheckpointDelta, PoolCheckpoint};
pub use error::{AllocError, HeapError};
pub use malloc::{Miss, PoolChoice, Request};
pub use oom::OomReport;
pub use pending::Ticket;
pub use pools::Filter;
pub use reject::Rejection;
pub use restore::{Restored, RestoredBlock};
pub use runs::{BaseRange, base_ranges};
pub use share::SharedPages;
pub use snapshot::MappedRun;

use events::{Addr, Category, DeviceId, Event, PoolId, StackId, Stream};

use crate::arena::BlockId;
use crate::blocks::Blocks;
use crate::cast;
use crate::expandable::Ranges;
use crate::pool::Pools;
use crate::segment_ranks::SegmentRanks;
use crate::size;
use crate::stats::{Counters, Stats};
use crate::stitch::Stitch;
use device::{Device, Result};
use events::Recorder;
use pending::Pending;
use pools::Scope;
use settings::{Compat, Config};
use share::IpcMemory;

/// The caching allocator of one device. A clone over a cloned device is a what-if: it shares nothing with the original.
#[derive(Clone)]
pub struct Heap<D, R> {
    device: D,
    recorder: R,
    config: Config,
    /// Whether the settings let every request be rounded to 512 bytes.
    rounds_plainly: bool,
    stats: Counters,
    blocks: Blocks,
    pools: Pools,
    /// Open pool scopes, the newest last.
    scopes: Vec<Scope>,
    pending: Pending,
    ranges: Ranges,
    stitch: Stitch,
    ipc: IpcMemory,
    peers: Vec<DeviceId>,
    device_total_bytes: u64,
    /// The fraction's limit on `reserved_bytes`; `None` is no limit.
    allowed_bytes: Option<u64>,
    ranks: SegmentRanks,
    /// Segments and mapped pages, as the device counts them.
    reserved_bytes: u64,
    /// Stack of the call in progress, for the effects it records.
    stack: StackId,
}

/// A live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes of its block: those asked for, rounded up.
    pub size_bytes: u64,
    /// The stream it was made for.
    pub stream: Stream,
    /// The pool it is from.
    pub pool: PoolId,
    /// The stack of the call that it was handed out to.
    pub stack: StackId,
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// A heap that holds nothing yet.
    ///
    /// # Errors
    /// When the device cannot say how much memory it has.
    pub fn new(mut device: D, config: Config, recorder: R) -> Result<Self> {
        let device_total_bytes = device.memory_info()?.total_bytes;
        let mut heap = Self {
            device,
            recorder,
            stats: Counters::new(config.compat, config.max_split_size_bytes),
            blocks: Blocks::new(),
            pools: Pools::default(),
            scopes: Vec::new(),
            pending: Pending::default(),
            ranges: Ranges::default(),
            stitch: Stitch::new(config.stitch, config.plan.clone()),
            ipc: IpcMemory::default(),
            peers: Vec::new(),
            device_total_bytes,
            allowed_bytes: None,
            ranks: SegmentRanks::default(),
            reserved_bytes: 0,
            stack: StackId::NONE,
            rounds_plainly: size::rounds_plainly(&config),
            config,
        };
        heap.limit_to(heap.config.per_process_memory_fraction);
        Ok(heap)
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the settings from here on (`_set_allocator_settings`); what is cached stays as it is.
    pub fn set_config(&mut self, config: Config) {
        tracing::info!(settings = config.text, "allocator settings");
        let text = self.recorder.intern(&config.text);
        self.recorder.record(StackId::NONE, Event::Settings { text });
        self.rounds_plainly = size::rounds_plainly(&config);
        self.config = config;
    }

    /// Limits reserved memory to a fraction of the device's (`set_per_process_memory_fraction`).
    ///
    /// # Errors
    /// When the fraction is outside `[0, 1]`.
    pub fn set_memory_fraction(&mut self, fraction: f64) -> Result<(), HeapError> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(HeapError::InvalidFraction { fraction });
        }
        self.recorder.record(StackId::NONE, Event::MemoryFraction { fraction });
        self.limit_to(fraction);
        Ok(())
    }

    /// The limit as a fraction of the device's memory; 1 is no limit.
    pub fn memory_fraction(&self) -> f64 {
        self.allowed_bytes.map_or(1.0, |allowed| allowed as f64 / self.device_total_bytes as f64)
    }

    fn limit_to(&mut self, fraction: f64) {
        self.allowed_bytes = (fraction < 1.0).then_some(self.share_bytes(fraction));
    }

    /// This fraction of the device's memory, to PyTorch's byte.
    fn share_bytes(&self, fraction: f64) -> u64 {
        let bytes = fraction * self.device_total_bytes as f64;
        match self.config.compat {
            Compat::V2_11 => cast::whole_bytes(bytes),
            Compat::V2_15 => settings::nearest(bytes),
        }
    }

    /// The statistics, with PyTorch's update points.
    pub fn stats(&self) -> Stats {
        self.stats.stats()
    }

    /// Sets every peak to its current value.
    pub fn reset_peak_stats(&mut self) {
        self.recorder.record(StackId::NONE, Event::ResetPeak);
        self.stats.reset_peak();
    }

    /// Zeroes the accumulated counters.
    pub fn reset_accumulated_stats(&mut self) {
        self.recorder.record(StackId::NONE, Event::ResetAccumulated);
        self.stats.reset_accumulated();
    }

    /// Bytes of segments and mapped pages held from the device.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// Those of them that private pools hold.
    pub fn private_reserved_bytes(&self) -> u64 {
        self.stats.private_reserved_bytes
    }

    /// The segment that an allocation lies in, from its base on (`getBaseAllocation`).
    ///
    /// # Errors
    /// When the address was not handed out, or lies in an expandable segment, which cannot be shared as one piece.
    pub fn base_allocation(&self, addr: Addr) -> Result<(Addr, u64), HeapError> {
        let id = self.find(addr)?;
        if self.blocks[id].range.is_some() {
            return Err(HeapError::Expandable { addr });
        }
        let mut first = id;
        while let Some(prev) = self.blocks[first].prev {
            first = prev;
        }
        let mut last = id;
        while let Some(next) = self.blocks[last].next {
            last = next;
        }
        let base = self.blocks[first].addr;
        Ok((base, self.blocks[last].end().0 - base.0))
    }

    /// Records what the program keeps in the block at this address; `false` where no block that is handed out starts
    /// there.
    pub fn categorize(&mut self, addr: Addr, category: Category) -> bool {
        let is_known = self.find(addr).is_ok();
        if is_known {
            self.recorder.record(StackId::NONE, Event::Category { addr, category });
        }
        is_known
    }

    /// What is known of an allocation.
    ///
    /// # Errors
    /// When the address was not handed out.
    pub fn allocation(&self, addr: Addr) -> Result<Allocation, HeapError> {
        let id = self.find(addr)?;
        let block = &self.blocks[id];
        Ok(Allocation {
            requested_bytes: block.requested_bytes,
            size_bytes: block.size_bytes,
            stream: self.blocks.stream_of(id),
            pool: self.pools.id_of(self.blocks.pool_of(id)),
            stack: block.stack,
        })
    }

    /// Lets `peer` read and write this device's expandable segments, those to come included (`enablePeerAccess`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn add_peer(&mut self, peer: DeviceId) -> Result<()> {
        if self.peers.contains(&peer) {
            return Ok(());
        }
        for range in self.ranges.iter_mut().chain(&mut self.ipc.imported) {
            range.add_peer(&mut self.device, peer)?;
        }
        self.open_runs_to(peer)?;
        self.peers.push(peer);
        Ok(())
    }

    /// Direct device access. Memory obtained here is not tracked.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The recorder.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// The recorder.
    pub fn recorder_mut(&mut self) -> &mut R {
        &mut self.recorder
    }

    /// Addresses handed out and not given back.
    pub fn allocations(&self) -> usize {
        self.blocks.addresses.len()
    }

    fn find(&self, addr: Addr) -> Result<BlockId, HeapError> {
        self.blocks.find(addr).ok_or(HeapError::UnknownPointer { addr })
    }

    /// Whether a block or segment counts as oversize under the limit in force.
    #[inline]
    fn is_oversize(&self, size_bytes: u64) -> bool {
        Stats::is_oversize(size_bytes, self.config.max_split_size_bytes)
    }

    fn record(&mut self, event: Event) {
        self.recorder.record(self.stack, event);
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "the recorder folds what it knows of the event")]
    fn record_block(&mut self, id: BlockId, event: Event) {
        self.recorder.record_block(id.slot(), self.stack, event, &self.stats);
    }
}
