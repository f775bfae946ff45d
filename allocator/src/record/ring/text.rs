//! The text log: strings and stacks that records name by number, appended to the ring's memory for other processes.
//!
//! An entry is a word `kind | bytes << 8`, then its bytes, padded to whole words. Entries of a kind are numbered in
//! order from 1. Nothing is ever changed or removed; what no longer fits is counted.

use std::sync::atomic::Ordering;

use trace_format::{Frame, StringId};

use super::region::{Region, Word};

/// A string, UTF-8.
pub(super) const STRING: u8 = 1;
/// A stack: for each frame, innermost first, the numbers of its name and file and its line, 32 bits each.
pub(super) const STACK: u8 = 2;

/// What a tape of the ring would say about itself, as JSON.
pub(super) const META: u8 = 3;

/// A stack as its entry's bytes.
pub(super) fn stack_bytes(frames: &[Frame]) -> Vec<u8> {
    let numbers = frames.iter().flat_map(|frame| [frame.name.0, frame.filename.0, frame.line]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// And back.
pub(super) fn stack_frames(bytes: &[u8]) -> Vec<Frame> {
    let (numbers, _) = bytes.as_chunks::<4>();
    let (frames, _) = numbers.as_chunks::<3>();
    let frame = |frame: &[[u8; 4]; 3]| {
        let [name, filename, line] = frame.map(u32::from_le_bytes);
        Frame { name: StringId(name), filename: StringId(filename), line }
    };
    frames.iter().map(frame).collect()
}

/// Appends an entry. Once one did not fit none does, so that numbers stay right. One writer at a time.
pub(super) fn append(region: &Region, kind: u8, bytes: &[u8]) {
    let text = region.text();
    let len = region.get(Word::TextLen) as usize;
    let end = len + 1 + bytes.len().div_ceil(8);
    let missing = region.get(Word::TextMissing);
    if missing > 0 || end > text.len() {
        region.set(Word::TextMissing, missing + 1);
        return;
    }
    text[len].store(u64::from(kind) | (bytes.len() as u64) << 8, Ordering::Relaxed);
    for (word, chunk) in text[len + 1..end].iter().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
    }
    region.word(Word::TextLen).store(end as u64, Ordering::Release);
}

/// Reads the entry at word `position`, if it is complete, and moves on. A damaged log ends there.
pub(super) fn next(region: &Region, position: &mut usize) -> Option<(u8, Vec<u8>)> {
    let len = region.word(Word::TextLen).load(Ordering::Acquire);
    let text = region.text().get(..usize::try_from(len).ok()?)?;
    let (entry, rest) = text.get(*position..)?.split_first()?;
    let entry = entry.load(Ordering::Relaxed);
    let size_bytes = (entry >> 8) as usize;
    let words = rest.get(..size_bytes.div_ceil(8))?;
    let mut bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(size_bytes);
    *position += 1 + words.len();
    Some((entry as u8, bytes))
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;

    #[test]
    fn what_was_appended_is_read_in_order_and_what_did_not_fit_is_counted() {
        let region = Region::anonymous(Shape::new(1, 8)).unwrap();
        append(&region, STRING, b"forward");
        append(&region, STACK, b"123456789");
        append(&region, STRING, &[b'x'; 24]);
        append(&region, STRING, b"y");
        assert_eq!(region.get(Word::TextMissing), 2, "a later one that would fit is left out too");
        let mut position = 0;
        assert_eq!(next(&region, &mut position), Some((STRING, b"forward".to_vec())));
        assert_eq!(next(&region, &mut position), Some((STACK, b"123456789".to_vec())));
        assert_eq!(next(&region, &mut position), None);
    }

    #[test]
    fn damage_ends_the_log() {
        let region = Region::anonymous(Shape::new(1, 8)).unwrap();
        append(&region, STRING, b"forward");
        region.set(Word::TextLen, u64::MAX);
        assert_eq!(next(&region, &mut 0), None);
        region.set(Word::TextLen, 2);
        region.text()[0].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(next(&region, &mut 0), None);
    }
}
