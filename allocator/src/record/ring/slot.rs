//! One slot of the ring: a mark that says whose record the words behind it are.
//!
//! A sequence lock per slot. The single writer marks the slot as being written, stores the words and marks it as
//! written; a reader takes the words only if the mark was the one it wanted before and after. Every word is atomic,
//! so a torn read is detected and never undefined.

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

/// What a reader found where it looked for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<const N: usize> {
    /// The record.
    Record([u64; N]),
    /// It is not there yet.
    NotYet,
    /// A later record took its place, perhaps just now.
    Overwritten,
}

const fn being_written(sequence: u64) -> u64 {
    sequence.wrapping_mul(2).wrapping_add(1)
}

const fn written(sequence: u64) -> u64 {
    sequence.wrapping_mul(2).wrapping_add(2)
}

/// Writes record number `sequence`. One writer at a time.
#[inline]
pub(super) fn publish<W: Word, const N: usize>(
    mark: &W,
    words: &[W; N],
    sequence: u64,
    payload: &[u64; N],
) {
    mark.store(being_written(sequence), Ordering::Relaxed);
    // Whoever sees one of the words below sees the mark above too.
    W::fence(Ordering::Release);
    for (word, value) in words.iter().zip(payload) {
        word.store(*value, Ordering::Relaxed);
    }
    mark.store(written(sequence), Ordering::Release);
}

/// Looks for record number `sequence`.
#[inline]
pub(super) fn read<W: Word, const N: usize>(mark: &W, words: &[W; N], sequence: u64) -> Found<N> {
    let wanted = written(sequence);
    let before = mark.load(Ordering::Acquire);
    if before < wanted {
        return Found::NotYet;
    }
    if before > wanted {
        return Found::Overwritten;
    }
    let payload = std::array::from_fn(|i| words[i].load(Ordering::Relaxed));
    // Pairs with the writer's fence: had a word been a later record's, the mark would be too.
    W::fence(Ordering::Acquire);
    if mark.load(Ordering::Relaxed) == wanted { Found::Record(payload) } else { Found::Overwritten }
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

    fn payload(sequence: u64) -> [u64; 2] {
        [sequence * 100, sequence * 100 + 1]
    }

    #[test]
    fn a_reader_finds_its_record_or_learns_why_not() {
        let (mark, words) = <(AtomicU64, [AtomicU64; 2])>::default();
        assert_eq!(read(&mark, &words, 0), Found::NotYet);
        publish(&mark, &words, 0, &payload(0));
        assert_eq!(read(&mark, &words, 0), Found::Record(payload(0)));
        assert_eq!(read(&mark, &words, 4), Found::NotYet);
        publish(&mark, &words, 4, &payload(4));
        assert_eq!(read(&mark, &words, 0), Found::Overwritten);
        assert_eq!(read(&mark, &words, 4), Found::Record(payload(4)));
    }

    #[test]
    fn a_writer_that_died_in_the_middle_leaves_no_record() {
        let (mark, words) = <(AtomicU64, [AtomicU64; 2])>::default();
        publish(&mark, &words, 0, &payload(0));
        mark.store(being_written(1), Ordering::Relaxed);
        words[0].store(77, Ordering::Relaxed);
        assert_eq!(read(&mark, &words, 0), Found::Overwritten);
        assert_eq!(read(&mark, &words, 1), Found::NotYet);
    }

    /// Every interleaving and every reordering the memory model allows, of a slot written twice and read beside it.
    #[test]
    fn loom_finds_no_torn_read() {
        type Slot = (loom::sync::atomic::AtomicU64, [loom::sync::atomic::AtomicU64; 2]);
        loom::model(|| {
            let slot = loom::sync::Arc::new(Slot::default());
            let writer = {
                let slot = loom::sync::Arc::clone(&slot);
                loom::thread::spawn(move || {
                    publish(&slot.0, &slot.1, 0, &payload(0));
                    publish(&slot.0, &slot.1, 1, &payload(1));
                })
            };
            for sequence in [0, 1] {
                if let Found::Record(seen) = read(&slot.0, &slot.1, sequence) {
                    assert_eq!(seen, payload(sequence));
                }
            }
            writer.join().unwrap();
            assert_eq!(read(&slot.0, &slot.1, 1), Found::Record(payload(1)));
        });
    }
}
