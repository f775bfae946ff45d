//! Pools, scopes, settings and memory fraction, as events change them and as a ring's tables hold them.

use std::collections::BTreeMap;

use trace_format::{Event, PoolId, PoolState, ScopeFilter, ScopeState, StringId};

use super::layout::{HeaderField, Part, Shape};
use super::look::Look;
use super::protocol::double_buffer::DoubleBuffer;
use crate::cast;

/// The state after some record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PoolsState {
    /// In no order: the last takes the place of one that ends.
    pub(super) pools: Vec<PoolState>,
    /// The place of each pool among them.
    places: BTreeMap<PoolId, usize>,
    /// Oldest first.
    pub(super) scopes: Vec<ScopeState>,
    /// `None` until they change.
    pub(super) settings: Option<StringId>,
    /// `None` until it changes.
    pub(super) memory_fraction: Option<f64>,
}

const OWN_SOURCE: u64 = 1;
const USE_ON_OOM: u64 = 2;
const NO_SPLIT: u64 = 4;
/// Number of the next record, settings, fraction and whether there is one, pools, scopes.
pub(super) const FIXED_WORDS: usize = 6;
/// Words of a pool or a scope.
pub(super) const ROW_WORDS: usize = 3;

impl PoolsState {
    /// What the event changes; false if nothing.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        match *event {
            Event::PoolCreate { pool, own_source } => self.hold(pool, own_source),
            Event::PoolBegin { pool, filter } => {
                self.hold(pool, false);
                self.scopes.push(ScopeState { pool, filter });
            }
            Event::PoolEnd { pool } => self.scopes.retain(|scope| scope.pool != pool),
            Event::PoolRelease { pool } => {
                self.change(pool, |state| state.use_count = state.use_count.saturating_sub(1));
            }
            Event::PoolUseOnOom { pool, enabled } => {
                self.change(pool, |state| state.use_on_oom = enabled);
            }
            Event::PoolNoSplit { pool } => self.change(pool, |state| state.no_split = true),
            Event::CaptureBegin { pool } => self.set_filter(pool, ScopeFilter::Capture),
            Event::CaptureEnd { pool } => self.set_filter(pool, ScopeFilter::Thread),
            Event::Settings { text } => self.settings = Some(text),
            Event::MemoryFraction { fraction } => self.memory_fraction = Some(fraction),
            _ => return false,
        }
        true
    }

    /// Adds a user; a later one may bring the pool's source. The first begins a new pool: a pool without users gets
    /// none any more.
    fn hold(&mut self, pool: PoolId, own_source: bool) {
        let at = *self.places.entry(pool).or_insert_with(|| {
            self.pools.push(new_pool(pool));
            self.pools.len() - 1
        });
        let state = &mut self.pools[at];
        if state.use_count == 0 {
            *state = new_pool(pool);
        }
        state.own_source |= own_source;
        state.use_count = state.use_count.saturating_add(1);
    }

    /// Changes a pool, if there is one of this name.
    fn change(&mut self, pool: PoolId, change: impl FnOnce(&mut PoolState)) {
        if let Some(at) = self.place(pool) {
            change(&mut self.pools[at]);
        }
    }

    /// The place of a pool among all.
    pub(super) fn place(&self, pool: PoolId) -> Option<usize> {
        self.places.get(&pool).copied()
    }

    /// Removes a pool. The last one takes its place, which is returned.
    pub(super) fn remove(&mut self, pool: PoolId) -> Option<usize> {
        let at = self.places.remove(&pool)?;
        self.pools.swap_remove(at);
        if let Some(moved) = self.pools.get(at) {
            self.places.insert(moved.pool, at);
        }
        Some(at)
    }

    fn set_filter(&mut self, pool: PoolId, filter: ScopeFilter) {
        self.scopes.iter_mut().filter(|scope| scope.pool == pool).for_each(|s| s.filter = filter);
    }

    /// What comes before the rows in a ring; record `next` is the first that is no part of the state.
    pub(super) fn fixed_words(&self, next: u64) -> [u64; FIXED_WORDS] {
        let Self { pools, scopes, settings, memory_fraction, .. } = self;
        [
            next,
            settings.map_or(0, |text| u64::from(text.0) + 1),
            memory_fraction.map_or(0, f64::to_bits),
            u64::from(memory_fraction.is_some()),
            pools.len() as u64,
            scopes.len() as u64,
        ]
    }

    /// The row of the pool at a place, if there is one.
    pub(super) fn pool_row(&self, place: usize) -> Option<[u64; ROW_WORDS]> {
        let state = self.pools.get(place)?;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(state.own_source, OWN_SOURCE)
            | flag(state.use_on_oom, USE_ON_OOM)
            | flag(state.no_split, NO_SPLIT);
        Some([state.pool.0, state.pool.1, u64::from(state.use_count) | flags << 32])
    }

    /// The rows of the scopes, which follow those of the pools.
    pub(super) fn scope_rows(&self) -> impl Iterator<Item = [u64; ROW_WORDS]> {
        self.scopes.iter().map(|scope| {
            let filter = match scope.filter {
                ScopeFilter::Capture => 0,
                ScopeFilter::Thread => 1,
                ScopeFilter::Unknown => 2,
            };
            [scope.pool.0, scope.pool.1, filter]
        })
    }

    /// The newest state, and the number of the first record that is no part of it. `None` where it is damaged.
    pub(super) fn read(look: &impl Look) -> Option<(Self, u64)> {
        let buffer = buffer(look.shape());
        let mut words = vec![0; buffer.copy_words];
        if buffer.read(look, &mut words) { Self::from_words(&words) } else { Some(<_>::default()) }
    }

    fn from_words(words: &[u64]) -> Option<(Self, u64)> {
        let (fixed, rest) = words.split_first_chunk::<FIXED_WORDS>()?;
        let [next, settings, fraction, has_fraction, pools, scopes] = *fixed;
        let (rows, _) = rest.as_chunks::<ROW_WORDS>();
        let pools = usize::try_from(pools).ok()?;
        let end = pools.checked_add(usize::try_from(scopes).ok()?)?;
        let rows = rows.get(..end)?;
        let (pools, scopes) = rows.split_at(pools);
        let pool = |[major, minor, count]: &[u64; 3]| PoolState {
            pool: PoolId(*major, *minor),
            use_count: cast::low_half(*count),
            own_source: count >> 32 & OWN_SOURCE != 0,
            use_on_oom: count >> 32 & USE_ON_OOM != 0,
            no_split: count >> 32 & NO_SPLIT != 0,
        };
        let scope = |[major, minor, filter]: &[u64; 3]| ScopeState {
            pool: PoolId(*major, *minor),
            filter: match filter {
                0 => ScopeFilter::Capture,
                1 => ScopeFilter::Thread,
                _ => ScopeFilter::Unknown,
            },
        };
        let settings = match settings.checked_sub(1) {
            Some(id) => Some(StringId(u32::try_from(id).ok()?)),
            None => None,
        };
        let pools: Vec<PoolState> = pools.iter().map(pool).collect();
        let pools_state = Self {
            places: places(&pools),
            pools,
            scopes: scopes.iter().map(scope).collect(),
            settings,
            memory_fraction: (has_fraction != 0).then(|| f64::from_bits(fraction)),
        };
        Some((pools_state, next))
    }
}

/// The place of both copies in a ring.
pub(super) fn buffer(shape: Shape) -> DoubleBuffer {
    let (start, both_words) = shape.part(Part::Pools);
    let count_at = HeaderField::PoolsCount as usize;
    DoubleBuffer { count_at, start, copy_words: both_words / 2 }
}

fn new_pool(pool: PoolId) -> PoolState {
    PoolState { pool, use_count: 0, own_source: false, use_on_oom: false, no_split: false }
}

fn places(pools: &[PoolState]) -> BTreeMap<PoolId, usize> {
    pools.iter().zip(0..).map(|(state, place)| (state.pool, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolId = PoolId(0, 7);

    fn after(events: &[Event]) -> PoolsState {
        let mut pools_state = PoolsState::default();
        assert!(events.iter().all(|event| pools_state.apply(event)));
        pools_state
    }

    #[test]
    fn scopes_and_captures_come_and_go_with_their_pools() {
        let filter = ScopeFilter::Thread;
        let mut pools_state =
            after(&[Event::PoolBegin { pool: POOL, filter }, Event::CaptureBegin { pool: POOL }]);
        assert_eq!(pools_state.scopes, [ScopeState { pool: POOL, filter: ScopeFilter::Capture }]);
        assert_eq!(pools_state.pools[0].use_count, 1);
        pools_state.apply(&Event::CaptureEnd { pool: POOL });
        assert_eq!(pools_state.scopes, [ScopeState { pool: POOL, filter }]);
        pools_state.apply(&Event::PoolEnd { pool: POOL });
        pools_state.apply(&Event::PoolRelease { pool: POOL });
        assert_eq!((pools_state.scopes.len(), pools_state.pools[0].use_count), (0, 0));
        assert!(!pools_state.apply(&Event::ResetPeak));
    }

    #[test]
    fn a_pool_that_ended_leaves_nothing_to_another_of_its_name() {
        let create = |pool| Event::PoolCreate { pool: PoolId(0, pool), own_source: true };
        let mut pools_state = after(&[
            create(1),
            create(2),
            Event::PoolNoSplit { pool: PoolId(0, 1) },
            create(3),
            Event::PoolRelease { pool: PoolId(0, 1) },
            Event::PoolBegin { pool: PoolId(0, 1), filter: ScopeFilter::Thread },
        ]);
        let first = &pools_state.pools[0];
        assert_eq!((first.use_count, first.no_split, first.own_source), (1, false, false));
        assert_eq!(pools_state.remove(PoolId(0, 1)), Some(0));
        assert_eq!(pools_state.remove(PoolId(0, 1)), None);
        // None of these may bring it back.
        for event in [
            Event::PoolRelease { pool: PoolId(0, 1) },
            Event::PoolUseOnOom { pool: PoolId(0, 1), enabled: true },
            Event::PoolNoSplit { pool: PoolId(0, 1) },
        ] {
            pools_state.apply(&event);
        }
        pools_state.apply(&create(2));
        let left: Vec<_> = pools_state.pools.iter().map(|p| (p.pool.1, p.use_count)).collect();
        assert_eq!(left, [(3, 1), (2, 2)], "each event finds its own pool");
    }
}
