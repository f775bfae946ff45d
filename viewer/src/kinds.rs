//! Kinds of lives: all that many allocations share.

use replay::modules::ModuleUse;
use rustc_hash::FxHashMap;
use trace_format::Category;

/// All that the lives of one kind share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) size_bytes: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) stack: u32,
    /// The code that made it: a place in `CodeLabels`.
    pub(crate) code: u32,
    /// Places in the device's lists.
    pub(crate) stream: u32,
    pub(crate) pool: u32,
    pub(crate) phase: u32,
    pub(crate) module: u32,
    pub(crate) module_use: Option<ModuleUse>,
    pub(crate) category: Option<Category>,
    /// The class of its length: [`lifetime_class`].
    pub(crate) lifetime: u8,
}

/// Lifetimes below 10 records, below 100, and so on; one class for lives that do not end.
pub(crate) const LIFETIMES: [&str; 8] = [
    "under 10 records",
    "10 to 99 records",
    "100 to 999 records",
    "1,000 to 9,999 records",
    "10,000 to 99,999 records",
    "100,000 to 999,999 records",
    "1,000,000 records or more",
    "to the end of the tape",
];

/// The place in [`LIFETIMES`] of a life of so many records; `None` is one without an end.
pub(crate) fn lifetime_class(records: Option<u32>) -> u8 {
    let last = LIFETIMES.len() as u8 - 1;
    records.map_or(last, |records| (records.max(1).ilog10() as u8).min(last - 1))
}

/// Gives each key a number, in the order in which they come.
#[derive(Debug)]
pub(crate) struct Numbered<K> {
    numbers: FxHashMap<K, u32>,
    pub(crate) keys: Vec<K>,
    /// The number of the latest key, which often comes again.
    latest: u32,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), keys: Vec::new(), latest: 0 }
    }
}

impl<K: Copy + Eq + std::hash::Hash> Numbered<K> {
    /// The number of a key.
    #[inline]
    pub(crate) fn number(&mut self, key: K) -> u32 {
        let keys = &mut self.keys;
        if keys.get(self.latest as usize) != Some(&key) {
            self.latest = *self.numbers.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            });
        }
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_classes_of_ten() {
        let classes = [0, 1, 9, 10, 999, 1_000_000, u32::MAX].map(Some).map(lifetime_class);
        assert_eq!(classes, [0, 0, 0, 1, 2, 6, 6]);
        assert_eq!(LIFETIMES[usize::from(lifetime_class(None))], "to the end of the tape");
    }
}
