//! From a heap's state back to an earlier one, record by record.

use events::tile;
use rustc_hash::FxHashMap;
use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, Event, PoolId, PoolState, Problem, Record,
    ScopeFilter, ScopeState, State, StateError,
};

/// A state that moves backwards.
#[derive(Debug)]
pub(super) struct Rewind {
    /// The segments, each as one free block.
    mapped: State,
    live: FxHashMap<Addr, BlockState>,
    base: BaseState,
    /// Settings and fraction as the process began: a record of a change does not say what was before it.
    initial_settings: String,
    initial_memory_fraction: Option<f64>,
}

impl Rewind {
    /// Starts at `end`.
    ///
    /// # Errors
    /// Where the state contradicts itself.
    pub(super) fn new(
        mut end: BaseState,
        initial_settings: String,
        initial_memory_fraction: Option<f64>,
    ) -> Result<Self, StateError> {
        // Checks what is taken apart below.
        State::from_segments(&end.segments)?;
        let mut live = FxHashMap::default();
        for segment in &mut end.segments {
            let blocks = segment.blocks.drain(..);
            let blocks = blocks.filter(|block| block.status != BlockStatus::Inactive);
            live.extend(blocks.map(|block| (block.addr, block)));
        }
        let segments = tile(std::mem::take(&mut end.segments).into_iter(), std::iter::empty())
            .unwrap_or_default();
        let mapped = State::from_segments(&segments)?;
        Ok(Self { mapped, live, base: end, initial_settings, initial_memory_fraction })
    }

    /// Takes one record back.
    ///
    /// # Errors
    /// Where it contradicts the state, which stays the one after that record.
    pub(super) fn undo(&mut self, record: &Record) -> Result<(), StateError> {
        self.undo_block(record).map_err(|problem| StateError {
            event: record.event.name(),
            undoing: true,
            problem,
        })?;
        self.base.time_ns = record.time_ns;
        match record.event {
            Event::Alloc { .. } | Event::Free { .. } | Event::FreeCompleted { .. } => Ok(()),
            Event::SegmentAlloc { .. }
            | Event::SegmentFree { .. }
            | Event::SegmentMap { .. }
            | Event::SegmentUnmap { .. } => self.mapped.undo(record),
            _ => {
                self.undo_pool_state(&record.event);
                Ok(())
            }
        }
    }

    fn undo_block(&mut self, record: &Record) -> Result<(), Problem> {
        let stack = record.stack;
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                self.expect(addr, requested_bytes, size_bytes, BlockStatus::Allocated)?;
                self.live.remove(&addr);
            }
            Event::Free { addr, requested_bytes, size_bytes, pending: true } => {
                self.expect(addr, requested_bytes, size_bytes, BlockStatus::PendingFree)?.status =
                    BlockStatus::Allocated;
            }
            // The stack of the event undone is the best that is known.
            Event::Free { addr, requested_bytes, size_bytes, pending: false } => {
                let status = BlockStatus::Allocated;
                self.revive(BlockState { addr, size_bytes, requested_bytes, status, stack })?;
            }
            Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                let status = BlockStatus::PendingFree;
                self.revive(BlockState { addr, size_bytes, requested_bytes, status, stack })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn expect(
        &mut self,
        addr: Addr,
        event_requested_bytes: u64,
        event_size_bytes: u64,
        status: BlockStatus,
    ) -> Result<&mut BlockState, Problem> {
        let block = self.live.get_mut(&addr).ok_or(Problem::NotLive { addr })?;
        if block.status != status {
            let pending = block.status == BlockStatus::PendingFree;
            return Err(Problem::Pending { addr, pending });
        }
        let BlockState { size_bytes, requested_bytes, .. } = *block;
        if (size_bytes, requested_bytes) != (event_size_bytes, event_requested_bytes) {
            return Err(Problem::OtherSize {
                addr,
                size_bytes,
                requested_bytes,
                event_size_bytes,
                event_requested_bytes,
            });
        }
        Ok(block)
    }

    /// Whether anything else lies there, [`finish`](Self::finish) finds.
    fn revive(&mut self, block: BlockState) -> Result<(), Problem> {
        let BlockState { addr, size_bytes, .. } = block;
        match self.live.insert(addr, block) {
            None => Ok(()),
            Some(other) => {
                self.live.insert(addr, other);
                Err(Problem::Live { addr, size_bytes, block: addr })
            }
        }
    }

    fn undo_pool_state(&mut self, event: &Event) {
        let base = &mut self.base;
        match *event {
            Event::PoolCreate { pool, .. } => self.release(pool),
            Event::PoolBegin { pool, .. } => {
                if let Some(at) = base.scopes.iter().rposition(|scope| scope.pool == pool) {
                    base.scopes.remove(at);
                }
                self.release(pool);
            }
            Event::PoolEnd { pool } => {
                base.scopes.push(ScopeState { pool, filter: ScopeFilter::Unknown });
            }
            Event::PoolRelease { pool } => {
                let users = &mut self.pool(pool).use_count;
                *users = users.saturating_add(1);
            }
            Event::PoolUseOnOom { pool, enabled } => self.pool(pool).use_on_oom = !enabled,
            Event::PoolNoSplit { pool } => self.pool(pool).no_split = false,
            Event::CaptureBegin { pool } => base.captures.retain(|capture| *capture != pool),
            Event::CaptureEnd { pool } => base.captures.push(pool),
            Event::Settings { .. } => base.settings.clone_from(&self.initial_settings),
            Event::MemoryFraction { .. } => base.memory_fraction = self.initial_memory_fraction,
            _ => {}
        }
    }

    /// The state where it stands now; `None` where blocks overlap or lie in no segment.
    pub(super) fn finish(mut self) -> Option<BaseState> {
        let mut segments = self.mapped.segments();
        for segment in &mut segments {
            segment.blocks.clear();
        }
        let mut live: Vec<_> = self.live.into_values().collect();
        live.sort_unstable_by_key(|block| block.addr);
        let segments = tile(segments.into_iter(), live.into_iter())?;
        // A pool without users exists only for its segments.
        self.base.pools.retain(|state| {
            state.use_count > 0 || segments.iter().any(|segment| segment.pool == state.pool)
        });
        self.base.segments = segments;
        // Counters cannot be taken back.
        self.base.stats.clear();
        Some(self.base)
    }

    fn release(&mut self, pool: PoolId) {
        let state = self.pool(pool);
        state.use_count = state.use_count.saturating_sub(1);
    }

    /// The pool's state; of one that is gone at the end of the ring, only that it existed is known.
    fn pool(&mut self, pool: PoolId) -> &mut PoolState {
        let pools = &mut self.base.pools;
        let at = pools.iter().position(|state| state.pool == pool).unwrap_or_else(|| {
            let (own_source, use_on_oom, no_split) = (false, false, false);
            pools.push(PoolState { pool, use_count: 0, own_source, use_on_oom, no_split });
            pools.len() - 1
        });
        &mut pools[at]
    }
}
