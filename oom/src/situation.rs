//! The allocator immediately before a request that is refused, and what-if replays of that one request.

use allocator::heap::{Heap, OomReport, PoolChoice, Request, RestoredBlock, Ticket};
use allocator::size;
use device::Device;
use events::{
    Addr, BaseState, BlockState, BlockStatus, Off, PoolId, ScopeFilter, ScopeState, SegmentState,
    StackId, Stream,
};
use settings::{Compat, Config, UNLIMITED};
use sim_device::{SimConfig, SimDevice};

/// A refused request, with all that the allocator holds when it is made.
pub struct Situation {
    heap: Heap<SimDevice, Off>,
    /// Frees that wait for other streams.
    pending: Vec<Ticket>,
    /// The request.
    pub request: Request,
    /// Its bytes after rounding.
    pub size_bytes: u64,
    /// The segment that the device is asked for.
    pub segment_bytes: u64,
    /// Segments, pools and scopes.
    pub base: BaseState,
    /// The settings.
    pub config: Config,
    /// Memory at the request.
    pub before: Memory,
    /// Memory after everything was tried for it.
    pub after: Memory,
}

/// The device's memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Of the device.
    pub total_bytes: u64,
    /// Not in use.
    pub free_bytes: u64,
    /// Held by the allocator.
    pub reserved_bytes: u64,
    /// What the memory fraction allows; all of the device without one.
    pub allowed_bytes: u64,
}

impl Memory {
    fn of(heap: &mut Heap<SimDevice, Off>) -> Self {
        // The simulated device always answers; a fault cannot be injected here.
        let (total_bytes, free_bytes) = heap
            .device_mut()
            .memory_info()
            .map_or((0, 0), |memory| (memory.total_bytes, memory.free_bytes));
        let allowed_bytes = (heap.memory_fraction() * total_bytes as f64).round() as u64;
        let reserved_bytes = heap.reserved_bytes();
        Self {
            total_bytes,
            free_bytes,
            reserved_bytes,
            allowed_bytes: allowed_bytes.min(total_bytes),
        }
    }

    /// What is left for segments without giving anything back.
    pub fn available_bytes(&self) -> u64 {
        self.free_bytes.min(self.allowed_bytes.saturating_sub(self.reserved_bytes))
    }
}

impl Situation {
    /// The situation of a heap with these pending frees that is given a request; `None` where it serves it.
    pub fn of(
        mut heap: Heap<SimDevice, Off>,
        request: &Request,
        pending: Vec<Ticket>,
    ) -> Option<Self> {
        create_pool(&mut heap, request)?;
        let before = Memory::of(&mut heap);
        let base = heap.base_state();
        let config = heap.config().without_stitch();
        let mut tried = heap.clone();
        if is_served(&mut tried, request) {
            return None;
        }
        let after = Memory::of(&mut tried);
        let size_bytes = size::round(request.requested_bytes, &config);
        let segment_bytes = size::segment_bytes(size_bytes, &config);
        let request = *request;
        Some(Self {
            heap,
            pending,
            request,
            size_bytes,
            segment_bytes,
            base,
            config,
            before,
            after,
        })
    }

    /// The situation of a heap on a real device that just refused a request, from its state after the refusal; `None`
    /// where the state serves the request, because memory was freed since, or cannot be restored.
    pub fn restored(report: &OomReport, base: &BaseState, config: &Config) -> Option<Self> {
        let total_bytes = report.device_total_bytes;
        let held = base.segments.iter().map(|segment| segment.size_bytes);
        let reserved_bytes: u64 = held.sum();
        let mut device = SimDevice::new(SimConfig::with_capacity(total_bytes));
        // Memory of others, in granules: never so little that the request finds room which the device did not have.
        let granule_bytes = SimConfig::GRANULARITY_BYTES;
        let room_bytes = total_bytes.saturating_sub(reserved_bytes);
        let others_bytes = room_bytes.saturating_sub(report.device_free_bytes);
        let most_bytes = room_bytes / granule_bytes * granule_bytes;
        let others_bytes = others_bytes.next_multiple_of(granule_bytes).min(most_bytes);
        if others_bytes > 0 {
            device.malloc(others_bytes).ok()?;
        }
        let mut heap = Heap::new(device, config.without_stitch(), Off).ok()?;
        heap.set_memory_fraction(base.memory_fraction.unwrap_or(1.0)).ok()?;
        let restored = heap.restore(base).ok()?;
        let pending = restored.into_iter().filter_map(|(_, block)| match block {
            RestoredBlock::PendingFree(ticket) => Some(ticket),
            RestoredBlock::Allocated(_) => None,
        });
        let pending = pending.collect();
        let pool = PoolChoice::Exactly(report.pool);
        let (requested_bytes, stream) = (report.requested_bytes, report.stream);
        Self::of(heap, &Request { requested_bytes, stream, pool, stack: StackId::NONE }, pending)
    }

    /// The pool of the request.
    pub fn pool(&self) -> PoolId {
        match self.request.pool {
            PoolChoice::Exactly(pool) => pool,
            PoolChoice::ByScope => PoolId::DEFAULT,
        }
    }

    /// Whether the large half of its pool serves the request.
    pub fn is_large(&self) -> bool {
        !size::is_small(self.size_bytes)
    }

    /// Whether a segment is of the request's pool, half and stream.
    pub fn is_own(&self, segment: &SegmentState) -> bool {
        segment.pool == self.pool()
            && segment.stream == self.request.stream
            && segment.is_large == self.is_large()
    }

    /// Whether a graph capture forbids that the cache is flushed for the request.
    pub fn is_captured(&self) -> bool {
        if self.base.scopes.is_empty() {
            return false;
        }
        let is_own =
            |kind| move |scope: &ScopeState| scope.pool == self.pool() && scope.filter == kind;
        self.config.compat == Compat::V2_11
            || self.base.scopes.iter().any(is_own(ScopeFilter::Capture))
            || self.base.captures.contains(&self.pool())
    }

    /// Whether the allocator may return free segments of these for the request.
    pub fn is_flushed(&self, segment: &SegmentState) -> bool {
        let releases_oversize = self.config.max_split_size_bytes != UNLIMITED
            && self.is_own(segment)
            && !segment.is_expandable;
        let is_limited = self.before.allowed_bytes < self.before.total_bytes;
        let collects_garbage = is_limited
            && self.config.garbage_collection_threshold > 0.0
            && segment.pool.is_default()
            && segment.is_large
            && !segment.is_expandable;
        let has_no_user =
            || self.base.pools.iter().all(|it| it.pool != segment.pool || it.use_count == 0);
        releases_oversize
            || collects_garbage
            || (!self.is_captured() && (segment.pool.is_default() || has_no_user()))
    }

    /// Whether the request is served if these blocks are freed immediately before it.
    pub fn serves_without(&self, freed: impl IntoIterator<Item = Addr>) -> bool {
        let mut heap = self.heap.clone();
        for addr in freed {
            if heap.free(addr, StackId::NONE).is_err() {
                return false;
            }
        }
        is_served(&mut heap, &self.request)
    }

    /// Whether the cache of another stream or pool serves the same request.
    pub fn serves_from(&self, stream: Stream, pool: PoolId) -> bool {
        let mut heap = self.heap.clone();
        let request = Request { stream, pool: PoolChoice::Exactly(pool), ..self.request };
        heap.malloc_cached(&request).is_ok_and(|answer| answer.is_ok())
    }

    /// Whether the request is served where sizes are rounded to 512 bytes only.
    pub fn serves_without_rounding(&self) -> bool {
        let mut heap = self.heap.clone();
        let roundup_power2_divisions = Config::default().roundup_power2_divisions;
        heap.set_config(Config { roundup_power2_divisions, ..self.config.clone() });
        is_served(&mut heap, &self.request)
    }

    /// Whether the request is served once all frees that wait for other streams are complete.
    pub fn serves_after_pending(&self) -> bool {
        let mut heap = self.heap.clone();
        self.pending.iter().for_each(|ticket| heap.complete_free(*ticket));
        is_served(&mut heap, &self.request)
    }

    /// The blocks that are handed out, by address.
    pub fn live(&self) -> impl Iterator<Item = &BlockState> {
        let blocks = self.base.segments.iter().flat_map(|segment| &segment.blocks);
        blocks.filter(|block| block.status == BlockStatus::Allocated)
    }
}

/// Gives a heap a request, and returns whether it is served.
fn is_served(heap: &mut Heap<SimDevice, Off>, request: &Request) -> bool {
    create_pool(heap, request).is_some_and(|()| heap.malloc(request).is_ok())
}

/// Creates the pool of a request, where a run names one that it did not create.
fn create_pool(heap: &mut Heap<SimDevice, Off>, request: &Request) -> Option<()> {
    if let PoolChoice::Exactly(pool) = request.pool
        && !pool.is_default()
        && heap.pool_use_count(pool).is_err()
    {
        heap.create_pool(pool, None).ok()?;
    }
    Some(())
}
