//! Sequences of sizes, and the last request that ended each: how an earlier step is found again.

use alloc::vec;
use alloc::vec::Vec;

use super::follower::FIRST_CAPACITY;
use crate::cast;

/// Lengths of the sequences, the longest first.
pub(super) const LENGTHS: [u32; 3] = [512, 64, 8];
pub(super) const SHORTEST: usize = LENGTHS.len() - 1;
/// No earlier request.
pub(crate) const NONE: u32 = u32::MAX;
/// The base of the rolling hash.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sequences of one length, by a rolling hash, and where each ended last.
#[derive(Clone, Debug)]
pub(super) struct Sequences {
    hash: u64,
    /// The base to the power of the length.
    power: u64,
    /// The hash's bits that are not part of a place.
    shift: u32,
    /// By the hash's upper bits: the hash, and the last request that ended such a sequence.
    table: Vec<(u64, u32)>,
}

impl Sequences {
    pub(super) fn new(length: u32) -> Self {
        let power = (0..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
        let shift = u64::BITS - FIRST_CAPACITY.ilog2();
        Self { hash: 0, power, shift, table: vec![(0, NONE); FIRST_CAPACITY] }
    }

    /// No sizes yet, as before the first one.
    pub(super) const fn restart(&mut self) {
        self.hash = 0;
    }

    /// One more size, [mixed](mix), behind the others; one leaves in front, or 0 where there are fewer than the length.
    #[inline]
    pub(super) const fn roll(&mut self, mixed: u64, leaving: u64) {
        let longer = self.hash.wrapping_mul(BASE).wrapping_add(mixed);
        self.hash = longer.wrapping_sub(leaving.wrapping_mul(self.power));
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        cast::index(hash.wrapping_mul(BASE) >> self.shift)
    }

    /// The last request of the same sequence; from here on it is `at`.
    #[inline]
    pub(super) fn replace(&mut self, at: u32) -> u32 {
        let place = self.place(self.hash);
        let (hash, last) = core::mem::replace(&mut self.table[place], (self.hash, at));
        if hash == self.hash { last } else { NONE }
    }

    pub(super) fn grow(&mut self) {
        self.shift -= 1;
        let grown = vec![(0, NONE); 2 * self.table.len()];
        let table = core::mem::replace(&mut self.table, grown);
        for (hash, last) in table.into_iter().filter(|(_, last)| *last != NONE) {
            let place = self.place(hash);
            self.table[place] = (hash, last);
        }
    }
}

/// Spreads a size over all bits.
#[inline]
pub(super) const fn mix(size_bytes: u64) -> u64 {
    let mixed = size_bytes.wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
