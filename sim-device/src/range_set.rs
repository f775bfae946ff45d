//! Ranges of addresses: those that are free, or those where pages are.

use std::collections::BTreeMap;

/// Ranges by address; neighbours are always merged.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    /// Start to length, bytes.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    pub(super) fn new(base: u64, length_bytes: u64) -> Self {
        Self { ranges: BTreeMap::from([(base, length_bytes)]) }
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The lowest address of the set in a range.
    pub(super) fn first_in(&self, start: u64, length_bytes: u64) -> Option<u64> {
        let before = self.ranges.range(..=start).next_back();
        if before.is_some_and(|(&before, &length)| start - before < length) {
            return (length_bytes > 0).then_some(start);
        }
        self.ranges.range(start..start + length_bytes).next().map(|(&first, _)| first)
    }

    /// Takes the lowest range that fits.
    pub(super) fn take(&mut self, length_bytes: u64) -> Option<u64> {
        let (&start, &free) = self.ranges.iter().find(|&(_, &free)| free >= length_bytes)?;
        self.ranges.remove(&start);
        if free > length_bytes {
            self.ranges.insert(start + length_bytes, free - length_bytes);
        }
        Some(start)
    }

    /// Takes the end of the highest range that fits.
    pub(super) fn take_last(&mut self, length_bytes: u64) -> Option<u64> {
        let (&start, &free) = self.ranges.iter().rfind(|&(_, &free)| free >= length_bytes)?;
        self.ranges.remove(&start);
        let left_bytes = free - length_bytes;
        if left_bytes > 0 {
            self.ranges.insert(start, left_bytes);
        }
        Some(start + left_bytes)
    }

    /// Takes exactly this range; false when a part of it is not in the set.
    pub(super) fn take_at(&mut self, start: u64, length_bytes: u64) -> bool {
        let Some(end) = start.checked_add(length_bytes) else { return false };
        let Some((&free_start, &free)) = self.ranges.range(..=start).next_back() else {
            return false;
        };
        let free_end = free_start + free;
        if end > free_end {
            return false;
        }
        self.ranges.remove(&free_start);
        if start > free_start {
            self.ranges.insert(free_start, start - free_start);
        }
        if free_end > end {
            self.ranges.insert(end, free_end - end);
        }
        true
    }

    /// Adds a range of which no part is in the set.
    pub(super) fn give(&mut self, mut start: u64, mut length_bytes: u64) {
        if let Some(after) = self.ranges.remove(&(start + length_bytes)) {
            length_bytes += after;
        }
        if let Some((&before, &before_length)) = self.ranges.range(..start).next_back()
            && before + before_length == start
        {
            start = before;
            length_bytes += before_length;
        }
        self.ranges.insert(start, length_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_highest_hole_that_fits_is_taken() {
        let mut set = RangeSet::new(100, 50);
        assert!(set.take_at(130, 10));
        assert_eq!(set.take_last(20), Some(110));
        assert_eq!(set.take_last(10), Some(140));
        assert_eq!(set.take_last(11), None);
        assert_eq!(set.take_last(10), Some(100));
        assert_eq!(set.len(), 0);
    }

    #[test]
    fn the_lowest_hole_that_fits_is_taken() {
        let mut space = RangeSet::new(100, 100);
        assert_eq!(space.take(10), Some(100));
        assert_eq!(space.take(20), Some(110));
        space.give(100, 10);
        assert_eq!(space.take(11), Some(130));
        assert_eq!(space.take(10), Some(100));
    }

    #[test]
    fn given_ranges_merge_on_both_sides() {
        let mut space = RangeSet::new(0, 30);
        for start in [0, 10, 20] {
            assert_eq!(space.take(10), Some(start));
        }
        assert_eq!(space.take(1), None);
        space.give(0, 10);
        space.give(20, 10);
        space.give(10, 10);
        assert_eq!(space.take(30), Some(0));
    }

    #[test]
    fn an_exact_range_is_taken_only_when_free() {
        let mut space = RangeSet::new(0, 100);
        assert!(space.take_at(40, 20));
        assert!(!space.take_at(50, 20));
        assert!(!space.take_at(90, 20));
        assert!(!space.take_at(u64::MAX, 20));
        assert!(space.take_at(60, 40));
        assert_eq!(space.take(40), Some(0));
    }

    #[test]
    fn the_first_address_in_a_range_may_be_inside_one_of_the_set() {
        let mut set = RangeSet::default();
        set.give(10, 10);
        set.give(40, 10);
        for (start, length, first) in [
            (0, 10, None),
            (0, 11, Some(10)),
            (15, 30, Some(15)),
            (20, 20, None),
            (20, 21, Some(40)),
        ] {
            assert_eq!(set.first_in(start, length), first, "{start} + {length}");
        }
        assert_eq!((set.first_in(12, 0), set.first_in(50, 50), set.len()), (None, None, 2));
    }
}
