//! Pools, scopes, settings and memory fraction, followed through events.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::scopes::Scopes;
use crate::base::{BaseState, PoolState, ScopeState};
use crate::event::{Event, ScopeFilter};
use crate::ids::{PoolId, StringId};

/// Private pools, open scopes, and what else decides how requests are met.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolsState {
    /// In no order: the last takes the place of one that ends.
    pools: Vec<PoolState>,
    /// The place of each pool among them.
    places: BTreeMap<PoolId, usize>,
    scopes: Scopes,
    /// The settings' text; `None` until they change.
    pub settings: Option<StringId>,
    /// `None` until it changes; 1 means no limit.
    pub memory_fraction: Option<f64>,
}

impl PoolsState {
    /// These pools and scopes, and nothing changed yet.
    pub fn new(pools: Vec<PoolState>, scopes: impl IntoIterator<Item = ScopeState>) -> Self {
        let places = pools.iter().zip(0..).map(|(state, place)| (state.pool, place)).collect();
        let scopes = scopes.into_iter().collect();
        Self { pools, places, scopes, settings: None, memory_fraction: None }
    }

    /// All pools, each at its place.
    pub fn pools(&self) -> &[PoolState] {
        &self.pools
    }

    /// The open scopes.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// The place of a pool among all.
    pub fn place(&self, pool: PoolId) -> Option<usize> {
        self.places.get(&pool).copied()
    }

    /// The number of users of a pool; 0 where there is no such pool.
    pub fn use_count(&self, pool: PoolId) -> u32 {
        self.place(pool).map_or(0, |place| self.pools[place].use_count)
    }

    /// Follows an event; false if it changes nothing here.
    pub fn apply(&mut self, event: &Event) -> bool {
        match *event {
            Event::PoolCreate { pool, own_source } => self.hold(pool, own_source),
            Event::PoolBegin { pool, filter } => {
                self.hold(pool, false);
                self.scopes.open(ScopeState { pool, filter });
            }
            Event::PoolEnd { pool } => self.scopes.close_all(pool),
            Event::PoolRelease { pool } => {
                self.change(pool, |state| state.use_count = state.use_count.saturating_sub(1));
            }
            Event::PoolUseOnOom { pool, enabled } => {
                self.change(pool, |state| state.use_on_oom = enabled);
            }
            Event::PoolNoSplit { pool } => self.change(pool, |state| state.no_split = true),
            Event::CaptureBegin { pool } => self.scopes.set_filter(pool, ScopeFilter::Capture),
            Event::CaptureEnd { pool } => self.scopes.set_filter(pool, ScopeFilter::Thread),
            Event::Settings { text } => self.settings = Some(text),
            Event::MemoryFraction { fraction } => self.memory_fraction = Some(fraction),
            _ => return false,
        }
        true
    }

    /// Takes an event back, as far as it says what was before it: the settings and the fraction become those of the
    /// beginning, and of a pool that is gone only its existence is known.
    pub fn undo(&mut self, event: &Event) {
        match *event {
            Event::PoolCreate { pool, .. } => self.release(pool),
            Event::PoolBegin { pool, .. } => {
                self.scopes.close_newest(pool);
                self.release(pool);
            }
            Event::PoolEnd { pool } => {
                self.scopes.open(ScopeState { pool, filter: ScopeFilter::Unknown });
            }
            Event::PoolRelease { pool } => {
                let state = self.find_or_add(pool);
                state.use_count = state.use_count.saturating_add(1);
            }
            Event::PoolUseOnOom { pool, enabled } => self.find_or_add(pool).use_on_oom = !enabled,
            Event::PoolNoSplit { pool } => self.find_or_add(pool).no_split = false,
            Event::CaptureBegin { pool } => self.scopes.set_filter(pool, ScopeFilter::Unknown),
            Event::CaptureEnd { pool } => self.scopes.set_filter(pool, ScopeFilter::Capture),
            Event::Settings { .. } => self.settings = None,
            Event::MemoryFraction { .. } => self.memory_fraction = None,
            _ => {}
        }
    }

    /// Drops a pool that ended: it has no users, no open scope and no segments. The last pool takes its place, which
    /// is returned.
    pub fn drop_ended(
        &mut self,
        pool: PoolId,
        has_segments: impl FnOnce() -> bool,
    ) -> Option<usize> {
        let place = self.place(pool).filter(|place| self.pools[*place].use_count == 0)?;
        if self.scopes.any_of(pool) || has_segments() {
            return None;
        }
        self.places.remove(&pool);
        self.pools.swap_remove(place);
        if let Some(moved) = self.pools.get(place) {
            self.places.insert(moved.pool, place);
        }
        Some(place)
    }

    /// The part of a base state that is known here. A pool without users exists only for its segments.
    pub fn to_base(&self, has_segments: impl Fn(PoolId) -> bool) -> BaseState {
        let exists = |state: &&PoolState| state.use_count > 0 || has_segments(state.pool);
        let captures = self.scopes.iter().filter(|scope| scope.filter == ScopeFilter::Capture);
        BaseState {
            pools: self.pools.iter().filter(exists).copied().collect(),
            captures: captures.map(|scope| scope.pool).collect(),
            scopes: self.scopes.iter().collect(),
            memory_fraction: self.memory_fraction.filter(|fraction| *fraction < 1.0),
            ..BaseState::default()
        }
    }

    /// Adds a user; a later one may bring the pool's source. The first begins a new pool: a pool without users gets
    /// none any more.
    fn hold(&mut self, pool: PoolId, own_source: bool) {
        let state = self.find_or_add(pool);
        if state.use_count == 0 {
            *state = PoolState::new(pool, 0);
        }
        state.own_source |= own_source;
        state.use_count = state.use_count.saturating_add(1);
    }

    fn release(&mut self, pool: PoolId) {
        let state = self.find_or_add(pool);
        state.use_count = state.use_count.saturating_sub(1);
    }

    fn find_or_add(&mut self, pool: PoolId) -> &mut PoolState {
        let place = *self.places.entry(pool).or_insert_with(|| {
            self.pools.push(PoolState::new(pool, 0));
            self.pools.len() - 1
        });
        &mut self.pools[place]
    }

    /// Changes a pool, if there is one of this name.
    fn change(&mut self, pool: PoolId, change: impl FnOnce(&mut PoolState)) {
        if let Some(place) = self.place(pool) {
            change(&mut self.pools[place]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolId = PoolId(0, 7);

    fn after(events: &[Event]) -> PoolsState {
        let mut state = PoolsState::default();
        assert!(events.iter().all(|event| state.apply(event)));
        state
    }

    #[test]
    fn scopes_and_captures_come_and_go_with_their_pools() {
        let filter = ScopeFilter::Thread;
        let mut state =
            after(&[Event::PoolBegin { pool: POOL, filter }, Event::CaptureBegin { pool: POOL }]);
        assert!(state.scopes.iter().eq([ScopeState { pool: POOL, filter: ScopeFilter::Capture }]));
        assert_eq!(state.to_base(|_| false).captures, [POOL]);
        assert_eq!(state.use_count(POOL), 1);
        state.apply(&Event::CaptureEnd { pool: POOL });
        assert!(state.scopes.iter().eq([ScopeState { pool: POOL, filter }]));
        state.apply(&Event::PoolEnd { pool: POOL });
        state.apply(&Event::PoolRelease { pool: POOL });
        assert_eq!((state.scopes.len(), state.use_count(POOL)), (0, 0));
        assert!(!state.apply(&Event::ResetPeak));
    }

    #[test]
    fn a_pool_that_ended_leaves_nothing_to_another_of_its_name() {
        let first = PoolId(0, 1);
        let create = |pool| Event::PoolCreate { pool: PoolId(0, pool), own_source: true };
        let mut state = after(&[
            create(1),
            create(2),
            Event::PoolNoSplit { pool: first },
            create(3),
            Event::PoolRelease { pool: first },
            Event::PoolBegin { pool: first, filter: ScopeFilter::Thread },
        ]);
        let pool = &state.pools[0];
        assert_eq!((pool.use_count, pool.no_split, pool.own_source), (1, false, false));
        assert_eq!(state.drop_ended(first, || false), None, "it has a user");
        state.apply(&Event::PoolRelease { pool: first });
        assert_eq!(state.drop_ended(first, || false), None, "its scope is open");
        state.apply(&Event::PoolEnd { pool: first });
        assert_eq!(state.drop_ended(first, || true), None, "it has segments");
        assert_eq!(state.drop_ended(first, || false), Some(0));
        assert_eq!(state.drop_ended(first, || false), None);
        // None of these may bring it back.
        for event in [
            Event::PoolRelease { pool: first },
            Event::PoolUseOnOom { pool: first, enabled: true },
            Event::PoolNoSplit { pool: first },
        ] {
            state.apply(&event);
        }
        state.apply(&create(2));
        let left: Vec<_> = state.pools.iter().map(|p| (p.pool.1, p.use_count)).collect();
        assert_eq!(left, [(3, 1), (2, 2)], "each event finds its own pool");
    }

    #[test]
    fn undone_events_leave_the_pools_users_and_scopes_before_them() {
        let filter = ScopeFilter::Unknown;
        let events = [
            Event::PoolCreate { pool: POOL, own_source: false },
            Event::PoolBegin { pool: POOL, filter },
            Event::CaptureBegin { pool: POOL },
            Event::MemoryFraction { fraction: 0.5 },
            Event::CaptureEnd { pool: POOL },
            Event::PoolEnd { pool: POOL },
            Event::PoolRelease { pool: POOL },
            Event::PoolRelease { pool: POOL },
        ];
        let mut state = after(&events);
        for (at, event) in events.iter().enumerate().rev() {
            state.undo(event);
            let before = after(&events[..at]);
            assert_eq!(state.use_count(POOL), before.use_count(POOL), "{event:?}");
            assert_eq!(state.scopes.len(), before.scopes.len(), "{event:?}");
            let captures = |state: &PoolsState| state.to_base(|_| false).captures;
            assert_eq!(captures(&state), captures(&before), "{event:?}");
            assert_eq!(state.memory_fraction, before.memory_fraction, "{event:?}");
        }
        assert_eq!(state.to_base(|_| false), BaseState::default());
    }
}
