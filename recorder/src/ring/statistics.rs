//! The allocator's statistics in the ring's header, copied about once a second.
//!
//! Two copies, written in turn, so that one of them is whole however the process ends.

use std::sync::atomic::{Ordering, fence};

use events::{STATISTICS, StatisticsValues};

use super::layout::Word;
use super::look::Look;
use super::region::Region;
use super::slot;

/// The number of the first record that is not counted, and the values.
const COPY_WORDS: usize = 1 + STATISTICS;

/// Makes `values` the newest copy; record `next` is the first that is not counted. One writer at a time.
pub(super) fn copy(region: &Region, next: u64, values: &StatisticsValues) {
    let mut words = [next; COPY_WORDS];
    words[1..].copy_from_slice(values);
    let copies = region.words_from(Word::Statistics, 2 * COPY_WORDS);
    write(region.word(Word::StatisticsCount), copies, &words);
}

/// The newest copy, and the number of the first record that it does not count; `None` before the first copy.
pub(super) fn newest(look: &impl Look) -> Option<(StatisticsValues, u64)> {
    loop {
        let count = look.field(Word::StatisticsCount);
        if count == 0 {
            return None;
        }
        let mut words = [0; COPY_WORDS];
        look.load_all(Word::Statistics as usize + start(count, COPY_WORDS), &mut words);
        fence(Ordering::Acquire);
        // Else the writer may have begun the copy after the next, which is in the same place.
        if look.field(Word::StatisticsCount) == count {
            let [next, values @ ..] = words;
            return Some((values, next));
        }
    }
}

fn write<W: slot::Word>(count: &W, copies: &[W], values: &[u64]) {
    let next = count.load(Ordering::Relaxed).wrapping_add(1);
    // A reader that sees one of the words below sees the count of the copy before, and not an older one.
    W::fence(Ordering::Release);
    for (word, value) in copies[start(next, values.len())..].iter().zip(values) {
        word.store(*value, Ordering::Relaxed);
    }
    count.store(next, Ordering::Release);
}

fn start(count: u64, values: usize) -> usize {
    (count & 1) as usize * values
}

#[cfg(test)]
mod tests {
    use super::super::layout::{HEADER_WORDS, Shape};
    use super::*;

    #[test]
    fn the_last_copy_is_read_and_before_the_first_there_is_none() {
        let region = Region::anonymous(Shape::new(1, 1)).unwrap();
        assert_eq!(newest(&region), None);
        for number in 1..4 {
            let values = std::array::from_fn(|at| number * 1000 + at as u64);
            copy(&region, number, &values);
            assert_eq!(newest(&region), Some((values, number)));
        }
        assert!(Word::Statistics as usize + 2 * COPY_WORDS <= HEADER_WORDS);
    }

    #[test]
    fn a_writer_that_died_in_the_middle_leaves_the_copy_before() {
        let region = Region::anonymous(Shape::new(1, 1)).unwrap();
        copy(&region, 70, &[7; STATISTICS]);
        let copies = region.words_from(Word::Statistics, 2 * COPY_WORDS);
        copies[start(2, COPY_WORDS)].store(8, Ordering::Relaxed);
        assert_eq!(newest(&region), Some(([7; STATISTICS], 70)));
    }

    /// Every interleaving and every reordering that the memory model allows, of three copies beside a reader.
    #[test]
    fn loom_finds_no_torn_copy() {
        type Word = loom::sync::atomic::AtomicU64;
        loom::model(|| {
            let shared = loom::sync::Arc::new((Word::default(), <[Word; 4]>::default()));
            let writer = {
                let shared = loom::sync::Arc::clone(&shared);
                loom::thread::spawn(move || {
                    for number in 1..4 {
                        write(&shared.0, &shared.1, &[number * 10, number * 10 + 1]);
                    }
                })
            };
            let (count, copies) = &*shared;
            let before = count.load(Ordering::Acquire);
            let at = start(before, 2);
            let seen = [0, 1].map(|word| copies[at + word].load(Ordering::Relaxed));
            loom::sync::atomic::fence(Ordering::Acquire);
            if before > 0 && count.load(Ordering::Relaxed) == before {
                assert_eq!(seen, [before * 10, before * 10 + 1]);
            }
            writer.join().unwrap();
        });
    }
}
