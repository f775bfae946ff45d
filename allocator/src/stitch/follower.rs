//! Placement memory: the addresses of the same requests in earlier steps.
//!
//! A request is known by the sizes of the requests up to it: the last 512, 64 or 8 of them. The longest of these that
//! occurred before gives the addresses two occurrences back and one back. Two back comes first, because a result lives
//! until the next assignment to its name, so its blocks alternate with period two.

use alloc::vec;
use alloc::vec::Vec;

use events::Addr;

use crate::cast;
use crate::ids::RangeId;

/// Lengths of the sequences of sizes, the longest first.
const LENGTHS: [u32; 3] = [512, 64, 8];
/// Requests that are remembered at first, and at most.
const FIRST_CAPACITY: usize = 1 << 10;
const MOST_CAPACITY: usize = 1 << 17;
/// Remembered addresses that a request tries.
const CANDIDATES: usize = 4;
/// The base of the rolling hash.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
/// No earlier request.
const NONE: u32 = u32::MAX;

/// Where a request was placed.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    place: Option<(RangeId, Addr)>,
    /// For each length, the last request with the same sizes before it.
    previous: [u32; LENGTHS.len()],
}

/// Sequences of one length by their hash.
#[derive(Clone, Debug)]
struct Sequences {
    length: u32,
    hash: u64,
    /// The base to the power of the length.
    power: u64,
    /// By the hash's upper bits: the hash, and the last request that ended such a sequence.
    table: Vec<(u64, u32)>,
}

impl Sequences {
    fn new(length: u32) -> Self {
        let power = (0..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
        Self { length, hash: 0, power, table: vec![(0, NONE); FIRST_CAPACITY] }
    }

    fn place(&self, hash: u64) -> usize {
        let bits = self.table.len().ilog2();
        cast::index(hash.wrapping_mul(BASE) >> (u64::BITS - bits))
    }

    /// The last request of the same sequence; from here on it is `at`.
    fn replace(&mut self, at: u32) -> u32 {
        let place = self.place(self.hash);
        let (hash, last) = core::mem::replace(&mut self.table[place], (self.hash, at));
        if hash == self.hash { last } else { NONE }
    }

    fn grow(&mut self) {
        let grown = vec![(0, NONE); 2 * self.table.len()];
        let table = core::mem::replace(&mut self.table, grown);
        for (hash, last) in table.into_iter().filter(|(_, last)| *last != NONE) {
            let place = self.place(hash);
            self.table[place] = (hash, last);
        }
    }
}

/// The requests of one stream and pool, and where they were placed.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    /// A ring, by the number of the request.
    entries: Vec<Entry>,
    count: u32,
    sequences: [Sequences; LENGTHS.len()],
}

impl Default for Follower {
    fn default() -> Self {
        Self { entries: Vec::new(), count: 0, sequences: LENGTHS.map(Sequences::new) }
    }
}

impl Follower {
    fn entry(&self, at: u32) -> Option<&Entry> {
        let age = self.count.wrapping_sub(at);
        let is_known = at != NONE && age as usize <= self.entries.len();
        is_known.then(|| &self.entries[at as usize % self.entries.len()])
    }

    /// A request of this size comes next.
    pub(crate) fn observe(&mut self, size_bytes: u64) {
        if self.entries.len() == self.count as usize && self.entries.len() < MOST_CAPACITY {
            let capacity = (2 * self.entries.len()).max(FIRST_CAPACITY);
            let empty = Entry { key: 0, place: None, previous: [NONE; LENGTHS.len()] };
            if !self.entries.is_empty() {
                self.sequences.iter_mut().for_each(Sequences::grow);
            }
            self.entries.resize(capacity, empty);
        }
        let key = mix(size_bytes);
        let at = self.count;
        let capacity = self.entries.len();
        let mut previous = [NONE; LENGTHS.len()];
        for (sequences, previous) in self.sequences.iter_mut().zip(&mut previous) {
            let leaving = at
                .checked_sub(sequences.length)
                .map_or(0, |first| self.entries[first as usize % capacity].key);
            let hash = sequences.hash.wrapping_mul(BASE).wrapping_add(key);
            sequences.hash = hash.wrapping_sub(leaving.wrapping_mul(sequences.power));
            *previous = sequences.replace(at);
        }
        self.entries[at as usize % capacity] = Entry { key, place: None, previous };
        // A request in 4 billion is lost where the count begins anew.
        self.count = if at == NONE - 1 { 0 } else { at + 1 };
    }

    /// Where the last request was placed.
    pub(crate) fn remember(&mut self, run: RangeId, addr: Addr) {
        let capacity = self.entries.len();
        let last = self.count.wrapping_sub(1) as usize % capacity;
        self.entries[last].place = Some((run, addr));
    }

    /// How often the last request occurred before in a sequence of some length, counted to 4.
    pub(crate) fn occurrences(&self) -> usize {
        let (length, last) = self.longest();
        if length + 1 == LENGTHS.len() { 0 } else { self.before(length, last).count() }
    }

    /// Where the last request was placed in earlier steps, the most likely first.
    pub(crate) fn candidates(&self) -> [Option<(RangeId, Addr)>; CANDIDATES] {
        let (length, last) = self.longest();
        let mut places = [None; CANDIDATES];
        for (place, entry) in places.iter_mut().zip(self.before(length, last)) {
            *place = entry.place;
        }
        let [one, two, three, four] = places;
        [two, one, four, three]
    }

    /// The longest sequence that the last request ended before, by its place among the lengths, and that request.
    fn longest(&self) -> (usize, u32) {
        let previous = self.entry(self.count.wrapping_sub(1)).map_or([NONE; 3], |last| last.previous);
        let known = |length: &usize| self.entry(previous[*length]).is_some();
        let length = (0..LENGTHS.len()).find(known).unwrap_or(LENGTHS.len() - 1);
        (length, previous[length])
    }

    /// A request and those before it that ended the same sequence, the newest first; 4 at most.
    fn before(&self, length: usize, last: u32) -> impl Iterator<Item = &Entry> {
        let previous = move |entry: &&Entry| self.entry(entry.previous[length]);
        core::iter::successors(self.entry(last), previous).take(CANDIDATES)
    }
}

/// Spreads a size over all bits.
const fn mix(size_bytes: u64) -> u64 {
    let mixed = size_bytes.wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
