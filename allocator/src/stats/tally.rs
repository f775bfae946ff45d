//! One counter of the heap: what an allocation moves, and nothing that can be derived.

use super::{Stat, StatArray};

/// A quantity of the small and of the large pools.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Small, large.
    pools: [Track; 2],
    /// Peak of both together, the only thing about the sum that the parts do not tell.
    peak: i64,
}

/// Both ways, since ever; what is there now is the difference.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    allocated: i64,
    freed: i64,
    peak: i64,
    /// `allocated` and `freed` when the sums were last zeroed.
    zeroed_at: (i64, i64),
}

impl Track {
    #[inline]
    const fn current(&self) -> i64 {
        self.allocated - self.freed
    }
}

impl Tally {
    #[inline]
    pub(super) fn increase(&mut self, pool_is_small: bool, amount: i64) {
        let [small, large] = &mut self.pools;
        let (track, other) = if pool_is_small { (small, large) } else { (large, small) };
        track.allocated += amount;
        let current = track.current();
        track.peak = track.peak.max(current);
        self.peak = self.peak.max(current + other.current());
    }

    #[inline]
    pub(super) fn decrease(&mut self, pool_is_small: bool, amount: i64) {
        self.pools[usize::from(!pool_is_small)].freed += amount;
    }

    /// Adds and takes away in one step: only the difference moves the counter, as PyTorch nets a free's merges.
    #[inline]
    pub(super) fn change(&mut self, pool_is_small: bool, added: i64, removed: i64) {
        if added > removed {
            self.increase(pool_is_small, added - removed);
        } else {
            self.decrease(pool_is_small, removed - added);
        }
    }

    pub(super) fn reset_peak(&mut self) {
        for track in &mut self.pools {
            track.peak = track.current();
        }
        self.peak = self.pools[0].peak + self.pools[1].peak;
    }

    pub(super) fn reset_accumulated(&mut self) {
        for track in &mut self.pools {
            track.zeroed_at = (track.allocated, track.freed);
        }
    }

    /// As PyTorch shows it.
    pub(super) fn array(&self) -> StatArray {
        let [small_pool, large_pool] = self.pools.map(|track| Stat {
            current: track.current(),
            peak: track.peak,
            allocated: track.allocated - track.zeroed_at.0,
            freed: track.freed - track.zeroed_at.1,
        });
        let all = Stat {
            current: small_pool.current + large_pool.current,
            peak: self.peak,
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
            let (mut tally, mut array) = <(Tally, StatArray)>::default();
            for (step, small, amount, other) in steps {
                match step {
                    0 | 1 => {
                        tally.increase(small, amount);
                        array.increase(small, amount);
                    }
                    2 => {
                        tally.decrease(small, amount);
                        array.decrease(small, amount);
                    }
                    3 => {
                        tally.change(small, amount, other);
                        if amount >= other {
                            array.increase(small, amount - other);
                        } else {
                            array.decrease(small, other - amount);
                        }
                    }
                    4 => {
                        tally.reset_peak();
                        array.reset_peak();
                    }
                    _ => {
                        tally.reset_accumulated();
                        array.reset_accumulated();
                    }
                }
                prop_assert_eq!(tally.array(), array);
            }
        }
    }
}
