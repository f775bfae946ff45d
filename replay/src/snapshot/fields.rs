//! Reads dicts of known keys quickly: where the keys of a shape are is worked out once.

use crate::pickle::{Node, Text, Tree, Value};

/// The places of `N` known keys in the dicts of a tree.
pub(crate) struct Fields<const N: usize> {
    keys: [Option<Text>; N],
    /// For every shape that was met, where each key's value is.
    places: Vec<Option<Box<[u32; N]>>>,
}

/// A key that a shape has not.
const ABSENT: u32 = u32::MAX;

impl<const N: usize> Fields<N> {
    pub(crate) fn new(tree: &Tree, keys: [&str; N]) -> Self {
        Self { keys: keys.map(|key| tree.find_text(key)), places: Vec::new() }
    }

    /// The values under the known keys; a missing key and `None` are both `Value::None`.
    pub(crate) fn read(&mut self, tree: &Tree, dict: Node) -> [Value; N] {
        let shape = tree.shape(dict);
        if self.places.len() <= shape {
            self.places.resize_with(shape + 1, || None);
        }
        let Self { keys, places: known } = self;
        let places = known[shape].get_or_insert_with(|| Box::new(places(tree, dict, keys)));
        tree.values_at(dict, places)
    }
}

fn places<const N: usize>(tree: &Tree, dict: Node, keys: &[Option<Text>; N]) -> [u32; N] {
    let mut places = [ABSENT; N];
    let last = tree.len(dict).saturating_sub(1);
    for (back, key) in tree.keys_back(dict).enumerate() {
        let is = |known: &Option<Text>| known.is_some_and(|known| key == Value::Text(known));
        if let Some(at) = keys.iter().position(is)
            && places[at] == ABSENT
        {
            places[at] = (last - back) as u32;
        }
    }
    places
}
