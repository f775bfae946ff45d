//! A map for keys that come in runs, such as page numbers and handles: a hash table of leaves of 64 values.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// Values in a leaf: as many as a word has bits.
const LEAF_VALUES: u64 = u64::BITS as u64;

/// Values of neighbouring keys.
#[derive(Clone, Debug)]
struct Leaf<T> {
    /// One bit per value that is in the map.
    present: u64,
    values: [T; LEAF_VALUES as usize],
}

/// Keys to values. Access takes constant time; a run of keys takes little more memory than its values.
#[derive(Clone, Debug)]
pub(super) struct DenseMap<T> {
    leaves: FxHashMap<u64, Box<Leaf<T>>>,
    len: usize,
    /// An empty leaf for the next insertion, so that one value that comes and goes allocates nothing.
    spare: Option<Box<Leaf<T>>>,
}

impl<T> Default for DenseMap<T> {
    fn default() -> Self {
        Self { leaves: FxHashMap::default(), len: 0, spare: None }
    }
}

impl<T: Copy + Default> DenseMap<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn get(&self, key: u64) -> Option<&T> {
        let (leaf, at) = place(key);
        let leaf = self.leaves.get(&leaf)?;
        leaf.has(at).then(|| &leaf.values[at])
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (leaf, at) = place(key);
        let leaf = self.leaves.get_mut(&leaf)?;
        leaf.has(at).then(|| &mut leaf.values[at])
    }

    /// Adds a value; the key must be absent.
    pub(super) fn insert(&mut self, key: u64, value: T) {
        let (leaf, at) = place(key);
        let spare = &mut self.spare;
        let leaf = self.leaves.entry(leaf).or_insert_with(|| {
            let empty = || Box::new(Leaf { present: 0, values: [T::default(); _] });
            spare.take().unwrap_or_else(empty)
        });
        debug_assert!(!leaf.has(at), "a key is inserted once");
        leaf.present |= 1 << at;
        leaf.values[at] = value;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        let (index, at) = place(key);
        let leaf = self.leaves.get_mut(&index).filter(|leaf| leaf.has(at))?;
        leaf.present &= !(1 << at);
        let value = leaf.values[at];
        self.len -= 1;
        if leaf.present == 0 {
            self.spare = self.leaves.remove(&index);
        }
        Some(value)
    }

    /// The lowest key of the range that is in the map. Takes time in proportion to the range or the map.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        if range.is_empty() {
            return None;
        }
        let leaves = range.start / LEAF_VALUES..=(range.end - 1) / LEAF_VALUES;
        let first_of = |index: u64| {
            let keys = index * LEAF_VALUES..=index * LEAF_VALUES + (LEAF_VALUES - 1);
            let leaf = self.leaves.get(&index)?;
            keys.zip(0..)
                .find(|&(key, at)| range.contains(&key) && leaf.has(at))
                .map(|(key, _)| key)
        };
        if leaves.end() - leaves.start() < self.leaves.len() as u64 {
            return leaves.into_iter().find_map(first_of);
        }
        let indexes = self.leaves.keys().copied().filter(|index| leaves.contains(index));
        indexes.filter_map(first_of).min()
    }
}

impl<T> Leaf<T> {
    fn has(&self, at: usize) -> bool {
        self.present & (1 << at) != 0
    }
}

/// The leaf of a key, and the place in it.
fn place(key: u64) -> (u64, usize) {
    (key / LEAF_VALUES, (key % LEAF_VALUES) as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_leaves_are_given_back() {
        let mut map = DenseMap::default();
        for key in 0..10_000_u64 {
            map.insert(key * LEAF_VALUES, key);
            assert_eq!(map.remove(key * LEAF_VALUES), Some(key));
        }
        assert_eq!((map.len(), map.leaves.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_dense_map_answers_as_an_ordered_one(
            steps in proptest::collection::vec((0..300_u64, 0..400_u64, any::<bool>()), 0..400),
        ) {
            let mut map = DenseMap::default();
            let mut model = BTreeMap::new();
            for (step, &(key, end, inserts)) in steps.iter().enumerate() {
                // Neighbours, and keys that are far apart.
                let key = if key < 150 { key } else { key << 40 };
                if !inserts {
                    prop_assert_eq!(map.remove(key), model.remove(&key));
                } else if !model.contains_key(&key) {
                    map.insert(key, step);
                    model.insert(key, step);
                }
                prop_assert_eq!(map.get(key), model.get(&key));
                prop_assert_eq!(map.get_mut(key).copied(), model.get(&key).copied());
                prop_assert_eq!(map.len(), model.len());
                for end in [end, end << 40] {
                    let first = model.range(key..end.max(key)).next().map(|(&first, _)| first);
                    prop_assert_eq!(map.first_in(key..end), first);
                }
            }
        }
    }
}
