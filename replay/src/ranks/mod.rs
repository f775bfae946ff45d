//! Many runs at once: the ranks of a job, each in a file of its own.
//!
//! Each rank is worked on as a single run is. Here is what is said about all of them: where their files are
//! ([`find()`]), how they share a machine ([`each()`]), and what their reports add up to, which is the worst rank and
//! the spread ([`compare()`], [`waste()`], [`fit()`]).
//!
//! **The worst rank** is one that runs out of memory, if any does; of those the one that reserves most, then the one
//! with the most device calls, then the first. A job is as large as its worst rank.

mod align;
mod compare;
mod each;
mod find;
mod fit;
mod waste;

use serde::Serialize;

pub use compare::{CompareRow, RefusedRank, Worst, compare};
pub use each::each;
pub use find::{FindError, Found, Skipped, find};
pub use fit::{FitRow, fit, fit_verdict};
pub use waste::{PartSpread, WasteOfRanks, waste};

/// Where a rank stands: the greatest is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Badness {
    is_out_of_memory: bool,
    peak_reserved_bytes: u64,
    device_calls: i64,
}

/// The first of the worst.
fn worst<T>(ranks: impl IntoIterator<Item = T>, badness: impl Fn(&T) -> Badness) -> Option<T> {
    ranks.into_iter().reduce(|one, other| if badness(&other) > badness(&one) { other } else { one })
}

/// One figure over all ranks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The least of any rank.
    pub min_bytes: u64,
    /// Half the ranks have no more than this; between the two in the middle where they are an even number.
    pub median_bytes: u64,
    /// The most of any rank.
    pub max_bytes: u64,
}

impl Spread {
    /// Of one figure a rank; zero where there is no rank.
    pub fn of(figures: impl IntoIterator<Item = u64>) -> Self {
        let mut sorted: Vec<_> = figures.into_iter().collect();
        sorted.sort_unstable();
        let (Some(&min_bytes), Some(&max_bytes)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { min_bytes, median_bytes: u64::midpoint(low, high), max_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_ends_and_the_middle_in_whatever_order() {
        let spread = |figures: &[u64]| {
            let Spread { min_bytes, median_bytes, max_bytes } = Spread::of(figures.iter().copied());
            (min_bytes, median_bytes, max_bytes)
        };
        assert_eq!(spread(&[]), (0, 0, 0));
        assert_eq!(spread(&[7]), (7, 7, 7));
        assert_eq!(spread(&[9, 1, 4]), (1, 4, 9));
        assert_eq!(spread(&[u64::MAX, 2, u64::MAX, 4]), (2, u64::MAX / 2 + 2, u64::MAX));
    }

    #[test]
    fn the_worst_is_out_of_memory_then_the_largest_then_the_busiest_then_the_first() {
        let badness = |&(is_out_of_memory, peak_reserved_bytes, device_calls, _): &_| Badness {
            is_out_of_memory,
            peak_reserved_bytes,
            device_calls,
        };
        let ranks =
            [(false, 9, 9, "large"), (true, 5, 1, "full"), (true, 5, 2, "a"), (true, 5, 2, "b")];
        assert_eq!(worst(ranks, badness).unwrap().3, "a");
        assert_eq!(worst(ranks[..2].to_vec(), badness).unwrap().3, "full");
        assert!(worst(Vec::new(), badness).is_none());
    }
}
