//! The strings of a pickle, each stored once.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// An interned string of one [`Tree`](super::Tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(u32);

impl Text {
    pub(super) fn at(index: u32) -> Self {
        Self(index)
    }

    /// Its place among the tree's strings, for tables beside the tree.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Interned strings, laid end to end.
#[derive(Debug, Default)]
pub(super) struct Strings {
    bytes: String,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Strings {
    /// The id of `bytes` read as UTF-8. Bytes that are not UTF-8 (a lone surrogate in a file name) become U+FFFD.
    pub(super) fn intern(&mut self, bytes: &[u8]) -> Text {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.intern_str(text),
            Err(_) => self.intern_str(&String::from_utf8_lossy(bytes)),
        }
    }

    pub(super) fn intern_str(&mut self, text: &str) -> Text {
        let hash = self.hasher.hash_one(text);
        let Self { bytes, ends, index, hasher } = self;
        if let Some(&id) = index.find(hash, |&id| slice(bytes, ends, id) == text) {
            return Text(id);
        }
        let id = ends.len() as u32;
        bytes.push_str(text);
        ends.push(bytes.len());
        index.insert_unique(hash, id, |&id| hasher.hash_one(slice(bytes, ends, id)));
        Text(id)
    }

    pub(super) fn find(&self, text: &str) -> Option<Text> {
        let hash = self.hasher.hash_one(text);
        self.index.find(hash, |&id| slice(&self.bytes, &self.ends, id) == text).map(|&id| Text(id))
    }

    pub(super) fn get(&self, text: Text) -> &str {
        slice(&self.bytes, &self.ends, text.0)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

fn slice<'a>(bytes: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &bytes[start..ends[id]]
}
