//! One counter of the heap: what an allocation moves, and nothing that can be derived.

use super::{Stat, StatArray};

/// A quantity of the small and of the large pools.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatCounter {
    /// Small, large.
    pools: [Pool; 2],
    /// Both together.
    all: Level,
}

/// What is there now, by the most there was and how much less it is: so a change is one addition, and a new peak is a
/// number below zero.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    peak: i64,
    below_peak: i64,
}

impl Level {
    const fn current(&self) -> i64 {
        self.peak - self.below_peak
    }

    #[inline]
    fn rise(&mut self, amount: i64) {
        self.below_peak -= amount;
        if self.below_peak < 0 {
            self.reset_peak();
        }
    }

    #[inline]
    const fn fall(&mut self, amount: i64) {
        self.below_peak += amount;
    }

    /// Out of line, so that what rises is changed in place.
    #[cold]
    #[inline(never)]
    fn reset_peak(&mut self) {
        *self = Self { peak: self.current(), below_peak: 0 };
    }
}

/// A pool's part.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    level: Level,
    /// Since ever; what came since ever is this and what is there now.
    freed: i64,
    /// What had come and gone when the sums were last zeroed.
    zeroed_at: (i64, i64),
}

impl Pool {
    const fn allocated(&self) -> i64 {
        self.level.current() + self.freed
    }
}

impl StatCounter {
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(super) fn increase(&mut self, pool_is_small: bool, amount: i64) {
        self.pools[usize::from(!pool_is_small)].level.rise(amount);
        self.all.rise(amount);
    }

    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(super) fn decrease(&mut self, pool_is_small: bool, amount: i64) {
        let pool = &mut self.pools[usize::from(!pool_is_small)];
        pool.level.fall(amount);
        pool.freed += amount;
        self.all.fall(amount);
    }

    /// Adds and takes away in one step: only the difference moves the counter, as PyTorch nets a free's merges.
    #[allow(clippy::inline_always, reason = "the hot path is one function")]
    #[inline(always)]
    pub(super) fn change(&mut self, pool_is_small: bool, added: i64, removed: i64) {
        if added > removed {
            self.increase(pool_is_small, added - removed);
        } else {
            self.decrease(pool_is_small, removed - added);
        }
    }

    pub(super) fn reset_peak(&mut self) {
        for pool in &mut self.pools {
            pool.level.reset_peak();
        }
        self.all.reset_peak();
    }

    pub(super) fn reset_accumulated(&mut self) {
        for pool in &mut self.pools {
            pool.zeroed_at = (pool.allocated(), pool.freed);
        }
    }

    /// As PyTorch shows it.
    pub(super) fn array(&self) -> StatArray {
        let [small_pool, large_pool] = self.pools.map(|pool| Stat {
            current: pool.level.current(),
            peak: pool.level.peak,
            allocated: pool.allocated() - pool.zeroed_at.0,
            freed: pool.freed - pool.zeroed_at.1,
        });
        let all = Stat {
            current: self.all.current(),
            peak: self.all.peak,
            allocated: small_pool.allocated + large_pool.allocated,
            freed: small_pool.freed + large_pool.freed,
        };
        StatArray { all, small_pool, large_pool }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_shows_what_pytorchs_three_stats_would(
            steps in prop::collection::vec((0..6_u8, any::<bool>(), 0..5_i64, 0..5_i64), 1..60)
        ) {
            let (mut counter, mut array) = <(StatCounter, StatArray)>::default();
            for (step, small, amount, other) in steps {
                match step {
                    0 | 1 => {
                        counter.increase(small, amount);
                        array.increase(small, amount);
                    }
                    2 => {
                        counter.decrease(small, amount);
                        array.decrease(small, amount);
                    }
                    3 => {
                        counter.change(small, amount, other);
                        if amount >= other {
                            array.increase(small, amount - other);
                        } else {
                            array.decrease(small, other - amount);
                        }
                    }
                    4 => {
                        counter.reset_peak();
                        array.reset_peak();
                    }
                    _ => {
                        counter.reset_accumulated();
                        array.reset_accumulated();
                    }
                }
                prop_assert_eq!(counter.array(), array);
            }
        }
    }
}
