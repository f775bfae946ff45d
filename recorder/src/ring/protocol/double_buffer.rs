//! Words that are replaced as a whole: two copies of them and the count of writes.
//!
//! A write goes to the older copy and then counts itself, so the newest copy is whole wherever the writer's process
//! ends, and readers wait for nothing.

use std::sync::atomic::Ordering;

use super::{AtomicWord, ReadWords};

/// The place of the copies and their count in the ring's words.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) struct DoubleBuffer {
    /// The word that counts the writes; the newest is in copy `count & 1`.
    pub(in crate::ring) count_at: usize,
    /// The first word of copy 0, which copy 1 follows.
    pub(in crate::ring) start: usize,
    /// Words of one copy.
    pub(in crate::ring) copy_words: usize,
}

impl DoubleBuffer {
    /// Writes the next copy: `store` gets the words of the older one, which hold what the write before last stored, and
    /// that copy's number, 0 or 1. One writer at a time.
    pub(in crate::ring) fn write<W: AtomicWord>(
        self,
        words: &[W],
        store: impl FnOnce(&[W], usize),
    ) {
        let counter = &words[self.count_at];
        let count = counter.load_own() + 1;
        // A reader that sees one of the stores below sees that the copy it is reading is no longer the newest.
        W::fence(Ordering::Release);
        store(&words[self.copy_start(count)..][..self.copy_words], (count & 1) as usize);
        counter.store(count, Ordering::Release);
    }

    /// Loads the beginning of the newest copy; false, and zeros, before the first write.
    #[must_use]
    pub(in crate::ring) fn read(self, words: &(impl ReadWords + ?Sized), into: &mut [u64]) -> bool {
        loop {
            let count = words.load(self.count_at);
            if count == 0 {
                into.fill(0);
                return false;
            }
            words.load_all(self.copy_start(count), into);
            words.acquire_fence();
            // The writer goes to the other copy first.
            if words.load(self.count_at) == count {
                return true;
            }
            std::hint::spin_loop();
        }
    }

    fn copy_start(self, count: u64) -> usize {
        self.start + (count & 1) as usize * self.copy_words
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::loom_word::{self, LoomWord};
    use super::super::store_all;
    use super::*;

    const BUFFER: DoubleBuffer = DoubleBuffer { count_at: 1, start: 2, copy_words: 2 };
    const WORDS: usize = 6;
    /// A word that is stored before each write, as the ring's head is.
    const HEAD: usize = 0;

    fn write<W: AtomicWord>(words: &[W], number: u64) {
        words[HEAD].store(number, Ordering::Relaxed);
        BUFFER.write(words, |copy, _| store_all(copy, &[number * 10, number * 10 + 1]));
    }

    /// The number of the write that a reader sees, 0 if none.
    fn read<W: AtomicWord>(words: &[W]) -> u64 {
        let mut copy = [1; 2];
        let is_written = BUFFER.read(words, &mut copy);
        let number = copy[0] / 10;
        assert_eq!(copy, if is_written { [number * 10, number * 10 + 1] } else { [0; 2] });
        assert!(words[HEAD].load(Ordering::Relaxed) >= number, "what led to the write is seen");
        number
    }

    #[test]
    fn a_reader_finds_the_last_write() {
        let words: [AtomicU64; WORDS] = <_>::default();
        assert_eq!(read(&words), 0);
        for number in 1..5 {
            write(&words, number);
            assert_eq!(read(&words), number);
        }
    }

    #[test]
    fn a_write_gets_the_copy_of_the_write_before_last() {
        let words: [AtomicU64; WORDS] = <_>::default();
        (1..=2).for_each(|number| write(&words, number));
        BUFFER.write(&words, |copy, at| {
            assert_eq!((copy[0].load(Ordering::Relaxed), at), (10, 1));
        });
    }

    #[test]
    fn loom_finds_no_torn_copy() {
        let writer = |words: &[LoomWord]| (1..=3).for_each(|number| write(words, number));
        loom_word::check(WORDS, writer, |words| _ = read(words));
    }

    #[test]
    fn loom_finds_a_whole_copy_of_a_writer_that_died_in_the_middle() {
        let writer = |words: &[LoomWord]| {
            (1..=2).for_each(|number| write(words, number));
            words[HEAD].store(3, Ordering::Relaxed);
            LoomWord::fence(Ordering::Release);
            words[BUFFER.copy_start(3)].store(30, Ordering::Relaxed);
        };
        loom_word::check(WORDS, writer, |words| assert!(read(words) <= 2));
    }
}
