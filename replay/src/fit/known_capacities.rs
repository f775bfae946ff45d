//! What a search knows about capacities, in whole pages of the driver.

/// Ranges of capacities, both ends included, and whether a run fits in all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownCapacities {
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    from: u64,
    to: u64,
    fits: bool,
}

impl KnownCapacities {
    /// Notes what a replay showed.
    pub(super) fn note(&mut self, from: u64, to: u64, fits: bool) {
        self.ranges.push(Range { from, to, fits });
    }

    /// Whether the run fits here, if that is known.
    pub(super) fn at(&self, pages: u64) -> Option<bool> {
        let found = self.ranges.iter().find(|range| (range.from..=range.to).contains(&pages));
        found.map(|range| range.fits)
    }

    /// The least capacity from which on all up to `pages`, which is enough, are known to be.
    pub(super) fn fits_from(&self, pages: u64) -> u64 {
        let mut from = pages;
        let reaches = |from: u64| {
            let fitting = self.ranges.iter().filter(|range| range.fits);
            fitting.filter(move |range| range.from < from && range.to >= from - 1)
        };
        while let Some(range) = reaches(from).next() {
            from = range.from;
        }
        from
    }

    /// The least capacity that is known to be enough.
    pub(super) fn least_fit(&self) -> Option<u64> {
        self.ranges.iter().filter(|range| range.fits).map(|range| range.from).min()
    }

    /// The greatest capacity that is known not to be enough.
    pub(super) fn greatest_failure(&self) -> Option<u64> {
        self.ranges.iter().filter(|range| !range.fits).map(|range| range.to).max()
    }

    /// The greatest capacity below `pages` that is known not to be enough.
    pub(super) fn greatest_failure_below(&self, pages: u64) -> Option<u64> {
        let below = self.ranges.iter().filter(|range| !range.fits && range.from < pages);
        below.map(|range| range.to.min(pages - 1)).max()
    }

    /// The least capacity above `pages` that is known to be enough.
    pub(super) fn least_fit_above(&self, pages: u64) -> Option<u64> {
        let above = self.ranges.iter().filter(|range| range.fits && range.to > pages);
        above.map(|range| range.from.max(pages + 1)).min()
    }

    /// The largest gap in what is known between two capacities that are, both ends included; of equal ones the first.
    pub(super) fn largest_gap(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        if from > to {
            return None;
        }
        let gaps = self.gaps(from, to);
        gaps.into_iter().rev().max_by_key(|(begin, end)| end - begin)
    }

    /// How many capacities in a range are known.
    pub(super) fn covered(&self, from: u64, to: u64) -> u64 {
        let unknown: u64 = self.gaps(from, to).iter().map(|(begin, end)| end - begin + 1).sum();
        to + 1 - from - unknown
    }

    fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<_> = self.ranges.iter().map(|range| (range.from, range.to)).collect();
        ranges.sort_unstable();
        let mut gaps = Vec::new();
        let mut next = from;
        for (begin, end) in ranges {
            if begin > to {
                break;
            }
            if begin > next {
                gaps.push((next, begin - 1));
            }
            next = next.max(end + 1);
        }
        if next <= to {
            gaps.push((next, to));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_range_covers() {
        let mut known = KnownCapacities::default();
        assert_eq!(known.largest_gap(3, 9), Some((3, 9)));
        known.note(5, 6, true);
        known.note(6, 7, true);
        known.note(1, 3, false);
        assert_eq!(known.gaps(3, 12), [(4, 4), (8, 12)]);
        assert_eq!((known.largest_gap(3, 12), known.covered(3, 12)), (Some((8, 12)), 4));
        assert_eq!((known.at(6), known.at(2), known.at(8)), (Some(true), Some(false), None));
        assert_eq!((known.least_fit(), known.greatest_failure()), (Some(5), Some(3)));
        assert_eq!(known.least_fit_above(6), Some(7));
        assert_eq!((known.fits_from(7), known.fits_from(5), known.fits_from(10)), (5, 5, 10));
        assert_eq!(known.greatest_failure_below(3), Some(2));
        assert_eq!(known.largest_gap(9, 8), None);
        known.note(4, 20, true);
        assert_eq!(known.largest_gap(3, 12), None);
    }
}
