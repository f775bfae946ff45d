//! The writer's table of pools, scopes and settings, double-buffered so that one copy survives a crash.
//!
//! A write goes to the older copy. It stores the rows that changed since that copy was written, not all of them: what a
//! change costs does not depend on the number of pools.

use std::collections::BTreeSet;

use events::PoolsState;
use trace_format::{Event, PoolId};

use super::layout::HeaderField;
use super::look::Look;
use super::pool_state::{self, FIXED_WORDS, ROW_WORDS};
use super::protocol::store_all;
use super::region::Region;

/// The writer's side of the pools' state.
#[derive(Debug, Default)]
pub(super) struct Table {
    state: PoolsState,
    /// Places of pools that changed since each copy was written.
    changed: [BTreeSet<usize>; 2],
}

impl Table {
    /// What the event changes; false if nothing.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        let is_changed = self.state.apply(event);
        if let Some(place) = pool_of(event).and_then(|pool| self.state.place(pool)) {
            self.note(place);
        }
        is_changed
    }

    /// Drops a pool that ended: it has no users, no open scope and no segments. False if it has any.
    pub(super) fn drop_ended(&mut self, pool: PoolId, has_segments: impl FnOnce() -> bool) -> bool {
        let Some(place) = self.state.drop_ended(pool, has_segments) else { return false };
        self.note(place);
        true
    }

    fn note(&mut self, place: usize) {
        self.changed.iter_mut().for_each(|places| _ = places.insert(place));
    }

    /// Writes the state, of which record `next` is the first that is no part.
    pub(super) fn write(&mut self, region: &Region, next: u64) {
        let Self { state, changed } = self;
        let buffer = pool_state::buffer(region.shape());
        let (pools, scopes) = (state.pools(), state.scopes());
        let len = FIXED_WORDS + ROW_WORDS * (pools.len() + scopes.len());
        let missing_words = len.saturating_sub(buffer.copy_words);
        region.set(HeaderField::PoolsMissing, missing_words.div_ceil(ROW_WORDS) as u64);
        if missing_words > 0 {
            return;
        }
        buffer.write(region.words(), |copy, at| {
            let (fixed, rows) = copy.split_at(FIXED_WORDS);
            store_all(fixed, &pool_state::fixed_words(state, next));
            for place in std::mem::take(&mut changed[at]) {
                if let Some(pool) = pools.get(place) {
                    store_all(&rows[ROW_WORDS * place..], &pool_state::pool_row(pool));
                }
            }
            for (words, scope) in
                rows[ROW_WORDS * pools.len()..].chunks(ROW_WORDS).zip(scopes.iter())
            {
                store_all(words, &pool_state::scope_row(&scope));
            }
        });
    }
}

/// The pool whose row an event changes.
fn pool_of(event: &Event) -> Option<PoolId> {
    match *event {
        Event::PoolCreate { pool, .. }
        | Event::PoolBegin { pool, .. }
        | Event::PoolRelease { pool }
        | Event::PoolUseOnOom { pool, .. }
        | Event::PoolNoSplit { pool } => Some(pool),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;
    use trace_format::{ScopeFilter, StringId};

    use super::super::layout::Shape;
    use super::*;

    /// Pools that the table has room for.
    const ROOM: usize = (Shape::new(64, 0).pools_words - FIXED_WORDS) / ROW_WORDS;

    fn region() -> Region {
        Region::anonymous(Shape::new(64, 0)).unwrap()
    }

    /// Word `at` of copy `copy`.
    fn word(region: &Region, copy: usize, at: usize) -> &AtomicU64 {
        let buffer = pool_state::buffer(region.shape());
        &region.words()[buffer.start + copy * buffer.copy_words + at]
    }

    fn pool(number: u64) -> PoolId {
        PoolId(0, number)
    }

    fn create(number: u64) -> Event {
        Event::PoolCreate { pool: pool(number), own_source: number.is_multiple_of(2) }
    }

    fn expect_read(region: &Region, table: &Table, next: u64) {
        let (read, read_next) = pool_state::read(region).expect("it is whole");
        assert_eq!((&read, read_next), (&table.state, next));
    }

    fn event() -> impl Strategy<Value = Event> {
        let filter = ScopeFilter::Unknown;
        (0..10, 0..6_u64).prop_map(move |(kind, number)| match (kind, pool(number)) {
            (0 | 1, _) => create(number),
            (2, pool) => Event::PoolBegin { pool, filter },
            (3, pool) => Event::PoolEnd { pool },
            (4..7, pool) => Event::PoolRelease { pool },
            (7, pool) => Event::PoolUseOnOom { pool, enabled: true },
            (8, pool) => Event::CaptureBegin { pool },
            _ => Event::MemoryFraction { fraction: number as f64 / 10.0 },
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_after_every_change(
            events in prop::collection::vec((event(), any::<bool>()), 1..100),
        ) {
            let (region, mut table) = (region(), Table::default());
            for ((event, has_segments), next) in events.into_iter().zip(1..) {
                table.apply(&event);
                if let Event::PoolRelease { pool } | Event::PoolEnd { pool } = event {
                    table.drop_ended(pool, || has_segments);
                }
                table.write(&region, next);
                expect_read(&region, &table, next);
            }
        }
    }

    #[test]
    fn a_ring_without_a_state_has_the_first_one() {
        let (region, mut table) = (region(), Table::default());
        assert_eq!(pool_state::read(&region), Some((PoolsState::default(), 0)));
        table.apply(&Event::Settings { text: StringId(0) });
        table.write(&region, 4);
        expect_read(&region, &table, 4);
    }

    #[test]
    fn a_change_of_one_pool_stores_no_row_of_another() {
        let (region, mut table) = (region(), Table::default());
        for number in 0..1_000 {
            table.apply(&create(number));
        }
        table.write(&region, 1);
        table.write(&region, 2);
        let other = [0, 1].map(|copy| word(&region, copy, FIXED_WORDS + ROW_WORDS * 500));
        for word in other {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        for (number, next) in (0..1_000).zip(3..) {
            if number != 500 {
                table.apply(&create(number));
                table.write(&region, next);
            }
        }
        assert!(other.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX));
    }

    #[test]
    fn a_table_that_was_full_is_whole_once_its_pools_fit_again() {
        let (region, mut table) = (region(), Table::default());
        let too_many = ROOM as u64 + 5;
        for number in 0..too_many {
            table.apply(&create(number));
            table.write(&region, number);
        }
        assert_eq!(region.get(HeaderField::PoolsMissing), 5);
        for number in (0..10).map(|number| number * 7) {
            table.apply(&Event::PoolRelease { pool: pool(number) });
            assert!(table.drop_ended(pool(number), || false));
            table.write(&region, too_many + number);
        }
        assert_eq!(region.get(HeaderField::PoolsMissing), 0);
        expect_read(&region, &table, too_many + 63);
    }

    #[test]
    fn damage_is_no_panic() {
        let (region, mut table) = (region(), Table::default());
        table.write(&region, 1);
        word(&region, 1, 4).store(u64::MAX, Ordering::Relaxed);
        assert_eq!(pool_state::read(&region), None);
    }
}
