//! Words that change in place, a few at a time: a version that is odd while they change.
//!
//! A reader whose copy was made during a change tries again. If the writer's process ends in the middle of a change,
//! the version stays odd; a reader that knows of that end takes the words as they are.

use std::sync::atomic::Ordering;

use super::{AtomicWord, ReadWords};

/// The place of the version in the ring's words.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) struct SeqLock {
    /// The word with the version.
    pub(in crate::ring) version_at: usize,
}

impl SeqLock {
    /// Runs a change, which stores relaxed. One writer at a time.
    pub(in crate::ring) fn write<W: AtomicWord>(self, words: &[W], change: impl FnOnce()) {
        let version = &words[self.version_at];
        let before = version.load_own();
        version.store(before + 1, Ordering::Relaxed);
        // A reader that sees one of the stores of the change sees the odd version, and the head behind the record.
        W::fence(Ordering::Release);
        change();
        version.store(before + 2, Ordering::Release);
    }

    /// What `copy` makes of the words, which it loads; `None` where they change meanwhile. `may_be_unfinished` if the
    /// writer is dead: its last change may be done in part then.
    pub(in crate::ring) fn read<T>(
        self,
        words: &(impl ReadWords + ?Sized),
        may_be_unfinished: bool,
        copy: impl FnOnce() -> T,
    ) -> Option<T> {
        let before = words.load(self.version_at);
        if before & 1 == 1 && !may_be_unfinished {
            return None;
        }
        let copied = copy();
        words.acquire_fence();
        (words.load(self.version_at) == before).then_some(copied)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::loom_word::{self, LoomWord};
    use super::super::store_all;
    use super::*;

    const LOCK: SeqLock = SeqLock { version_at: 1 };
    /// A word that is stored before each change, as the ring's head is.
    const HEAD: usize = 0;
    /// The first of two words under the lock.
    const START: usize = 2;
    const WORDS: usize = 4;

    fn write<W: AtomicWord>(words: &[W], number: u64) {
        words[HEAD].store(number, Ordering::Relaxed);
        LOCK.write(words, || store_all(&words[START..], &[number, number]));
    }

    fn read<W: AtomicWord>(words: &[W], may_be_unfinished: bool) -> Option<[u64; 2]> {
        let mut copied = [0; 2];
        let seen = LOCK.read(words, may_be_unfinished, || words.load_all(START, &mut copied));
        seen.map(|()| {
            let head = words[HEAD].load(Ordering::Relaxed);
            assert!(copied.iter().all(|number| *number <= head), "what led to the change is seen");
            copied
        })
    }

    #[test]
    fn only_a_reader_that_knows_of_the_writers_death_takes_a_change_done_in_part() {
        let words: [AtomicU64; WORDS] = <_>::default();
        write(&words, 1);
        assert_eq!(read(&words, false), Some([1; 2]));
        words[HEAD].store(2, Ordering::Relaxed);
        words[LOCK.version_at].store(3, Ordering::Relaxed);
        words[START].store(2, Ordering::Relaxed);
        assert_eq!((read(&words, false), read(&words, true)), (None, Some([2, 1])));
    }

    #[test]
    fn a_change_during_the_copy_is_noticed() {
        let words: [AtomicU64; WORDS] = <_>::default();
        assert_eq!(LOCK.read(&words[..], false, || write(&words, 1)), None);
        assert_eq!(LOCK.read(&words[..], true, || write(&words, 2)), None);
    }

    #[test]
    fn loom_finds_no_torn_copy() {
        let writer = |words: &[LoomWord]| (1..=2).for_each(|number| write(words, number));
        loom_word::check(WORDS, writer, |words| {
            assert!(read(words, false).is_none_or(|[first, second]| first == second));
        });
    }

    #[test]
    fn loom_finds_no_torn_copy_of_a_writer_that_died_in_the_middle() {
        let writer = |words: &[LoomWord]| {
            write(words, 1);
            words[HEAD].store(2, Ordering::Relaxed);
            words[LOCK.version_at].store(3, Ordering::Relaxed);
            LoomWord::fence(Ordering::Release);
            words[START].store(2, Ordering::Relaxed);
        };
        loom_word::check(WORDS, writer, |words| {
            assert!(read(words, false).is_none_or(|[first, second]| first == second));
        });
        loom_word::check(WORDS, writer, |words| _ = read(words, true));
    }
}
