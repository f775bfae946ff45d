//! A miss: a segment from the device, and the chain of attempts when the device has none.

use alloc::boxed::Box;
use alloc::vec::Vec;

use events::{Addr, Event, PoolId};

use super::hot_path::{AllocParams, Candidate};
use super::{AllocError, Heap, OomReport};
use crate::arena::{Block, BlockId};
use crate::expandable::Range;
use crate::ids::PoolIndex;
use crate::size::{self, is_small};
use device::{CaptureMode, Device, DeviceCall, DeviceError, Result};
use events::Recorder;
use settings::{Compat, SegmentReserve};

impl<D: Device, R: Recorder> Heap<D, R> {
    /// A block for the request, or `None` when memory is out. Each step is tried only if the one
    /// before failed: a new segment; a pool that lends its free blocks; a new segment after returning a few oversize
    /// blocks; a new segment after returning everything cached; and, where configured, what the last flush freed.
    pub(super) fn grow(
        &mut self,
        params: &mut AllocParams,
    ) -> Result<Option<Candidate>, AllocError> {
        if let Some(block) = self.allocate_block(params, false)? {
            return Ok(Some(block));
        }
        let found = self.grow_after_refusal(params);
        // The tape has no record of addresses without pages: they end with the request that could not use them.
        if let Err(error) = self.relaxed(|heap| heap.give_up_empty_ranges(PoolId::DEFAULT)) {
            tracing::warn!(%error, "unused addresses stay reserved until the next flush");
        }
        found
    }

    fn grow_after_refusal(
        &mut self,
        params: &mut AllocParams,
    ) -> Result<Option<Candidate>, AllocError> {
        if let Some(block) = self.borrow_from_lending_pool(params) {
            return Ok(Some(block));
        }
        if self.release_oversize_blocks(params)?
            && let Some(block) = self.allocate_block(params, false)?
        {
            return Ok(Some(block));
        }
        if params.in_capture {
            return Ok(None);
        }
        tracing::debug!(
            size_bytes = self.segment_bytes(params),
            "device memory is short: cached memory is returned"
        );
        self.release_cached_blocks(PoolId::DEFAULT, params.pool.private())?;
        if let Some(block) = self.allocate_block(params, true)? {
            return Ok(Some(block));
        }
        Ok(if self.config.search_after_flush { self.search(params) } else { None })
    }

    /// The size of the segment that the request would get.
    pub(super) fn segment_bytes(&self, params: &AllocParams) -> u64 {
        size::segment_bytes(params.size_bytes, &self.config)
    }

    /// One attempt at device memory; `None` when the device or the fraction refuses (`alloc_block`). An error too where
    /// the settings allow no second one.
    fn allocate_block(
        &mut self,
        params: &AllocParams,
        is_retry: bool,
    ) -> Result<Option<Candidate>, AllocError> {
        self.stats.rare.num_alloc_retries += i64::from(is_retry);
        let over_fraction = self
            .allowed_bytes
            .is_some_and(|allowed| self.reserved_bytes + self.segment_bytes(params) > allowed);
        let block = if over_fraction {
            None
        } else {
            self.reject_beyond_settings(params, self.segment_bytes(params))?;
            if params.expandable {
                self.relaxed(|heap| heap.map_expandable_block(params))?
            } else {
                self.allocate_segment(params)?
            }
        };
        if block.is_none() {
            self.record(Event::DriverRefused { size_bytes: self.segment_bytes(params) });
        }
        Ok(block.map(|id| Candidate { id, size_bytes: self.blocks[id].size_bytes, place: None }))
    }

    fn allocate_segment(&mut self, params: &AllocParams) -> Result<Option<BlockId>> {
        let size_bytes = self.segment_bytes(params);
        let Some(addr) = self.relaxed(|heap| heap.obtain_segment(params.pool, size_bytes))? else {
            return Ok(None);
        };
        let is_small = params.pool.is_small();
        let pool = self.pools.id_of(params.pool);
        self.count_segments(params.pool, 1);
        self.reserved_bytes += size_bytes;
        self.stats.rare.segment.increase(is_small, 1);
        self.stats.on_reserve(pool, is_small, size_bytes);
        if self.is_oversize(size_bytes) {
            self.stats.rare.oversize_segments.increase(1);
        }
        tracing::debug!(%addr, size_bytes, stream = %params.stream, %pool, "segment allocated");
        self.record(Event::SegmentAlloc {
            addr,
            size_bytes,
            stream: params.stream,
            pool,
            is_large: !is_small,
        });
        let segment_stack = self.stack;
        let segment_rank = self.next_segment_rank(addr);
        let list = self.blocks.lists.begin_segment(params.pool, params.stream);
        Ok(Some(self.blocks.arena.insert(Block {
            segment_rank,
            segment_stack,
            ..Block::new(addr, size_bytes, list)
        })))
    }

    /// The rank of a segment that begins now, at this address.
    pub(super) fn next_segment_rank(&mut self, addr: Addr) -> u32 {
        match self.config.compat {
            Compat::V2_11 => 0,
            Compat::V2_15 => self.ranks.begin(addr),
        }
    }

    /// Memory from the pool's own source, else from the device.
    fn obtain_segment(&mut self, pool: PoolIndex, size_bytes: u64) -> Result<Option<Addr>> {
        if let Some(slot) = pool.private()
            && let Some(source) = &self.pools.get(slot).source
        {
            return Ok(source.allocate(size_bytes));
        }
        match self.device.malloc(size_bytes) {
            Ok(addr) => Ok(Some(addr)),
            Err(DeviceError::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes device calls that a capture in progress would forbid (`cudaMallocMaybeCapturing`).
    pub(super) fn relaxed<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.scopes.is_empty() {
            return call(self);
        }
        let before = match self.device.exchange_capture_mode(CaptureMode::Relaxed) {
            Ok(mode) => Some(mode),
            Err(DeviceError::Unavailable { call: DeviceCall::ExchangeCaptureMode, .. }) => None,
            Err(error) => return Err(error),
        };
        let answer = call(self);
        if let Some(mode) = before {
            let restored = self.device.exchange_capture_mode(mode);
            if let (Err(error), Ok(_)) = (&restored, &answer) {
                // The memory is there and accounted for; only the thread's mode is not what it was.
                tracing::error!(
                    "the thread's capture mode could not be restored, and stays relaxed: {error}"
                );
            }
        }
        answer
    }

    /// A free block of a pool that lends before out of memory (`try_mempool_fallback`). From here on the request
    /// belongs to that pool.
    pub(super) fn borrow_from_lending_pool(
        &mut self,
        params: &mut AllocParams,
    ) -> Option<Candidate> {
        if params.pool.private().is_some() {
            return None;
        }
        let lending: Vec<PoolId> = self.pools.use_on_oom.iter().collect();
        for pool in lending {
            let Some(slot) = self.pools.find(pool) else { continue };
            let pool = PoolIndex::new(Some(slot), is_small(params.size_bytes));
            let borrowed = AllocParams { pool, expandable: false, stitched: false, ..*params };
            if let Some(block) = self.search(&borrowed) {
                *params = borrowed;
                return Some(block);
            }
        }
        None
    }

    /// Counts the segments of a private pool, which ends at zero.
    pub(super) fn count_segments(&mut self, pool: PoolIndex, change: i32) {
        if let Some(slot) = pool.private() {
            let pool = self.pools.get_mut(slot);
            pool.segment_count = pool
                .segment_count
                .checked_add_signed(change)
                .expect("a private pool returns what it took");
        }
    }

    /// The addresses of an expandable segment, where a setting makes them too few for the request.
    fn exceeded_reserve_bytes(&self, params: &AllocParams) -> Option<u64> {
        let is_set = self.config.segment_reserve != SegmentReserve::Default;
        let page_bytes = size::page_bytes(params.pool.is_small(), &self.config);
        let is_exceeded = params.size_bytes > Range::reach_bytes(page_bytes, self.reserve_bytes());
        (params.expandable && is_set && is_exceeded).then(|| self.reserve_bytes())
    }

    /// Records that memory is out, and says how things stand.
    pub(super) fn out_of_memory(&mut self, params: &AllocParams) -> Result<AllocError> {
        let memory = self.device.memory_info()?;
        self.record(Event::Oom {
            requested_bytes: params.requested_bytes,
            size_bytes: params.size_bytes,
            device_free_bytes: memory.free_bytes,
            stream: params.stream,
            pool: self.pools.id_of(params.pool),
        });
        self.stats.rare.num_ooms += 1;
        self.recorder.copy_statistics(&self.stats);
        let private = self.blocks.lists.pools().filter(|half| half.private().is_some());
        let cached = private.flat_map(|half| self.blocks.lists.free(half));
        let private_cached_bytes = cached.map(|id| self.blocks[id].size_bytes).sum();
        let stats = self.stats();
        let report = OomReport {
            device: self.device.id(),
            requested_bytes: params.requested_bytes,
            stream: params.stream,
            pool: self.pools.id_of(params.pool),
            segment_bytes: self.segment_bytes(params),
            device_total_bytes: memory.total_bytes,
            device_free_bytes: memory.free_bytes,
            processes: self.device.processes(),
            allowed_bytes: self.allowed_bytes,
            allocated_bytes: stats.allocated_bytes.all.current.cast_unsigned(),
            private_cached_bytes,
            reserved_bytes: stats.reserved_bytes.all.current.cast_unsigned(),
            exceeded_reserve_bytes: self.exceeded_reserve_bytes(params),
        };
        // The caller raises it, and may expect it: a warning besides would be noise.
        tracing::info!(%report, "out of memory");
        Ok(AllocError::OutOfMemory(Box::new(report)))
    }
}
