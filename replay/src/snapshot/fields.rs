//! Reads dicts of known keys quickly: one pass over the pairs, no hashing.

use crate::pickle::{Node, Tree, Value};

/// For every string of a tree, the place of the key it is among `N` known keys.
pub(crate) struct Fields<const N: usize> {
    place: Vec<u8>,
}

/// Not one of the known keys.
const UNKNOWN: u8 = u8::MAX;

impl<const N: usize> Fields<N> {
    pub(crate) fn new(tree: &Tree, keys: [&str; N]) -> Self {
        let mut place = vec![UNKNOWN; tree.text_count()];
        for (at, key) in keys.into_iter().enumerate() {
            if let Some(text) = tree.find_text(key) {
                place[text.index()] = at as u8;
            }
        }
        Self { place }
    }

    /// The values under the known keys; a missing key and `None` are both `Value::None`.
    pub(crate) fn read(&self, tree: &Tree, dict: Node) -> [Value; N] {
        let mut values = [Value::None; N];
        for (key, value) in tree.pairs(dict) {
            if let Value::Text(text) = key
                && let Some(slot) = values.get_mut(usize::from(self.place[text.index()]))
            {
                *slot = value;
            }
        }
        values
    }
}
