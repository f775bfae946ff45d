//! The allocator that runs live, as a strategy: PyTorch's policy with all its settings, expandable segments included.

use crate::drive_error::Result;
use std::ops::RangeInclusive;
use std::sync::Arc;

use allocator::heap::{AllocError, Heap, HeapError, PoolChoice, Request, RestoredBlock, Ticket};
use allocator::size::page_bytes;
use device::{Device, DeviceCall};
use settings::{Config, ConfigError, SegmentReserve};
use sim_device::SimDevice;
use trace_format::{
    Addr, BaseOrder, BaseState, Category, Event, PoolId, Record, SegmentState, StackId, Stream,
};

use super::{ReplayTotals, Start, Starts, Strategy, request_anew};
use crate::drive_error::DriveError;
use crate::timeline::Witness;

/// The real heap on a simulated device.
#[derive(Clone)]
pub struct Native<R> {
    heap: Heap<SimDevice, R>,
    /// What resets of the statistics took away.
    before_resets: ReplayTotals,
    /// `num_sync_all_streams` when it was asked last.
    waits_seen: i64,
    /// Whether the start held segments.
    has_base: bool,
    /// Whether the settings are those of the recording: `stitch` takes over its own runs then.
    is_as_recorded: bool,
}

impl<R: Witness> Native<R> {
    /// A heap that holds nothing yet.
    ///
    /// # Errors
    /// When the device cannot say how much memory it has.
    pub fn new(device: SimDevice, config: Config, recorder: R) -> Result<Self> {
        let heap = Heap::new(device, config, recorder)?;
        let before_resets = ReplayTotals::default();
        Ok(Self { heap, before_resets, waits_seen: 0, has_base: false, is_as_recorded: false })
    }

    /// The same, where the settings are those of the recording.
    #[must_use]
    pub fn as_recorded(self, is_as_recorded: bool) -> Self {
        Self { is_as_recorded, ..self }
    }

    /// The allocator.
    pub fn heap(&self) -> &Heap<SimDevice, R> {
        &self.heap
    }

    /// The allocator.
    pub fn heap_mut(&mut self) -> &mut Heap<SimDevice, R> {
        &mut self.heap
    }

    fn with_peaks(&self, totals: ReplayTotals) -> ReplayTotals {
        let stats = self.heap.stats();
        let peak = |before: u64, now: i64| before.max(now as u64);
        ReplayTotals {
            peak_allocated_bytes: peak(totals.peak_allocated_bytes, stats.allocated_bytes.all.peak),
            peak_reserved_bytes: peak(totals.peak_reserved_bytes, stats.reserved_bytes.all.peak),
            ..totals
        }
    }

    fn with_sums(&self, totals: ReplayTotals) -> ReplayTotals {
        let stats = self.heap.stats();
        ReplayTotals {
            device_allocs: totals.device_allocs + stats.num_device_alloc,
            device_frees: totals.device_frees + stats.num_device_free,
            retries: totals.retries + stats.num_alloc_retries,
            ooms: totals.ooms + stats.num_ooms,
            allocs: totals.allocs + stats.allocation.all.allocated,
            frees: totals.frees + stats.allocation.all.freed,
            ..totals
        }
    }
}

/// Whether a mapped run is one that pages of these settings can make, or the smaller ones that `stitch` has for
/// all runs.
fn is_whole_pages(run: &SegmentState, config: &Config) -> bool {
    let pages = [page_bytes(!run.is_large, config), page_bytes(true, config)];
    !run.is_expandable || pages.iter().any(|page_bytes| run.size_bytes.is_multiple_of(*page_bytes))
}

impl<R: Witness> Strategy for Native<R> {
    const GRANULE_BYTES: u64 = allocator::size::MIN_BLOCK_BYTES;
    type Block = Addr;
    type Ticket = Ticket;

    fn restore(&mut self, base: &BaseState) -> Result<Starts<Self>> {
        if let Some(fraction) = base.memory_fraction {
            let limited = self.heap.set_memory_fraction(fraction);
            limited.map_err(|error| DriveError::Base(error.into()))?;
        }
        // Runs of `stitch` may have parts of pages.
        let is_stitched = |run: &SegmentState| run.pool.is_default() && !base.pages.is_empty();
        let is_known = |run: &SegmentState| !base.order.ranges.is_empty() || is_stitched(run);
        if let Some(run) = base
            .segments
            .iter()
            .find(|run| !is_known(run) && !is_whole_pages(run, self.heap.config()))
        {
            let SegmentState { addr, size_bytes, .. } = run;
            let reason = format!(
                "at the start {size_bytes} bytes are mapped at {addr}, which are no whole pages under \
                 these settings"
            );
            return Err(DriveError::Contradiction { index: 0, reason });
        }
        self.has_base = !base.segments.is_empty();
        let is_run = |segment: &SegmentState| segment.is_expandable || !segment.pool.is_default();
        let is_own = self.is_as_recorded && base.segments.iter().all(is_run);
        if self.heap.config().stitch.is_some() && !is_own {
            // No segment of the recording is one of `stitch`: pools, scopes and settings are taken over alone.
            let (segments, order) = (Vec::new(), BaseOrder::default());
            let bare = BaseState { segments, order, ..base.clone() };
            self.heap.restore(&bare).map_err(DriveError::Base)?;
            return request_anew(self, base);
        }
        let restored = self.heap.restore(base).map_err(DriveError::Base)?;
        let starts = restored.into_iter().map(|(recorded, block)| match block {
            RestoredBlock::Allocated(addr) => (recorded, Start::Held(addr)),
            RestoredBlock::PendingFree(ticket) => (recorded, Start::Waiting(ticket)),
        });
        Ok(starts.collect())
    }

    fn at(&mut self, record: &Record) {
        self.heap.recorder_mut().at(record);
    }

    fn malloc(&mut self, request: &Request) -> Result<Option<Addr>, AllocError> {
        if let PoolChoice::Exactly(pool) = request.pool
            && !pool.is_default()
            && self.heap.pool_use_count(pool).is_err()
        {
            self.heap.create_pool(pool, None)?;
        }
        match self.heap.malloc(request) {
            Ok(addr) => Ok(Some(addr)),
            Err(
                AllocError::OutOfMemory(_) | AllocError::Rejected(_) | AllocError::TooLarge { .. },
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free(&mut self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        self.heap.free(addr, stack)
    }

    fn free_deferred(&mut self, addr: Addr, stack: StackId) -> Result<Ticket, AllocError> {
        Ok(self.heap.free_deferred(addr, stack)?)
    }

    fn complete_free(&mut self, ticket: Ticket) {
        self.heap.complete_free(ticket);
    }

    fn flush_last(&mut self, ticket: Ticket) {
        self.heap.flush_last(ticket);
    }

    fn record_stream(&mut self, addr: Addr, stream: Stream, stack: StackId) {
        self.heap.recorder_mut().record(stack, Event::RecordStream { addr, stream });
    }

    fn categorize(&mut self, addr: Addr, category: Category, stack: StackId) {
        self.heap.recorder_mut().record(stack, Event::Category { addr, category });
    }

    fn has_waited(&mut self) -> bool {
        let waits = self.heap.stats().num_sync_all_streams;
        std::mem::replace(&mut self.waits_seen, waits) != waits
    }

    fn empty_cache(&mut self, pool: PoolId, stack: StackId) -> Result<(), AllocError> {
        Ok(self.heap.empty_cache(pool, stack)?)
    }

    fn input(&mut self, event: &Event) -> Result<(), HeapError> {
        let heap = &mut self.heap;
        match *event {
            Event::PoolCreate { pool, .. } => heap.create_pool(pool, None),
            // Requests of a tape name their pool, so the scope's filter takes no stream.
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
            Event::StreamPassed { stream, frees } => {
                heap.pass_stream(stream, frees);
                Ok(())
            }
            Event::MemoryFraction { fraction } => heap.set_memory_fraction(fraction),
            Event::ResetPeak => {
                self.before_resets = self.with_peaks(self.before_resets);
                self.heap.reset_peak_stats();
                Ok(())
            }
            Event::ResetAccumulated => {
                self.before_resets = self.with_sums(self.before_resets);
                self.heap.reset_accumulated_stats();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn settings(&mut self, text: &str) -> Result<(), ConfigError> {
        let parsed = self.heap.config().reparse(text)?;
        self.heap.set_config(parsed.config);
        Ok(())
    }

    /// Expandable segments reserve addresses by the capacity. As long as none gives its addresses back, each lies above
    /// the one before it, whatever the capacity is. A start that is not empty has addresses of its own.
    fn same_with(&mut self) -> Option<RangeInclusive<u64>> {
        let config = self.heap.config();
        let is_expandable = config.expandable_segments || config.stitch.is_some();
        let has_reserve = config.segment_reserve != SegmentReserve::Default;
        let device = self.heap.device_mut();
        let was_unreserved = device.counts().of(DeviceCall::Unreserve) > 0;
        if !is_expandable {
            return Some(device.peak_used_bytes()..=device.least_refused_bytes() - 1);
        }
        if was_unreserved || self.has_base || has_reserve {
            return None;
        }
        let first = device.peak_used_bytes();
        let capacity_bytes = device.memory_info().ok()?.total_bytes;
        // A request that no range of addresses can hold is refused without a call.
        let ReplayTotals { retries, ooms, .. } = self.totals();
        let was_refused = retries > 0 || ooms > 0;
        Some(first..=if was_refused { capacity_bytes } else { u64::MAX - 1 })
    }

    fn reserved_bytes(&self) -> u64 {
        self.heap.reserved_bytes()
    }

    fn private_reserved_bytes(&self) -> u64 {
        self.heap.private_reserved_bytes()
    }

    fn driver_calls(&mut self) -> u64 {
        self.heap.device_mut().counts().total()
    }

    fn totals(&mut self) -> ReplayTotals {
        let totals = self.with_sums(self.with_peaks(self.before_resets));
        let device = self.heap.device_mut();
        let (counts, peak_mapped_bytes) = (device.counts(), device.peak_mapped_bytes());
        ReplayTotals {
            peak_mapped_bytes,
            driver_calls: counts.total(),
            driver_maps: counts.of(DeviceCall::Map),
            driver_time_ns: counts.price_ns(),
            ..totals
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::{Compat, StitchConfig};
    use sim_device::SimConfig;
    use trace_format::{BlockState, BlockStatus, PoolState, ScopeFilter, ScopeState};

    use super::*;
    use crate::timeline::Timeline;

    #[test]
    fn stitch_takes_over_open_scopes_and_pools_that_have_no_users() {
        let [open, released] = [1, 2].map(|number| PoolId(0, number));
        let block = |addr| BlockState {
            addr: Addr(addr),
            size_bytes: 4 << 20,
            requested_bytes: 4 << 20,
            status: BlockStatus::Allocated,
            stack: StackId::NONE,
        };
        let segment = |addr, pool| SegmentState {
            addr: Addr(addr),
            size_bytes: 4 << 20,
            stream: Stream(0),
            pool,
            is_large: true,
            is_expandable: false,
            stack: StackId::NONE,
            blocks: vec![block(addr)],
        };
        let pool = |pool, use_count| PoolState {
            pool,
            use_count,
            own_source: false,
            use_on_oom: false,
            no_split: false,
        };
        let base = BaseState {
            segments: vec![
                segment(1 << 30, PoolId::DEFAULT),
                segment(2 << 30, open),
                segment(3 << 30, released),
            ],
            pools: vec![pool(open, 1), pool(released, 0)],
            scopes: vec![ScopeState { pool: open, filter: ScopeFilter::Unknown }],
            ..BaseState::default()
        };
        let config = Config {
            compat: Compat::V2_15,
            stitch: Some(StitchConfig::default()),
            ..Config::default()
        };
        let device = SimDevice::new(SimConfig::with_capacity(1 << 30));
        let mut native = Native::new(device, config, Timeline::default()).unwrap();
        let starts = native.restore(&base).unwrap();
        native.input(&Event::PoolEnd { pool: open }).unwrap();
        native.input(&Event::PoolRelease { pool: open }).unwrap();
        for (_, start) in starts {
            let Start::Held(addr) = start else { panic!("every block is held") };
            native.free(addr, StackId::NONE).unwrap();
        }
        native.empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap();
        assert_eq!(native.reserved_bytes(), 0, "pools without users return their memory");
    }
}
