//! A set in the order of insertion, in which every step takes logarithmic time.

use alloc::collections::BTreeMap;

/// Distinct values, the oldest first.
#[derive(Clone, Debug)]
pub(crate) struct OrderedSet<T> {
    values: BTreeMap<u64, T>,
    /// The key of each value among `values`.
    keys: BTreeMap<T, u64>,
    next_key: u64,
}

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), keys: BTreeMap::new(), next_key: 0 }
    }
}

impl<T: Copy + Ord> OrderedSet<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn contains(&self, value: T) -> bool {
        self.keys.contains_key(&value)
    }

    /// Adds a value behind all others; one that is there keeps its place.
    pub(crate) fn insert(&mut self, value: T) {
        if self.contains(value) {
            return;
        }
        self.keys.insert(value, self.next_key);
        self.values.insert(self.next_key, value);
        self.next_key += 1;
    }

    pub(crate) fn remove(&mut self, value: T) {
        if let Some(key) = self.keys.remove(&value) {
            self.values.remove(&key);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.values.values().copied()
    }
}

impl<T: Copy + Ord> FromIterator<T> for OrderedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::default();
        values.into_iter().for_each(|value| set.insert(value));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_the_order_in_which_they_came() {
        let mut set: OrderedSet<u32> = [3, 1, 2, 1].into_iter().collect();
        assert!(set.iter().eq([3, 1, 2]));
        set.remove(3);
        set.remove(9);
        set.insert(3);
        assert!(set.iter().eq([1, 2, 3]));
        assert!(set.contains(2) && !set.contains(9) && !set.is_empty());
    }
}
