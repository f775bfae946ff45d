//! The allocator immediately before a request that is refused, and what-if replays of that one request.

use allocator::heap::{PoolChoice, Request};
use allocator::size;
use device::Device;
use events::Off;
use settings::{Compat, Config, UNLIMITED};
use trace_format::{
    Addr, BaseState, BlockStatus, Event, PoolId, Record, ScopeFilter, ScopeState, SegmentState,
    StackId, Stream,
};

use crate::driver::Driver;
use crate::strategy::{Native, Strategy};

/// A refused request, with all that the allocator holds when it is made.
pub(super) struct Situation {
    strategy: Native<Off>,
    /// The request.
    pub(super) request: Request,
    /// Its bytes after rounding.
    pub(super) size_bytes: u64,
    /// The segment that the device is asked for.
    pub(super) segment_bytes: u64,
    /// Segments, pools and scopes.
    pub(super) base: BaseState,
    /// The settings.
    pub(super) config: Config,
    /// Memory at the request.
    pub(super) before: Memory,
    /// Memory after everything was tried for it.
    pub(super) after: Memory,
}

/// The device's memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "units are part of names")]
pub(super) struct Memory {
    /// Of the device.
    pub(super) total_bytes: u64,
    /// Not in use.
    pub(super) free_bytes: u64,
    /// Held by the allocator.
    pub(super) reserved_bytes: u64,
    /// What the memory fraction allows; all of the device without one.
    pub(super) allowed_bytes: u64,
}

impl Memory {
    fn of(strategy: &mut Native<Off>) -> Self {
        let heap = strategy.heap_mut();
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
    pub(super) fn available_bytes(&self) -> u64 {
        self.free_bytes.min(self.allowed_bytes.saturating_sub(self.reserved_bytes))
    }
}

impl Situation {
    /// The situation of a replay that comes to a record whose request it refuses; `None` where the record makes no
    /// request, or it is served.
    pub(super) fn of(driver: &Driver<Native<Off>>, record: &Record) -> Option<Self> {
        let (Event::Alloc { requested_bytes, stream, pool, .. }
        | Event::Oom { requested_bytes, stream, pool, .. }) = record.event
        else {
            return None;
        };
        let pool = PoolChoice::Exactly(pool);
        let request = Request { requested_bytes, stream, pool, stack: record.stack };
        let mut strategy = driver.strategy().clone();
        let before = Memory::of(&mut strategy);
        let base = strategy.heap().base_state();
        let config = strategy.heap().config().clone();
        let mut tried = strategy.clone();
        let is_served = tried.malloc(&request).is_ok_and(|block| block.is_some());
        if is_served {
            return None;
        }
        let after = Memory::of(&mut tried);
        let size_bytes = size::round(requested_bytes, &config);
        let segment_bytes = size::segment_bytes(size_bytes, &config);
        Some(Self { strategy, request, size_bytes, segment_bytes, base, config, before, after })
    }

    /// The pool of the request.
    pub(super) fn pool(&self) -> PoolId {
        match self.request.pool {
            PoolChoice::Exactly(pool) => pool,
            PoolChoice::ByScope => PoolId::DEFAULT,
        }
    }

    /// Whether the large half of its pool serves the request.
    pub(super) fn is_large(&self) -> bool {
        !size::is_small(self.size_bytes)
    }

    /// Whether a segment is of the request's pool, half and stream.
    pub(super) fn is_own(&self, segment: &SegmentState) -> bool {
        segment.pool == self.pool()
            && segment.stream == self.request.stream
            && segment.is_large == self.is_large()
    }

    /// Whether a graph capture forbids that the cache is flushed for the request.
    pub(super) fn is_captured(&self) -> bool {
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
    pub(super) fn is_flushed(&self, segment: &SegmentState) -> bool {
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
    pub(super) fn serves_without(&self, freed: impl IntoIterator<Item = Addr>) -> bool {
        let mut strategy = self.strategy.clone();
        for addr in freed {
            if strategy.heap_mut().free(addr, StackId::NONE).is_err() {
                return false;
            }
        }
        is_served(&mut strategy, &self.request)
    }

    /// Whether the cache of another stream or pool serves the same request.
    pub(super) fn serves_from(&self, stream: Stream, pool: PoolId) -> bool {
        let mut strategy = self.strategy.clone();
        let request = Request { stream, pool: PoolChoice::Exactly(pool), ..self.request };
        strategy.heap_mut().malloc_cached(&request).is_ok_and(|answer| answer.is_ok())
    }

    /// Whether the request is served where sizes are rounded to 512 bytes only.
    pub(super) fn serves_without_rounding(&self) -> bool {
        let mut strategy = self.strategy.clone();
        let roundup_power2_divisions = Config::default().roundup_power2_divisions;
        strategy.heap_mut().set_config(Config { roundup_power2_divisions, ..self.config.clone() });
        is_served(&mut strategy, &self.request)
    }

    /// Whether the request is served once all frees that wait for other streams are complete.
    pub(super) fn serves_after_pending(&self, driver: &Driver<Native<Off>>) -> bool {
        let mut driver = driver.clone();
        driver.complete_pending();
        let mut strategy = driver.strategy().clone();
        is_served(&mut strategy, &self.request)
    }

    /// The blocks that are handed out, with their segments.
    pub(super) fn live(&self) -> impl Iterator<Item = (&SegmentState, Addr, u64)> {
        self.base.segments.iter().flat_map(|segment| {
            let live = segment.blocks.iter().filter(|it| it.status == BlockStatus::Allocated);
            live.map(move |block| (segment, block.addr, block.size_bytes))
        })
    }
}

fn is_served(strategy: &mut Native<Off>, request: &Request) -> bool {
    strategy.malloc(request).is_ok_and(|block| block.is_some())
}
