//! Private pools and the scopes that send allocations to them: graph captures and `torch.cuda.MemPool`.

use alloc::sync::Arc;

use events::{Event, PoolId, ScopeFilter, StackId, Stream};

use super::malloc::PoolChoice;
use super::{Heap, HeapError};
use crate::pool::SegmentSource;
use device::{Device, DeviceError, Result};
use events::Recorder;
use settings::Compat;

/// Whether a stream's allocations go to the scope's pool.
pub type Filter = Arc<dyn Fn(Stream) -> bool + Send + Sync>;

/// An open scope.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) pool: PoolId,
    pub(super) kind: ScopeFilter,
    pub(super) filter: Filter,
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Creates a private pool with one user, or adds a user (`createOrIncrefPool`).
    ///
    /// # Errors
    /// When the pool was released already, or a source is given and it has one or holds memory.
    pub fn create_pool(
        &mut self,
        pool: PoolId,
        source: Option<Arc<dyn SegmentSource>>,
    ) -> Result<(), HeapError> {
        let own_source = source.is_some();
        self.create_or_share(pool, source)?;
        self.recorder.record(StackId::NONE, Event::PoolCreate { pool, own_source });
        Ok(())
    }

    fn create_or_share(
        &mut self,
        pool: PoolId,
        source: Option<Arc<dyn SegmentSource>>,
    ) -> Result<(), HeapError> {
        match self.pools.find(pool) {
            None => {
                self.pools.insert(pool, source, &mut self.blocks.lists);
            }
            Some(slot) if self.pools.get(slot).use_count == 0 => {
                return Err(HeapError::Released { pool });
            }
            Some(slot) => {
                let has_memory = source.is_some() && self.holds_memory(slot);
                let known = self.pools.get_mut(slot);
                if source.is_some() {
                    if known.source.is_some() || has_memory {
                        return Err(HeapError::SourceTooLate { pool });
                    }
                    known.source = source;
                }
                known.use_count = known.use_count.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Sends the allocations that `filter` takes to the pool until [`end_pool`](Self::end_pool), adding a user
    /// (`beginAllocateToPool`). The newest scope that takes a stream wins.
    ///
    /// # Errors
    /// When the pool's scope is open already, or the pool was released.
    pub fn begin_pool(
        &mut self,
        pool: PoolId,
        kind: ScopeFilter,
        filter: Filter,
    ) -> Result<(), HeapError> {
        if self.scopes.iter().any(|scope| scope.pool == pool) {
            return Err(HeapError::AlreadyOpen { pool });
        }
        self.create_or_share(pool, None)?;
        self.scopes.push(Scope { pool, kind, filter });
        self.recorder.record(StackId::NONE, Event::PoolBegin { pool, filter: kind });
        Ok(())
    }

    /// Ends the pool's scope (`endAllocateToPool`).
    ///
    /// # Errors
    /// When it is not open.
    pub fn end_pool(&mut self, pool: PoolId) -> Result<(), HeapError> {
        let at = self.scopes.iter().position(|scope| scope.pool == pool);
        let at = at.ok_or(HeapError::NotOpen { pool })?;
        self.scopes.remove(at);
        self.recorder.record(StackId::NONE, Event::PoolEnd { pool });
        if self.config.graph_capture_record_stream_reuse {
            if self.config.compat == Compat::V2_15
                && let Some(slot) = self.pools.find(pool)
            {
                self.free_held_blocks_of(slot);
            }
            if self.scopes.is_empty() {
                self.forget_captures();
            }
        }
        Ok(())
    }

    /// Takes a user off the pool; without users its cached segments may be returned (`releasePool`).
    ///
    /// # Errors
    /// When the pool does not exist or has no users.
    pub fn release_pool(&mut self, pool: PoolId) -> Result<(), HeapError> {
        let slot = self.pools.find(pool).ok_or(HeapError::UnknownPool { pool })?;
        let users = &mut self.pools.get_mut(slot).use_count;
        *users = users.checked_sub(1).ok_or(HeapError::Released { pool })?;
        if *users == 0 {
            self.pools.freeable.insert(slot);
        }
        self.recorder.record(StackId::NONE, Event::PoolRelease { pool });
        Ok(())
    }

    /// How many graphs and `MemPool`s hold the pool (`getPoolUseCount`).
    ///
    /// # Errors
    /// When the pool does not exist.
    pub fn pool_use_count(&self, pool: PoolId) -> Result<u32, HeapError> {
        let slot = self.pools.find(pool).ok_or(HeapError::UnknownPool { pool })?;
        Ok(self.pools.get(slot).use_count)
    }

    /// Lets the pool's free blocks serve others as a last resort, or no longer (`setUseOnOOM`).
    pub fn set_use_on_oom(&mut self, pool: PoolId, enabled: bool) {
        self.pools.use_on_oom.remove(pool);
        if enabled {
            self.pools.use_on_oom.insert(pool);
        }
        self.recorder.record(StackId::NONE, Event::PoolUseOnOom { pool, enabled });
    }

    /// Keeps the pool's segments whole from here on (`setNoSplit`).
    pub fn set_no_split(&mut self, pool: PoolId) {
        self.pools.no_split.insert(pool);
        self.recorder.record(StackId::NONE, Event::PoolNoSplit { pool });
    }

    /// A graph capture allocates from the pool's open scope from here on (`markCaptureBegin`).
    ///
    /// # Errors
    /// When the scope is not open.
    pub fn capture_begin(&mut self, pool: PoolId) -> Result<(), HeapError> {
        self.scope_mut(pool)?.kind = ScopeFilter::Capture;
        self.recorder.record(StackId::NONE, Event::CaptureBegin { pool });
        Ok(())
    }

    /// The capture is over (`markCaptureEnd`); the scope may go on without.
    ///
    /// # Errors
    /// When the scope is not open.
    pub fn capture_end(&mut self, pool: PoolId) -> Result<(), HeapError> {
        self.scope_mut(pool)?.kind = ScopeFilter::Thread;
        self.recorder.record(StackId::NONE, Event::CaptureEnd { pool });
        Ok(())
    }

    fn scope_mut(&mut self, pool: PoolId) -> Result<&mut Scope, HeapError> {
        let scope = self.scopes.iter_mut().find(|scope| scope.pool == pool);
        scope.ok_or(HeapError::NotOpen { pool })
    }

    /// The private pool that serves a request, if any.
    #[inline]
    pub(super) fn private_pool_for(&self, choice: PoolChoice, stream: Stream) -> Option<u32> {
        match choice {
            PoolChoice::Exactly(PoolId::DEFAULT) => None,
            PoolChoice::Exactly(pool) => self.pools.find(pool),
            PoolChoice::ByScope if self.scopes.is_empty() => None,
            PoolChoice::ByScope => {
                let scope = self.scopes.iter().rev().find(|scope| (scope.filter)(stream))?;
                self.pools.find(scope.pool)
            }
        }
    }

    /// Whether a graph capture holds back what a request would otherwise wait for or free. PyTorch 2.11 takes any open
    /// scope for a capture; 2.15 asks whether the stream really captures.
    #[inline]
    pub(super) fn in_capture(&mut self, choice: PoolChoice, stream: Stream) -> Result<bool> {
        if self.scopes.is_empty() {
            return Ok(false);
        }
        if self.config.compat == Compat::V2_11 {
            return Ok(true);
        }
        self.captures(choice, stream)
    }

    /// Whether a request's stream really captures, as far as the open scopes tell.
    fn captures(&mut self, choice: PoolChoice, stream: Stream) -> Result<bool> {
        let takes = |scope: &&Scope| match choice {
            PoolChoice::Exactly(pool) => scope.pool == pool,
            PoolChoice::ByScope => (scope.filter)(stream),
        };
        // Not the newest only: a MemPool opened inside a capture is part of it.
        let kinds = self.scopes.iter().filter(takes).map(|scope| scope.kind);
        let (mut captures, mut unknown) = (false, false);
        for kind in kinds {
            captures |= kind == ScopeFilter::Capture;
            unknown |= kind == ScopeFilter::Unknown;
        }
        if captures || !unknown {
            return Ok(captures);
        }
        match self.device.capture(stream) {
            Ok(capture) => Ok(capture.is_some()),
            // Without the means to ask, the careful answer.
            Err(DeviceError::Unavailable { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The same for calls that come with a stream only.
    pub(super) fn stream_in_capture(&mut self, stream: Stream) -> Result<bool> {
        self.in_capture(PoolChoice::ByScope, stream)
    }

    /// Whether `empty_cache` leaves the default pool alone: some stream may be capturing, and waiting is illegal.
    pub(super) fn holds_back_flush(&self) -> bool {
        match self.config.compat {
            Compat::V2_11 => !self.scopes.is_empty(),
            Compat::V2_15 => self.scopes.iter().any(|scope| scope.kind != ScopeFilter::Thread),
        }
    }
}
