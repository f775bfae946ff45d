//! The text log: strings, frames and stacks that records name by number, appended to the ring's memory for other
//! processes.
//!
//! An entry begins with a word that has its kind in its low two bits and its own number above. What an entry names
//! stands before it. Nothing is ever changed or removed; what no longer fits is counted.

use std::sync::atomic::Ordering;

use trace_format::{Frame, FrameId, StackId, StringId};

use super::layout::Part;
use super::look::Look;
use super::region::{HeaderField, Region};
use crate::cast;

const META: u64 = 0;
const STRING: u64 = 1;
const FRAME: u64 = 2;
const STACK: u64 = 3;

/// Bits of a stack's number and of a frame's, in a stack's one word.
const STACK_BITS: u32 = 21;
const FRAME_BITS: u32 = 20;

/// Words that a reader copies at once, and more for an entry that is longer.
const WORDS_AT_ONCE: usize = 1 << 15;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// What a tape of the ring would say about itself, as JSON: one word with the size in bytes (32), and the text.
    Meta(Vec<u8>),
    /// One word with the number (30 bits) and the size in bytes (32), and its bytes, UTF-8, padded to whole words.
    String(StringId, Vec<u8>),
    /// One word with the number (30 bits) and the line (32), and one with the numbers of name and file.
    Frame(FrameId, Frame),
    /// One word with the number, its caller's (none: 0) and the frame's.
    Stack(StackId, StackId, FrameId),
}

/// Appends an entry. Once one did not fit none does, so that nothing is named that is not there. One writer at a time.
pub(super) fn append(region: &Region, entry: &Entry) {
    match entry {
        Entry::Meta(json) => put(region, META | (json.len() as u64) << 32, words(json)),
        Entry::String(id, text) => {
            put(region, STRING | u64::from(id.0) << 2 | (text.len() as u64) << 32, words(text));
        }
        Entry::Frame(id, Frame { name, filename, line }) => {
            let names = u64::from(name.0) | u64::from(filename.0) << 32;
            put(region, FRAME | u64::from(id.0) << 2 | u64::from(*line) << 32, [names]);
        }
        Entry::Stack(id, caller, frame) => {
            let numbers = u64::from(id.0) | u64::from(caller.0) << STACK_BITS;
            let numbers = numbers | u64::from(frame.0) << (2 * STACK_BITS);
            put(region, STACK | numbers << 2, []);
        }
    }
}

fn put(
    region: &Region,
    first: u64,
    rest: impl IntoIterator<Item = u64, IntoIter: ExactSizeIterator>,
) {
    let (log, rest) = (region.text(), rest.into_iter());
    let len = cast::index(region.get(HeaderField::TextLen));
    let end = len + 1 + rest.len();
    let missing = region.get(HeaderField::TextMissing);
    if missing > 0 || end > log.len() {
        region.set(HeaderField::TextMissing, missing + 1);
        return;
    }
    log[len].store(first, Ordering::Relaxed);
    for (word, value) in log[len + 1..end].iter().zip(rest) {
        word.store(value, Ordering::Relaxed);
    }
    region.word(HeaderField::TextLen).store(end as u64, Ordering::Release);
}

/// Bytes as words, the last one padded with zeros.
fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(padded)
    })
}

/// Reads the entries from word `position` on, and moves on. A damaged log ends there.
pub(super) fn read(look: &impl Look, position: &mut usize, mut take: impl FnMut(Entry)) {
    let (start, log_words) = look.shape().part(Part::Text);
    let Some(end) =
        usize::try_from(look.field(HeaderField::TextLen)).ok().filter(|end| *end <= log_words)
    else {
        return;
    };
    let mut words_at_once = WORDS_AT_ONCE;
    let mut words = Vec::new();
    while *position < end {
        words.resize(words_at_once.min(end - *position), 0);
        look.load_all(start + *position, &mut words);
        let mut rest = &words[..];
        while let Some((entry, used)) = first_of(rest) {
            take(entry);
            rest = &rest[used..];
            *position += used;
        }
        if rest.len() == words.len() {
            if rest.len() == end - *position {
                *position = usize::MAX; // Damaged, for all later calls too.
                return;
            }
            words_at_once *= 2; // An entry that is longer.
        }
    }
}

/// The first entry, if there is one and it is not longer than [`WORDS_AT_ONCE`].
pub(super) fn first(look: &impl Look) -> Option<Entry> {
    let (start, log_words) = look.shape().part(Part::Text);
    let end =
        usize::try_from(look.field(HeaderField::TextLen)).ok().filter(|end| *end <= log_words)?;
    let mut words = vec![0; end.min(WORDS_AT_ONCE)];
    look.load_all(start, &mut words);
    first_of(&words).map(|(entry, _)| entry)
}

/// The entry that the words begin with, and how many of them it has.
fn first_of(log: &[u64]) -> Option<(Entry, usize)> {
    let (&first, rest) = log.split_first()?;
    let (id, high) = (cast::low_half(first) >> 2, (first >> 32) as u32);
    let (entry, words) = match first & 3 {
        kind @ (META | STRING) => {
            // What was never written is all zeros.
            if first == 0 {
                return None;
            }
            let words = rest.get(..(high as usize).div_ceil(8))?;
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.truncate(high as usize);
            let entry = match kind {
                META => Entry::Meta(bytes),
                _ => Entry::String(StringId(id), bytes),
            };
            (entry, words.len())
        }
        FRAME => {
            let names = *rest.first()?;
            let (name, filename) =
                (StringId(cast::low_half(names)), StringId((names >> 32) as u32));
            (Entry::Frame(FrameId(id), Frame { name, filename, line: high }), 1)
        }
        STACK => {
            let bits = |from: u32, count: u32| cast::low_half((first >> from) & ((1 << count) - 1));
            let (id, caller) = (bits(2, STACK_BITS), bits(2 + STACK_BITS, STACK_BITS));
            let frame = bits(2 + 2 * STACK_BITS, FRAME_BITS);
            // A chain of callers has an end.
            if caller >= id {
                return None;
            }
            (Entry::Stack(StackId(id), StackId(caller), FrameId(frame)), 0)
        }
        _ => return None,
    };
    Some((entry, 1 + words))
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;
    use crate::interner::{FRAMES_MAX, STACKS_MAX};

    fn string(id: u32, text: &[u8]) -> Entry {
        Entry::String(StringId(id), text.to_vec())
    }

    #[test]
    fn entries_are_read_in_order_and_those_that_do_not_fit_are_counted() {
        let region = Region::anonymous(Shape::new(1, 9)).unwrap();
        let frame = Frame { name: StringId(7), filename: StringId(u32::MAX), line: u32::MAX };
        let (frames, stacks) = (cast::count_of(FRAMES_MAX), cast::count_of(STACKS_MAX));
        let fit = [
            string(7, b"forward"),
            string((1 << 24) - 1, b"123456789"),
            Entry::Frame(FrameId(frames - 1), frame),
            Entry::Stack(StackId(stacks), StackId(stacks - 1), FrameId(frames - 1)),
        ];
        for entry in &fit {
            append(&region, entry);
        }
        append(&region, &string(3, b"x"));
        append(&region, &Entry::Stack(StackId(1), StackId(0), FrameId(0)));
        assert_eq!(
            region.get(HeaderField::TextMissing),
            2,
            "a later one that would fit is left out too"
        );
        let mut position = 0;
        let mut seen = Vec::new();
        read(&region, &mut position, |entry| seen.push(entry));
        assert_eq!((&seen[..], position), (&fit[..], 8));
        read(&region, &mut position, |entry| panic!("read twice: {entry:?}"));
    }

    #[test]
    fn an_entry_longer_than_what_is_read_at_once_is_whole() {
        let region = Region::anonymous(Shape::new(1, 4 * WORDS_AT_ONCE)).unwrap();
        let entries = [
            string(1, b"forward"),
            Entry::Meta(vec![7; 9 * WORDS_AT_ONCE]),
            string(2, &vec![b'x'; 4 * WORDS_AT_ONCE]),
        ];
        for entry in &entries {
            append(&region, entry);
        }
        let mut seen = Vec::new();
        read(&region, &mut 0, |entry| seen.push(entry));
        assert_eq!(seen, entries);
    }

    #[test]
    fn damage_ends_the_log() {
        let region = Region::anonymous(Shape::new(1, 8)).unwrap();
        let expect_none = || read(&region, &mut 0, |entry| panic!("{entry:?}"));
        append(&region, &string(1, b"forward"));
        region.set(HeaderField::TextLen, u64::MAX);
        expect_none();
        region.set(HeaderField::TextLen, 2);
        // A text longer than the log, no kind, and a stack that is its own caller.
        for word in [STRING | u64::MAX << 2, 0, STACK | (5 | 5 << STACK_BITS) << 2] {
            region.text()[0].store(word, Ordering::Relaxed);
            expect_none();
        }
    }
}
