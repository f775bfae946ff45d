//! The slots of records, valid or not by the ring's head alone: the number of the next record.
//!
//! A sequence lock whose counter is the head. Before the single writer stores the words of a record, the head is that
//! record's number; after them it is the next. A reader copies words and loads the head afterwards: a slot whose next
//! record has not begun holds what it held.

use std::sync::atomic::Ordering;

use super::{AtomicWord, ReadWords, store_all};
use crate::cast;

/// The place of the slots and of their head in the ring's words.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) struct Slots {
    /// The word with the number of the next record.
    pub(in crate::ring) head_at: usize,
    /// The first word of slot 0.
    pub(in crate::ring) start: usize,
    /// A power of two.
    pub(in crate::ring) count: usize,
}

/// Writes record `number`, which the head names, and moves the head on. One writer at a time.
#[inline]
pub(in crate::ring) fn publish<W: AtomicWord, const N: usize>(
    head: &W,
    slot: &[W; N],
    number: u64,
    words: &[u64; N],
) {
    debug_assert_eq!(head.load_own(), number, "records are published in order");
    // A reader that sees one of the words below sees a head of at least `number`.
    W::fence(Ordering::Release);
    store_all(slot, words);
    head.store(number + 1, Ordering::Release);
}

impl Slots {
    /// Copies the records from `number` on, which are below a head seen before; false where the first of them was
    /// overwritten, perhaps just now. The slot that the next record goes to counts as overwritten.
    #[must_use]
    pub(in crate::ring) fn copy<const N: usize>(
        self,
        words: &(impl ReadWords + ?Sized),
        number: u64,
        into: &mut [[u64; N]],
    ) -> bool {
        let at = cast::index(number) & (self.count - 1);
        let (to_end, from_start) = into.split_at_mut(into.len().min(self.count - at));
        words.load_all(self.start + at * N, to_end.as_flattened_mut());
        words.load_all(self.start, from_start.as_flattened_mut());
        // Had a word been a later record's, the head shows it.
        words.acquire_fence();
        let head = words.load(self.head_at);
        number < head && head - number < self.count as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::loom_word::{self, LoomWord};
    use super::*;

    const SLOTS: Slots = Slots { head_at: 0, start: 1, count: 2 };
    const WORDS: usize = 5;

    fn slot<W>(ring: &[W], number: u64) -> &[W; 2] {
        let at = SLOTS.start + 2 * (cast::index(number) % SLOTS.count);
        ring[at..].first_chunk().unwrap()
    }

    fn write<W: AtomicWord>(ring: &[W], number: u64) {
        publish(&ring[SLOTS.head_at], slot(ring, number), number, &words(number));
    }

    fn read<W: AtomicWord>(ring: &[W], number: u64) -> Option<[u64; 2]> {
        let mut copied = [[0; 2]];
        let is_below = number < ReadWords::load(ring, SLOTS.head_at);
        (is_below && SLOTS.copy(ring, number, &mut copied)).then_some(copied[0])
    }

    fn words(number: u64) -> [u64; 2] {
        [number * 100 + 1, number * 100 + 2]
    }

    #[test]
    fn a_reader_finds_its_record_or_learns_that_it_is_gone() {
        let ring: [AtomicU64; WORDS] = <_>::default();
        assert_eq!(read(&ring, 0), None);
        write(&ring, 0);
        assert_eq!(read(&ring, 0), Some(words(0)));
        write(&ring, 1);
        assert_eq!(read(&ring, 0), None, "record 2 may be on its way into that slot");
        assert_eq!(read(&ring, 1), Some(words(1)));
        write(&ring, 2);
        assert_eq!((read(&ring, 1), read(&ring, 2)), (None, Some(words(2))));
    }

    #[test]
    fn a_copy_continues_at_the_first_slot() {
        const SLOTS: Slots = Slots { count: 4, ..self::SLOTS };
        let ring: [AtomicU64; 9] = std::array::from_fn(|word| AtomicU64::new(word as u64));
        ring[0].store(6, Ordering::Relaxed);
        let mut copied = [[0; 2]; 3];
        assert!(SLOTS.copy(&ring[..], 3, &mut copied));
        assert_eq!(copied, [[7, 8], [1, 2], [3, 4]]);
    }

    #[test]
    fn a_writer_that_died_in_the_middle_leaves_no_record() {
        let ring: [AtomicU64; WORDS] = <_>::default();
        write(&ring, 0);
        write(&ring, 1);
        slot(&ring, 2)[0].store(77, Ordering::Relaxed);
        assert_eq!((read(&ring, 0), read(&ring, 1), read(&ring, 2)), (None, Some(words(1)), None));
    }

    /// A ring that turns over beside a reader.
    #[test]
    fn loom_finds_no_torn_read() {
        let writer = |ring: &[LoomWord]| (0..3).for_each(|number| write(ring, number));
        loom_word::check(WORDS, writer, |ring| {
            for number in [0, 1] {
                assert!(read(ring, number).is_none_or(|seen| seen == words(number)));
            }
            if ReadWords::load(ring, SLOTS.head_at) == 3 {
                assert_eq!(read(ring, 2), Some(words(2)));
            }
        });
    }
}
