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
        self.insert_run(key..key + 1, value);
    }

    /// Adds one value for all keys of the range, which must be absent.
    pub(super) fn insert_run(&mut self, range: Range<u64>, value: T) {
        for (index, part) in parts(range) {
            let spare = &mut self.spare;
            let leaf = self.leaves.entry(index).or_insert_with(|| {
                let empty = || Box::new(Leaf { present: 0, values: [T::default(); _] });
                spare.take().unwrap_or_else(empty)
            });
            debug_assert!(leaf.present & mask(&part) == 0, "a key is inserted once");
            leaf.present |= mask(&part);
            self.len += part.len();
            leaf.values[part].fill(value);
        }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        let mut value = None;
        self.remove_run(key..key + 1, |_, removed| value = Some(removed));
        value
    }

    /// Removes what the map has of the range. `removed` gets the keys in order, with their values.
    pub(super) fn remove_run(&mut self, range: Range<u64>, mut removed: impl FnMut(u64, T)) {
        for (index, part) in parts(range) {
            let Some(leaf) = self.leaves.get_mut(&index) else { continue };
            let gone = leaf.present & mask(&part);
            for at in bits(gone) {
                removed(index * LEAF_VALUES + at as u64, leaf.values[at]);
            }
            leaf.present &= !gone;
            self.len -= gone.count_ones() as usize;
            if leaf.present == 0 {
                self.spare = self.leaves.remove(&index);
            }
        }
    }

    /// Changes what the map has of the range.
    pub(super) fn change_run(&mut self, range: Range<u64>, mut change: impl FnMut(&mut T)) {
        for (index, part) in parts(range) {
            let Some(leaf) = self.leaves.get_mut(&index) else { continue };
            for at in bits(leaf.present & mask(&part)) {
                change(&mut leaf.values[at]);
            }
        }
    }

    /// Whether the map has all keys of the range.
    pub(super) fn has_run(&self, range: Range<u64>) -> bool {
        parts(range).all(|(index, part)| {
            let leaf = self.leaves.get(&index);
            leaf.is_some_and(|leaf| leaf.present & mask(&part) == mask(&part))
        })
    }

    /// The greatest key up to `key` that is in the map. Takes time in proportion to the distance.
    pub(super) fn last_up_to(&self, key: u64) -> Option<u64> {
        let (last, at) = place(key);
        (0..=last).rev().find_map(|index| {
            let through = if index == last { at } else { LEAF_VALUES as usize - 1 };
            let present = self.leaves.get(&index)?.present & mask(&(0..through + 1));
            let at = present.checked_ilog2()?;
            Some(index * LEAF_VALUES + u64::from(at))
        })
    }

    /// The lowest key of the range that is in the map. Takes time in proportion to the range or the map.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        let first_of = |(index, part): (u64, Range<usize>)| {
            let present = self.leaves.get(&index)?.present & mask(&part);
            bits(present).next().map(|at| index * LEAF_VALUES + at as u64)
        };
        if range.end.saturating_sub(range.start) / LEAF_VALUES <= self.leaves.len() as u64 {
            return parts(range).find_map(first_of);
        }
        let near = self.leaves.keys().map(|index| {
            let (start, end) = (index * LEAF_VALUES, index * LEAF_VALUES + LEAF_VALUES);
            range.start.max(start)..range.end.min(end)
        });
        near.flat_map(parts).filter_map(first_of).min()
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

/// The leaves that a range of keys touches, and the places in each.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = if range.is_empty() { 0 } else { range.end.div_ceil(LEAF_VALUES) };
    (range.start / LEAF_VALUES..end).map(move |index| {
        let begin = index * LEAF_VALUES;
        let from = range.start.max(begin) - begin;
        let to = (range.end - begin).min(LEAF_VALUES);
        (index, from as usize..to as usize)
    })
}

/// The bits of places, at least one, in a leaf.
fn mask(part: &Range<usize>) -> u64 {
    (u64::MAX >> (LEAF_VALUES as usize - part.len())) << part.start
}

/// The places of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(at)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

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

    #[test]
    fn runs_reach_over_leaves() {
        let mut map = DenseMap::default();
        map.insert_run(60..200, 7_u32);
        assert!(map.has_run(60..200) && !map.has_run(59..61) && !map.has_run(100..201));
        map.change_run(0..65, |value| *value += 1);
        assert_eq!((map.get(64), map.get(65), map.len()), (Some(&8), Some(&7), 140));
        let mut removed = Vec::new();
        map.remove_run(63..67, |key, value| removed.push((key, value)));
        assert_eq!(removed, [(63, 8), (64, 8), (65, 7), (66, 7)]);
        assert_eq!((map.first_in(61..62), map.first_in(63..u64::MAX / 2)), (Some(61), Some(67)));
        assert_eq!((map.last_up_to(62), map.last_up_to(66)), (Some(62), Some(62)));
        assert_eq!((map.last_up_to(1_000), map.last_up_to(59)), (Some(199), None));
        map.remove_run(0..1_000, |_, _| ());
        assert_eq!((map.len(), map.leaves.len(), map.first_in(5..5)), (0, 0, None));
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
                } else if let Entry::Vacant(vacant) = model.entry(key) {
                    vacant.insert(step);
                    map.insert(key, step);
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
