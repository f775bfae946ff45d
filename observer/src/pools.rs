//! When private pools were created, opened, closed and let go: the trace shows only which pool an entry used.
//!
//! A scope is taken to open with the first of a run of allocations from the pool and to close before the next
//! allocation elsewhere. `(n, 0)` is the pool of a graph capture (PyTorch numbers those itself).

use trace_format::{BaseState, Event, PoolId, PoolState, ScopeFilter, ScopeState, StackId, State};

use super::books::Books;
use events::Recorder;

pub(super) struct Pools {
    /// Private pools that hold memory or are open, with whether they have users.
    known: Vec<(PoolId, bool)>,
    /// The pool of the scope that is taken to be open; the default pool is none.
    open: PoolId,
}

impl Pools {
    pub(super) fn new(base: &BaseState) -> Self {
        let known = base.pools.iter().map(|state| (state.pool, state.use_count > 0)).collect();
        Self { known, open: PoolId::DEFAULT }
    }

    /// Allocations come from this pool from here on.
    pub(super) fn enter(&mut self, pool: PoolId, books: &mut Books<impl Recorder>) {
        if pool == self.open {
            return;
        }
        let mut record = |event| books.record(StackId::NONE, event);
        let left = std::mem::replace(&mut self.open, pool);
        if !left.is_default() {
            if is_capture(left) {
                record(Event::CaptureEnd { pool: left });
            }
            record(Event::PoolEnd { pool: left });
            record(Event::PoolRelease { pool: left });
        }
        if pool.is_default() {
            return;
        }
        match self.known.iter_mut().find(|(known, _)| *known == pool) {
            Some((_, true)) => {}
            Some((_, is_used)) => {
                *is_used = true;
                record(Event::PoolCreate { pool, own_source: false });
            }
            None => {
                self.known.push((pool, true));
                record(Event::PoolCreate { pool, own_source: false });
            }
        }
        let filter = if is_capture(pool) { ScopeFilter::Capture } else { ScopeFilter::Unknown };
        record(Event::PoolBegin { pool, filter });
        if is_capture(pool) {
            record(Event::CaptureBegin { pool });
        }
    }

    /// The pool has no users any more: its memory goes back to the device.
    pub(super) fn release(&mut self, pool: PoolId, books: &mut Books<impl Recorder>) {
        if pool == self.open {
            self.enter(PoolId::DEFAULT, books);
        }
        let known = self.known.iter_mut().find(|(known, is_used)| *known == pool && *is_used);
        if let Some((_, is_used)) = known {
            *is_used = false;
            books.record(StackId::NONE, Event::PoolRelease { pool });
        }
    }

    /// A pool without users ends with its last segment.
    pub(super) fn forget_if_gone(&mut self, pool: PoolId, state: &State) {
        if !pool.is_default() && !state.segments().iter().any(|segment| segment.pool == pool) {
            self.known.retain(|(known, is_used)| *known != pool || *is_used);
        }
    }

    /// The part of a base state that is about pools.
    pub(super) fn base_state(&self) -> BaseState {
        let state = |&(pool, is_used): &(PoolId, bool)| PoolState {
            pool,
            use_count: u32::from(is_used) + u32::from(pool == self.open),
            own_source: false,
            use_on_oom: false,
            no_split: false,
        };
        let pool = self.open;
        let is_open = !pool.is_default();
        let filter = if is_capture(pool) { ScopeFilter::Capture } else { ScopeFilter::Unknown };
        BaseState {
            pools: self.known.iter().map(state).collect(),
            scopes: is_open.then_some(ScopeState { pool, filter }).into_iter().collect(),
            captures: (is_open && is_capture(pool)).then_some(pool).into_iter().collect(),
            ..BaseState::default()
        }
    }
}

fn is_capture(pool: PoolId) -> bool {
    !pool.is_default() && pool.1 == 0
}
