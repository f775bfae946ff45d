//! The conversions between numbers that no `From` offers.

/// A 64-bit number as an index.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "an index has 64 bits, as asserted below")]
pub(crate) const fn index(number: u64) -> usize {
    number as usize
}

const _: () = assert!(size_of::<usize>() == size_of::<u64>(), "only 64-bit targets are supported");

/// The low half of a word whose high half has something else.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the high half is dropped")]
pub(crate) const fn low_half(word: u64) -> u32 {
    word as u32
}

/// The number of entries of a table that is bounded below 2^32.
pub(crate) fn count_of(len: usize) -> u32 {
    u32::try_from(len).expect("tables are bounded")
}
