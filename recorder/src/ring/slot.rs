//! One slot of the ring, valid or not by the ring's head alone: the number of the next record.
//!
//! A sequence lock whose counter is the head. Before the single writer stores the words of a record, the head is that
//! record's number; after them it is the next. A reader copies words and looks at the head afterwards: a slot whose
//! next record has not begun holds what it held. Every word is atomic, so a torn read is detected and never undefined.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A shared word. Generic, so that loom checks the very code that runs.
pub(super) trait Word {
    /// `AtomicU64::load`.
    fn load(&self, order: Ordering) -> u64;
    /// `AtomicU64::store`.
    fn store(&self, value: u64, order: Ordering);
    /// `atomic::fence`.
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Writes record `number`, which the head names, and moves the head on. One writer at a time.
#[inline]
pub(super) fn publish<W: Word, const N: usize>(
    head: &W,
    slot: &[W; N],
    number: u64,
    words: &[u64; N],
) {
    // A reader that sees one of the words below sees a head of at least `number`.
    W::fence(Ordering::Release);
    for (word, value) in slot.iter().zip(words) {
        word.store(*value, Ordering::Relaxed);
    }
    head.store(number + 1, Ordering::Release);
}

/// Copies a slot. What it is worth, [`is_intact`] says afterwards.
#[inline]
pub(super) fn copy<W: Word, const N: usize>(slot: &[W; N]) -> [u64; N] {
    std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
}

/// Whether copies of record `number`, below a head seen before, and of later ones, are whole in a ring of `slots`. The
/// slot that the next record goes to counts as overwritten.
#[inline]
pub(super) fn is_intact<W: Word>(head: &W, slots: u64, number: u64) -> bool {
    // Pairs with the writer's fence: had a word been a later record's, the head shows it.
    W::fence(Ordering::Acquire);
    is_below(head.load(Ordering::Relaxed), slots, number)
}

/// The same, by a head that was loaded after the copies.
#[inline]
pub(super) fn is_below(head: u64, slots: u64, number: u64) -> bool {
    number < head && head - number < slots
}

/// Copies a table's row, its first word before the others.
pub(super) fn copy_row<W: Word, const N: usize>(row: &[W; N]) -> [u64; N] {
    let first = row[0].load(Ordering::Acquire);
    std::array::from_fn(|word| if word == 0 { first } else { row[word].load(Ordering::Relaxed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Word for loom::sync::atomic::AtomicU64 {
        fn load(&self, order: Ordering) -> u64 {
            Self::load(self, order)
        }

        fn store(&self, value: u64, order: Ordering) {
            Self::store(self, value, order);
        }

        fn fence(order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    const SLOTS: u64 = 2;

    #[derive(Default)]
    struct Ring<W> {
        head: W,
        slots: [[W; 2]; SLOTS as usize],
    }

    impl<W: Word> Ring<W> {
        fn slot(&self, number: u64) -> &[W; 2] {
            &self.slots[(number % SLOTS) as usize]
        }

        fn publish(&self, number: u64) {
            publish(&self.head, self.slot(number), number, &words(number));
        }

        fn read(&self, number: u64) -> Option<[u64; 2]> {
            if number >= self.head.load(Ordering::Acquire) {
                return None;
            }
            let copied = copy(self.slot(number));
            is_intact(&self.head, SLOTS, number).then_some(copied)
        }
    }

    fn words(number: u64) -> [u64; 2] {
        [number * 100 + 1, number * 100 + 2]
    }

    #[test]
    fn a_reader_finds_its_record_or_learns_that_it_is_gone() {
        let ring = Ring::<AtomicU64>::default();
        assert_eq!(ring.read(0), None);
        ring.publish(0);
        assert_eq!(ring.read(0), Some(words(0)));
        ring.publish(1);
        assert_eq!(ring.read(0), None, "record 2 may be on its way into that slot");
        assert_eq!(ring.read(1), Some(words(1)));
        ring.publish(2);
        assert_eq!((ring.read(1), ring.read(2)), (None, Some(words(2))));
    }

    #[test]
    fn a_writer_that_died_in_the_middle_leaves_no_record() {
        let ring = Ring::<AtomicU64>::default();
        ring.publish(0);
        ring.publish(1);
        ring.slot(2)[0].store(77, Ordering::Relaxed);
        assert_eq!((ring.read(0), ring.read(1), ring.read(2)), (None, Some(words(1)), None));
    }

    /// Every interleaving and every reordering the memory model allows, of a ring that turns over beside a reader.
    #[test]
    fn loom_finds_no_torn_read() {
        type Word = loom::sync::atomic::AtomicU64;
        loom::model(|| {
            let ring = loom::sync::Arc::new(Ring::<Word>::default());
            let writer = {
                let ring = loom::sync::Arc::clone(&ring);
                loom::thread::spawn(move || (0..3).for_each(|number| ring.publish(number)))
            };
            for number in [0, 1] {
                if let Some(seen) = ring.read(number) {
                    assert_eq!(seen, words(number));
                }
            }
            writer.join().unwrap();
            assert_eq!(ring.read(2), Some(words(2)));
        });
    }
}
