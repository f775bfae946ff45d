//! Pools, scopes, settings and memory fraction, double-buffered so that one copy survives a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use trace_format::{Event, PoolId, PoolState, ScopeFilter, ScopeState, StringId};

use super::layout::{Part, Word};
use super::look::Look;
use super::region::Region;

/// The state after some record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PoolsState {
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
const FIXED_WORDS: usize = 6;
/// Words of a pool or a scope.
const ROW_WORDS: usize = 3;

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
                let state = self.pool(pool);
                state.use_count = state.use_count.saturating_sub(1);
            }
            Event::PoolUseOnOom { pool, enabled } => self.pool(pool).use_on_oom = enabled,
            Event::PoolNoSplit { pool } => self.pool(pool).no_split = true,
            Event::CaptureBegin { pool } => self.set_filter(pool, ScopeFilter::Capture),
            Event::CaptureEnd { pool } => self.set_filter(pool, ScopeFilter::Thread),
            Event::Settings { text } => self.settings = Some(text),
            Event::MemoryFraction { fraction } => self.memory_fraction = Some(fraction),
            _ => return false,
        }
        true
    }

    /// Adds a user, the first of a pool that is new; a later one may bring the pool's source.
    fn hold(&mut self, pool: PoolId, own_source: bool) {
        let state = self.pool(pool);
        state.own_source = own_source || (state.use_count > 0 && state.own_source);
        state.use_count = state.use_count.saturating_add(1);
    }

    fn pool(&mut self, pool: PoolId) -> &mut PoolState {
        let at = *self.places.entry(pool).or_insert_with(|| {
            self.pools.push(new_pool(pool));
            self.pools.len() - 1
        });
        &mut self.pools[at]
    }

    /// Forgets what it had of a pool before it ended. A pool has ended that has no users and no segments.
    pub(super) fn begin_anew(&mut self, pool: PoolId, has_segments: impl FnOnce() -> bool) {
        if let Some(at) = self.places.get(&pool).copied()
            && self.pools[at].use_count == 0
            && !has_segments()
        {
            self.pools[at] = new_pool(pool);
        }
    }

    /// Drops the pools that ended.
    pub(super) fn drop_ended(&mut self, with_segments: &BTreeSet<PoolId>) {
        self.pools.retain(|state| state.use_count > 0 || with_segments.contains(&state.pool));
        self.places = places(&self.pools);
    }

    fn set_filter(&mut self, pool: PoolId, filter: ScopeFilter) {
        self.scopes.iter_mut().filter(|scope| scope.pool == pool).for_each(|s| s.filter = filter);
    }

    /// Writes the state, of which record `next` is the first that is no part.
    pub(super) fn write(&self, region: &Region, next: u64) {
        let count = region.get(Word::PoolsCount) + 1;
        let copy = copy(region, count);
        let len = FIXED_WORDS + ROW_WORDS * (self.pools.len() + self.scopes.len());
        let missing_words = len.saturating_sub(copy.len());
        region.set(Word::PoolsMissing, missing_words.div_ceil(ROW_WORDS) as u64);
        if missing_words > 0 {
            return;
        }
        let words = self.words(next);
        // Whoever sees one of the stores below sees the head behind the record.
        fence(Ordering::Release);
        for (word, value) in copy.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        region.word(Word::PoolsCount).store(count, Ordering::Release);
    }

    fn words(&self, next: u64) -> Vec<u64> {
        let Self { pools, scopes, settings, memory_fraction, .. } = self;
        let mut words = vec![
            next,
            settings.map_or(0, |text| u64::from(text.0) + 1),
            memory_fraction.map_or(0, f64::to_bits),
            u64::from(memory_fraction.is_some()),
            pools.len() as u64,
            scopes.len() as u64,
        ];
        for state in pools {
            let flag = |is_set, flag| if is_set { flag } else { 0 };
            let flags = flag(state.own_source, OWN_SOURCE)
                | flag(state.use_on_oom, USE_ON_OOM)
                | flag(state.no_split, NO_SPLIT);
            let count = u64::from(state.use_count) | flags << 32;
            words.extend([state.pool.0, state.pool.1, count]);
        }
        for scope in scopes {
            let filter = match scope.filter {
                ScopeFilter::Capture => 0,
                ScopeFilter::Thread => 1,
                ScopeFilter::Unknown => 2,
            };
            words.extend([scope.pool.0, scope.pool.1, filter]);
        }
        words
    }

    /// The newest state, and the number of the first record that is no part of it. `None` where it is damaged.
    pub(super) fn read(look: &impl Look) -> Option<(Self, u64)> {
        let (start, both_words) = look.shape().part(Part::Pools);
        loop {
            let count = look.field(Word::PoolsCount);
            if count == 0 {
                return Some((Self::default(), 0));
            }
            let mut words = vec![0; both_words / 2];
            look.load_all(start + (count & 1) as usize * words.len(), &mut words);
            fence(Ordering::Acquire);
            // The writer goes to the other copy first.
            if look.field(Word::PoolsCount) == count {
                return Self::from_words(&words);
            }
        }
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
            use_count: *count as u32,
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
        let pools: Vec<PoolState> = pools.iter().map(pool).collect();
        let pools_state = Self {
            places: places(&pools),
            pools,
            scopes: scopes.iter().map(scope).collect(),
            settings: settings.checked_sub(1).map(|id| StringId(id as u32)),
            memory_fraction: (has_fraction != 0).then(|| f64::from_bits(fraction)),
        };
        Some((pools_state, next))
    }
}

fn new_pool(pool: PoolId) -> PoolState {
    PoolState { pool, use_count: 0, own_source: false, use_on_oom: false, no_split: false }
}

fn places(pools: &[PoolState]) -> BTreeMap<PoolId, usize> {
    pools.iter().zip(0..).map(|(state, place)| (state.pool, place)).collect()
}

fn copy(region: &Region, count: u64) -> &[AtomicU64] {
    let both = region.rows::<1>(Part::Pools).as_flattened();
    let (even, odd) = both.split_at(both.len() / 2);
    if count & 1 == 0 { even } else { odd }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;

    const POOL: PoolId = PoolId(0, 7);

    fn after(events: &[Event]) -> PoolsState {
        let mut pools_state = PoolsState::default();
        assert!(events.iter().all(|event| pools_state.apply(event)));
        pools_state
    }

    #[test]
    fn what_is_written_is_read_and_the_last_write_counts() {
        let region = Region::anonymous(Shape::new(64, 0)).unwrap();
        assert_eq!(PoolsState::read(&region), Some((PoolsState::default(), 0)));
        let filter = ScopeFilter::Unknown;
        let mut pools_state = after(&[
            Event::PoolCreate { pool: POOL, own_source: true },
            Event::PoolUseOnOom { pool: POOL, enabled: true },
            Event::PoolBegin { pool: PoolId(3, 0), filter },
            Event::Settings { text: StringId(0) },
        ]);
        pools_state.write(&region, 4);
        assert_eq!(PoolsState::read(&region), Some((pools_state.clone(), 4)));
        for next in 5..8 {
            pools_state.apply(&Event::MemoryFraction { fraction: next as f64 / 10.0 });
            pools_state.write(&region, next);
            assert_eq!(PoolsState::read(&region), Some((pools_state.clone(), next)));
        }
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
    fn pools_that_ended_are_dropped_and_begin_anew_under_their_name() {
        let pool = |id| PoolId(0, id);
        let events = (1..=3).flat_map(|id| {
            [
                Event::PoolCreate { pool: pool(id), own_source: false },
                Event::PoolNoSplit { pool: pool(id) },
            ]
        });
        let mut pools_state = after(&events.collect::<Vec<_>>());
        for id in [1, 2] {
            pools_state.apply(&Event::PoolRelease { pool: pool(id) });
        }
        pools_state.begin_anew(pool(2), || true);
        assert!(pools_state.pools[1].no_split, "a pool with segments has not ended");
        pools_state.begin_anew(pool(2), || false);
        assert!(!pools_state.pools[1].no_split, "a new pool has nothing of the one before");

        pools_state.drop_ended(&BTreeSet::from([pool(2)]));
        let left: Vec<_> = pools_state.pools.iter().map(|state| state.pool).collect();
        assert_eq!(left, [pool(2), pool(3)]);
        for id in [1, 3] {
            pools_state.apply(&Event::PoolCreate { pool: pool(id), own_source: false });
        }
        let counts: Vec<_> = pools_state.pools.iter().map(|state| state.use_count).collect();
        assert_eq!(counts, [0, 2, 1], "each event finds its own pool");
    }

    #[test]
    fn more_pools_than_fit_are_missing_and_damage_is_no_panic() {
        let region = Region::anonymous(Shape::new(64, 0)).unwrap();
        let mut pools_state = PoolsState::default();
        for pool in 1..3_000 {
            pools_state.apply(&Event::PoolCreate { pool: PoolId(pool, 0), own_source: false });
        }
        pools_state.write(&region, 3_000);
        let capacity = (Shape::new(64, 0).pools_words - FIXED_WORDS) / ROW_WORDS;
        assert_eq!(region.get(Word::PoolsMissing), 2_999 - capacity as u64);
        pools_state = PoolsState::default();
        pools_state.write(&region, 3_001);
        assert_eq!(region.get(Word::PoolsMissing), 0);
        copy(&region, 1)[4].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(PoolsState::read(&region), None);
    }
}
