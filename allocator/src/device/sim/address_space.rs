//! The free ranges of an address space.

use std::collections::BTreeMap;

/// Free ranges by address; neighbours are always merged.
#[derive(Clone, Debug)]
pub(super) struct AddressSpace {
    /// Start to length, bytes.
    free: BTreeMap<u64, u64>,
}

impl AddressSpace {
    pub(super) fn new(base: u64, length_bytes: u64) -> Self {
        Self { free: BTreeMap::from([(base, length_bytes)]) }
    }

    /// Takes the lowest range that fits.
    pub(super) fn take(&mut self, length_bytes: u64) -> Option<u64> {
        let (&start, &free) = self.free.iter().find(|&(_, &free)| free >= length_bytes)?;
        self.free.remove(&start);
        if free > length_bytes {
            self.free.insert(start + length_bytes, free - length_bytes);
        }
        Some(start)
    }

    /// Takes exactly this range; false when a part of it is taken or lies outside.
    pub(super) fn take_at(&mut self, start: u64, length_bytes: u64) -> bool {
        let Some(end) = start.checked_add(length_bytes) else { return false };
        let Some((&free_start, &free)) = self.free.range(..=start).next_back() else {
            return false;
        };
        let free_end = free_start + free;
        if end > free_end {
            return false;
        }
        self.free.remove(&free_start);
        if start > free_start {
            self.free.insert(free_start, start - free_start);
        }
        if free_end > end {
            self.free.insert(end, free_end - end);
        }
        true
    }

    /// Gives a taken range back.
    pub(super) fn give(&mut self, mut start: u64, mut length_bytes: u64) {
        if let Some(after) = self.free.remove(&(start + length_bytes)) {
            length_bytes += after;
        }
        if let Some((&before, &before_length)) = self.free.range(..start).next_back()
            && before + before_length == start
        {
            start = before;
            length_bytes += before_length;
        }
        self.free.insert(start, length_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_hole_that_fits_is_taken() {
        let mut space = AddressSpace::new(100, 100);
        assert_eq!(space.take(10), Some(100));
        assert_eq!(space.take(20), Some(110));
        space.give(100, 10);
        assert_eq!(space.take(11), Some(130));
        assert_eq!(space.take(10), Some(100));
    }

    #[test]
    fn given_ranges_merge_on_both_sides() {
        let mut space = AddressSpace::new(0, 30);
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
        let mut space = AddressSpace::new(0, 100);
        assert!(space.take_at(40, 20));
        assert!(!space.take_at(50, 20));
        assert!(!space.take_at(90, 20));
        assert!(!space.take_at(u64::MAX, 20));
        assert!(space.take_at(60, 40));
        assert_eq!(space.take(40), Some(0));
    }
}
