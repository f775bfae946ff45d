//! The conversions between numbers that no `From` offers.

/// A 64-bit number as an index.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "an index has 64 bits, as asserted below")]
pub(crate) const fn index(number: u64) -> usize {
    number as usize
}

const _: () = assert!(size_of::<usize>() == size_of::<u64>(), "only 64-bit targets are supported");

/// The number of the next of `count` lists, pools or the like: one that an id holds.
#[inline]
pub(crate) fn id(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 of a kind")
}

/// The whole part of a share of the device's memory, as C++ converts it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is not negative, and its fraction of a byte is dropped"
)]
pub(crate) const fn whole_bytes(share: f64) -> u64 {
    share as u64
}
