//! A tape that was cut or damaged gives what lies before, or an error that says where; never a panic, never a wrong
//! item.

use std::io::Cursor;

use crate::common::{Outcome, read, steps, write};
use proptest::prelude::*;
use trace_format::{ChunkKind, Index, Item, ReadCause};

/// Items that the chunks which end at or before each byte hold: `(end of the chunk, items so far)`.
fn items_by_end(tape: &[u8]) -> Vec<(usize, usize)> {
    let index = Index::read(&mut Cursor::new(tape)).unwrap().unwrap();
    let mut entries = index.entries.iter().peekable();
    let mut items = 0;
    let mut ends = Vec::new();
    while let Some(entry) = entries.next() {
        items += match entry.kind {
            ChunkKind::Events => entry.items as usize,
            ChunkKind::Base => 1,
            // The first description is not an item, it comes with the reader.
            ChunkKind::Meta => usize::from(!ends.is_empty()),
            _ => 0,
        };
        // The index itself is the last chunk, found by its place at the end of the tape.
        let end = entries.peek().map(|next| next.offset_bytes as usize);
        ends.push((end.unwrap_or_else(|| index_offset(tape)), items));
    }
    ends
}

fn index_offset(tape: &[u8]) -> usize {
    let ending = tape.last_chunk::<16>().unwrap();
    usize::try_from(u64::from_le_bytes(*ending.first_chunk::<8>().unwrap())).unwrap()
}

fn check_cut(tape: &[u8], all: &[Item], ends: &[(usize, usize)], cut: usize) {
    let whole = ends.iter().rev().find(|(end, _)| *end <= cut);
    let Some((end, items)) = whole else {
        // Not even the description is whole.
        let error = read(&tape[..cut]).err().unwrap();
        assert!(matches!(error.cause, ReadCause::Empty), "{cut}: {error}");
        return;
    };
    let outcome = read(&tape[..cut]).unwrap();
    assert!(outcome.error.is_none(), "{cut}: {:?}", outcome.error);
    assert_eq!(outcome.items, all[..*items], "{cut}");
    assert!(!outcome.recovery.finished, "{cut}");
    let lost_bytes = outcome.recovery.torn.map_or(0, |torn| torn.lost_bytes);
    assert_eq!(lost_bytes as usize, cut - end, "{cut}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// A tape cut at any byte is the chunks before it, and says how many bytes are not.
    #[test]
    fn a_cut_tape_is_its_whole_chunks(steps in steps(120)) {
        let tape = write(&steps);
        let Outcome { items, .. } = read(&tape).unwrap();
        let ends = items_by_end(&tape);
        for cut in 0..tape.len() {
            check_cut(&tape, &items, &ends, cut);
        }
    }

    /// A tape with any bit wrong gives a prefix of its items: checksums cover every byte.
    #[test]
    fn a_flipped_bit_never_makes_a_wrong_item(steps in steps(40)) {
        let mut tape = write(&steps);
        let Outcome { items, .. } = read(&tape).unwrap();
        for bit in 0..tape.len() * 8 {
            tape[bit / 8] ^= 1 << (bit % 8);
            match read(&tape) {
                Err(error) => prop_assert!(bit / 8 < index_offset(&write(&[])), "{}", error),
                Ok(outcome) => {
                    let is_reported = outcome.error.is_some() || !outcome.recovery.finished;
                    prop_assert!(is_reported, "bit {} went unseen", bit);
                    prop_assert_eq!(&outcome.items[..], &items[..outcome.items.len()]);
                }
            }
            tape[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// A crash of the machine can leave blocks of zeros where the last chunks should be.
#[test]
fn a_tail_of_zeros_is_torn() {
    let tape = write(&[]);
    let cut = index_offset(&tape);
    let zeros = [&tape[..cut + 40], &[0; 5000][..]].concat();
    let outcome = read(&zeros).unwrap();
    let torn = outcome.recovery.torn.unwrap();
    assert_eq!((torn.offset_bytes, torn.lost_bytes), (cut as u64, 5040));
    assert!(outcome.error.is_none());
}
