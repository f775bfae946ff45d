//! One counter, and a counter per pool kind.

/// A quantity over time (PyTorch's `Stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stat {
    /// Its value now.
    pub current: i64,
    /// The largest value since the last peak reset.
    pub peak: i64,
    /// The sum of all increases since the last accumulated reset.
    pub allocated: i64,
    /// The sum of all decreases since the last accumulated reset.
    pub freed: i64,
}

impl Stat {
    /// Raises the value by `amount`, and the peak with it.
    #[inline]
    pub fn increase(&mut self, amount: i64) {
        self.current += amount;
        self.peak = self.peak.max(self.current);
        self.allocated += amount;
    }

    /// Lowers the value by `amount`; below zero too, as PyTorch does: `max_split_size_mb` may change between an
    /// oversize block's allocation and its free.
    #[inline]
    pub fn decrease(&mut self, amount: i64) {
        self.current -= amount;
        self.freed += amount;
    }

    /// The peak restarts from the current value.
    pub fn reset_peak(&mut self) {
        self.peak = self.current;
    }

    /// The sums restart from zero.
    pub fn reset_accumulated(&mut self) {
        self.allocated = 0;
        self.freed = 0;
    }
}

/// A [`Stat`] over everything, and one for each kind of pool (PyTorch's `StatArray`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StatArray {
    /// Both kinds of pool.
    pub all: Stat,
    /// Pools of requests up to 1 MiB.
    pub small_pool: Stat,
    /// Pools of larger requests.
    pub large_pool: Stat,
}

impl StatArray {
    /// Raises the total and the pool's kind by `amount`.
    #[inline]
    pub fn increase(&mut self, pool_is_small: bool, amount: i64) {
        self.all.increase(amount);
        self.of_pool(pool_is_small).increase(amount);
    }

    /// Lowers the total and the pool's kind by `amount`.
    #[inline]
    pub fn decrease(&mut self, pool_is_small: bool, amount: i64) {
        self.all.decrease(amount);
        self.of_pool(pool_is_small).decrease(amount);
    }

    /// The peaks restart from the current values.
    pub fn reset_peak(&mut self) {
        self.each(Stat::reset_peak);
    }

    /// The sums restart from zero.
    pub fn reset_accumulated(&mut self) {
        self.each(Stat::reset_accumulated);
    }

    #[inline]
    fn of_pool(&mut self, pool_is_small: bool) -> &mut Stat {
        if pool_is_small { &mut self.small_pool } else { &mut self.large_pool }
    }

    fn each(&mut self, change: impl Fn(&mut Stat)) {
        for stat in [&mut self.all, &mut self.small_pool, &mut self.large_pool] {
            change(stat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_follows_increases_and_survives_decreases() {
        let mut stat = Stat::default();
        stat.increase(512);
        stat.increase(1024);
        stat.decrease(512);
        assert_eq!(stat, Stat { current: 1024, peak: 1536, allocated: 1536, freed: 512 });
    }

    #[test]
    fn resets_touch_only_their_own_side() {
        let mut stat = Stat { current: 3, peak: 9, allocated: 12, freed: 9 };
        stat.reset_peak();
        assert_eq!(stat, Stat { current: 3, peak: 3, allocated: 12, freed: 9 });
        stat.reset_accumulated();
        assert_eq!(stat, Stat { current: 3, peak: 3, allocated: 0, freed: 0 });
    }

    #[test]
    fn a_small_block_counts_in_all_and_in_small_only() {
        let mut array = StatArray::default();
        array.increase(true, 512);
        array.increase(false, 2 << 20);
        array.decrease(true, 512);
        assert_eq!(array.all.current, 2 << 20);
        assert_eq!(array.small_pool, Stat { current: 0, peak: 512, allocated: 512, freed: 512 });
        assert_eq!(array.large_pool.current, 2 << 20);
        assert_eq!(array.all.peak, (2 << 20) + 512);
    }
}
