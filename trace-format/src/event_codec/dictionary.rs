//! Values that a chunk writes once and then refers to by number.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::{
    Addr, PoolId, Stream, ThreadId,
    layout::count_of,
    varint::{Cursor, Malformed, unzigzag},
};

/// Distinct values in the order of their first appearance.
#[derive(Debug)]
pub(super) struct Dictionary<T> {
    index_of: FxHashMap<T, u32>,
    pub(super) values: Vec<T>,
}

impl<T: Copy + Eq + Hash> Dictionary<T> {
    pub(super) fn new() -> Self {
        Self { index_of: FxHashMap::default(), values: Vec::new() }
    }

    #[inline]
    pub(super) fn index(&mut self, value: T) -> u32 {
        match self.index_of.get(&value) {
            Some(index) => *index,
            None => self.add(value),
        }
    }

    #[cold]
    fn add(&mut self, value: T) -> u32 {
        let index = count_of(self.values.len());
        self.index_of.insert(value, index);
        self.values.push(value);
        index
    }

    pub(super) fn clear(&mut self) {
        self.index_of.clear();
        self.values.clear();
    }
}

/// The greatest number that divides both; of a number and zero, the number.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 && a != 1 {
        (a, b) = (b, a % b);
    }
    a
}

/// An address and the sizes last seen there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) addr: Addr,
    pub(super) requested_bytes: u64,
    pub(super) size_bytes: u64,
}

/// The dictionaries of a chunk that is read.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    pub(super) threads: Vec<ThreadId>,
    pub(super) places: Vec<(Stream, PoolId)>,
    /// Bytes requested, bytes of the block.
    pub(super) sizes: Vec<(u64, u64)>,
    pub(super) addrs: Vec<Address>,
}

impl Dictionaries {
    /// Takes a chunk's dictionaries off the front of its payload.
    pub(super) fn read(&mut self, cursor: &mut Cursor) -> Result<(), Malformed> {
        self.threads.clear();
        for _ in 0..cursor.count()? {
            self.threads.push(ThreadId(cursor.u32()?));
        }
        self.places.clear();
        for _ in 0..cursor.count()? {
            self.places.push((Stream(cursor.u64()?), PoolId(cursor.u64()?, cursor.u64()?)));
        }
        self.sizes.clear();
        for _ in 0..cursor.count()? {
            let requested_bytes = cursor.u64()?;
            let size_bytes = requested_bytes.wrapping_add(unzigzag(cursor.u64()?));
            self.sizes.push((requested_bytes, size_bytes));
        }
        self.addrs.clear();
        let count = cursor.count()?;
        let unit = cursor.u64()?;
        let mut steps = 0u64;
        for _ in 0..count {
            steps = steps.wrapping_add(unzigzag(cursor.u64()?));
            let addr = Addr(steps.wrapping_mul(unit));
            self.addrs.push(Address { addr, requested_bytes: 0, size_bytes: 0 });
        }
        Ok(())
    }
}

/// The entry that an index names.
pub(super) fn at<T>(values: &[T], index: u64) -> Result<&T, Malformed> {
    usize::try_from(index).ok().and_then(|at| values.get(at)).ok_or(Malformed::Reference)
}

/// The same, to be changed.
pub(super) fn at_mut<T>(values: &mut [T], index: u64) -> Result<&mut T, Malformed> {
    usize::try_from(index).ok().and_then(|at| values.get_mut(at)).ok_or(Malformed::Reference)
}
