//! A slot's four words.
//!
//! | word | low 48 bits | high 16 bits |
//! |---|---|---|
//! | 0 | ticks, low 40 bits; kind, 5 bits; detail, 3 bits | stack, low half |
//! | 1 | an argument, 64 bits | |
//! | 2 | an argument | stack, high half |
//! | 3 | a size in units of 512 bytes | context |
//!
//! An event whose numbers do not fit is *wide*: its context is [`WIDE`], and two slots of kind [`MORE`] before it carry
//! thread, stream, pool and the last two arguments as they are.

use trace_format::{PoolId, StackId, Stream, ThreadId};

use super::layout::Payload;
use super::pack::MORE;
use crate::cast;

const LOW_BITS: u32 = 48;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;
const TICK_BITS: u32 = 40;
const TICK_MASK: u64 = (1 << TICK_BITS) - 1;
const UNIT_BITS: u32 = 9;
const UNIT_MASK: u64 = (1 << UNIT_BITS) - 1;
const KIND_MASK: u64 = 0xff << TICK_BITS;

/// The context of a wide event.
pub(super) const WIDE: u16 = u16::MAX;
/// Slots of words before a wide event.
pub(super) const MORE_SLOTS: usize = 2;

/// A slot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) low_ticks: u64,
    pub(super) kind: u8,
    pub(super) detail: u8,
    pub(super) stack: StackId,
    pub(super) args: [u64; 3],
    pub(super) context: u16,
}

/// The full ticks of a record, from its own low bits and a moment less than 2^40 ticks before it.
#[inline]
pub(super) const fn full_ticks(low_ticks: u64, before: u64) -> u64 {
    before.wrapping_add(low_ticks.wrapping_sub(before) & TICK_MASK)
}

#[inline]
const fn head_word(ticks: u64, kind: u8, detail: u8) -> u64 {
    ticks & TICK_MASK | (kind as u64) << TICK_BITS | (detail as u64) << (TICK_BITS + 5)
}

/// Whether these arguments fit their bits.
#[inline]
pub(super) const fn fits(args: [u64; 3]) -> bool {
    let [_, number, size] = args;
    (number >> LOW_BITS) | (size & UNIT_MASK) | (size >> (LOW_BITS + UNIT_BITS)) == 0
}

/// The words of an event whose arguments [fit](fits).
#[inline]
pub(super) const fn encode(
    ticks: u64,
    (kind, detail): (u8, u8),
    stack: StackId,
    [any, number, size]: [u64; 3],
    context: u16,
) -> Payload {
    let stack = stack.0 as u64;
    [
        head_word(ticks, kind, detail) | stack << LOW_BITS,
        any,
        number | stack >> 16 << LOW_BITS,
        size >> UNIT_BITS | (context as u64) << LOW_BITS,
    ]
}

/// A slot of three bare words.
#[inline]
pub(super) const fn bare(ticks: u64, (kind, detail): (u8, u8), [a, b, c]: [u64; 3]) -> Payload {
    [head_word(ticks, kind, detail), a, b, c]
}

/// The slots before a wide event.
#[inline]
pub(super) const fn wide(
    ticks: u64,
    thread: ThreadId,
    (stream, pool): (Stream, PoolId),
    [_, number, size]: [u64; 3],
) -> [Payload; MORE_SLOTS] {
    let first = [thread.0 as u64, stream.0, pool.0];
    [bare(ticks, (MORE, 0), first), bare(ticks, (MORE, 1), [pool.1, number, size])]
}

/// Takes the words of a slot apart. Those of kind [`MORE`] and of clock snapshots are the raw words 1 to 3.
#[inline]
pub(super) const fn decode(words: &Payload) -> Slot {
    let [head, a, b, c] = *words;
    Slot {
        low_ticks: head & TICK_MASK,
        kind: (head >> TICK_BITS & 0x1f) as u8,
        detail: (head >> (TICK_BITS + 5) & 7) as u8,
        stack: StackId(cast::low_half(head >> LOW_BITS | b >> LOW_BITS << 16)),
        args: [a, b & LOW_MASK, (c & LOW_MASK) << UNIT_BITS],
        context: (c >> LOW_BITS) as u16,
    }
}

/// The first word with another kind and detail.
#[inline]
pub(super) const fn with_kind(head: u64, kind: u8, detail: u8) -> u64 {
    head & !KIND_MASK | head_word(0, kind, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_that_fit_round_trip(
            ticks: u64, kind in 0..32_u8, detail in 0..8_u8, stack: u32,
            any: u64, number in 0..1_u64 << 48, units in 0..1_u64 << 48, context: u16,
        ) {
            let args = [any, number, units << 9];
            prop_assert!(fits(args));
            let words = encode(ticks, (kind, detail), StackId(stack), args, context);
            let slot = decode(&words);
            let low_ticks = ticks & TICK_MASK;
            let stack = StackId(stack);
            prop_assert_eq!(slot, Slot { low_ticks, kind, detail, stack, args, context });
            let [head, rest @ ..] = words;
            let other = decode(&[with_kind(head, 31 - kind, 7 - detail), rest[0], rest[1], rest[2]]);
            prop_assert_eq!(other, Slot { kind: 31 - kind, detail: 7 - detail, ..slot });
        }

        #[test]
        fn ticks_are_whole_again_for_as_long_as_forty_bits_reach(
            before: u64, later in 0..1_u64 << 40,
        ) {
            let ticks = before.wrapping_add(later);
            prop_assert_eq!(full_ticks(ticks & TICK_MASK, before), ticks);
        }
    }

    #[test]
    fn arguments_with_too_many_bits_do_not_fit() {
        assert!(fits([u64::MAX, (1 << 48) - 1, 512]));
        assert!(!fits([0, 1 << 48, 0]));
        assert!(!fits([0, 0, 513]));
        assert!(!fits([0, 0, 1 << 57]));
    }
}
