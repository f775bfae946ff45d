//! The statistics as plain numbers in a fixed order, as a recorder copies them and another process reads them.
//!
//! The reserved bytes of each private pool are not among them: their number has no limit.

use events::{STATISTICS, Statistics, StatisticsValues};

use super::{Counters, Stat, StatArray, Stats};

impl Statistics for Counters {
    /// Without the copy of every private pool that [`Counters::stats`] makes: this runs in the middle of an allocation.
    fn values(&self) -> Option<StatisticsValues> {
        let mut values = [0; STATISTICS];
        let stats = self.arrays().into_iter().flat_map(in_order).chain(self.rare.oversize());
        let each = stats.flat_map(|stat| [stat.current, stat.peak, stat.allocated, stat.freed]);
        for (value, known) in values.iter_mut().zip(each.chain(self.rare.counts())) {
            *value = known.cast_unsigned();
        }
        Some(values)
    }
}

impl Stats {
    /// The statistics with these values; with the default `compat`, and without private pools.
    pub fn from_values(values: &StatisticsValues) -> Self {
        let mut values = values.iter().map(|value| value.cast_signed());
        let mut next = || values.next().unwrap_or_default();
        let mut stat = || Stat { current: next(), peak: next(), allocated: next(), freed: next() };
        let mut array = || StatArray { all: stat(), small_pool: stat(), large_pool: stat() };
        Self {
            allocation: array(),
            segment: array(),
            active: array(),
            inactive_split: array(),
            allocated_bytes: array(),
            reserved_bytes: array(),
            active_bytes: array(),
            inactive_split_bytes: array(),
            requested_bytes: array(),
            oversize_allocations: stat(),
            oversize_segments: stat(),
            num_alloc_retries: next(),
            num_ooms: next(),
            num_sync_all_streams: next(),
            num_device_alloc: next(),
            num_device_free: next(),
            num_oom_rejections: next(),
            ..Self::default()
        }
    }

    fn oversize(&self) -> [Stat; 2] {
        [self.oversize_allocations, self.oversize_segments]
    }

    fn counts(&self) -> [i64; 6] {
        [
            self.num_alloc_retries,
            self.num_ooms,
            self.num_sync_all_streams,
            self.num_device_alloc,
            self.num_device_free,
            self.num_oom_rejections,
        ]
    }
}

fn in_order(array: StatArray) -> [Stat; 3] {
    [array.all, array.small_pool, array.large_pool]
}

#[cfg(test)]
mod tests {
    use events::PoolId;
    use settings::{Compat, UNLIMITED};

    use super::*;

    #[test]
    fn another_process_reads_the_numbers_that_were_counted() {
        let mut counters = Counters::new(Compat::default(), UNLIMITED);
        counters.on_reserve(PoolId::DEFAULT, true, 2 << 20);
        counters.on_alloc(true, 512, 100);
        counters.on_alloc(false, 4 << 20, 3 << 20);
        counters.on_free_requested(false, 4 << 20);
        counters.on_wait(false, 4 << 20);
        counters.on_piece_added(true, 300);
        counters.rare.oversize_segments.increase(9);
        counters.rare.num_oom_rejections = 3;
        counters.rare.num_alloc_retries = 5;
        let values = counters.values().expect("they are counted");
        assert_eq!(Stats::from_values(&values), counters.stats());
        assert!(values.iter().filter(|value| **value > 0).count() > 20);
    }

    #[test]
    fn every_value_has_a_place_of_its_own() {
        let values = core::array::from_fn(|at| at as u64 + 1);
        let stats = Stats::from_values(&values);
        let arrays = stats.arrays().map(|(_, array)| in_order(*array));
        let stats_of_arrays = arrays.into_iter().flatten().chain(stats.oversize());
        let each = stats_of_arrays.flat_map(|s| [s.current, s.peak, s.allocated, s.freed]);
        assert!(each.chain(stats.counts()).map(i64::cast_unsigned).eq(values));
    }
}
