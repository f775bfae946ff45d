//! From a heap's state back to an earlier one, record by record.

use trace_format::{
    BaseState, Event, PoolId, PoolState, Record, ScopeFilter, ScopeState, State, StateError,
};

/// A state that moves backwards.
#[derive(Debug)]
pub(super) struct Rewind {
    memory: State,
    base: BaseState,
    /// Settings and fraction as the process began: a record of a change does not say what was before it.
    initial_settings: String,
    initial_memory_fraction: Option<f64>,
}

impl Rewind {
    /// Starts at `end`.
    pub(super) fn new(
        end: BaseState,
        initial_settings: String,
        initial_memory_fraction: Option<f64>,
    ) -> Result<Self, StateError> {
        let memory = State::from_segments(&end.segments)?;
        Ok(Self { memory, base: end, initial_settings, initial_memory_fraction })
    }

    /// Takes one record back. After an error the state is the one after that record.
    pub(super) fn undo(&mut self, record: &Record) -> Result<(), StateError> {
        self.memory.undo(record)?;
        let base = &mut self.base;
        base.time_ns = record.time_ns;
        match record.event {
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
            Event::PoolRelease { pool } => self.pool(pool).use_count += 1,
            Event::PoolUseOnOom { pool, enabled } => self.pool(pool).use_on_oom = !enabled,
            Event::PoolNoSplit { pool } => self.pool(pool).no_split = false,
            Event::CaptureBegin { pool } => base.captures.retain(|capture| *capture != pool),
            Event::CaptureEnd { pool } => base.captures.push(pool),
            Event::Settings { .. } => base.settings.clone_from(&self.initial_settings),
            Event::MemoryFraction { .. } => base.memory_fraction = self.initial_memory_fraction,
            _ => {}
        }
        Ok(())
    }

    /// The state where it stands now.
    pub(super) fn finish(mut self) -> BaseState {
        self.base.segments = self.memory.segments();
        let segments = &self.base.segments;
        // A pool that nobody holds exists only for its segments.
        self.base.pools.retain(|state| {
            state.use_count > 0 || segments.iter().any(|segment| segment.pool == state.pool)
        });
        // Counters cannot be taken back.
        self.base.stats = None;
        self.base
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
