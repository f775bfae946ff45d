//! The table of live blocks: a row for each place of the heap's arena, with the words of the block's allocation.
//!
//! A record is published first and entered here after it, so that a reader finds in the ring whatever it may have seen
//! half done here. It looks at the head, copies the table, looks at the head again and then does once more what the
//! records between say, from the one before the first look on, address by address. What is not in them did not change
//! meanwhile. The same holds after a kill, where the last record may not have been entered.

use std::sync::atomic::Ordering;

use super::layout::{Payload, SLOT_WORDS};
use super::pack::FREE;
use super::slot::Word;
use super::words;

/// A place of the table.
pub(super) type Row<W> = [W; SLOT_WORDS];

/// Enters a block by the words of its allocation, whose record was published.
#[inline]
pub(super) fn put<W: Word>(row: &Row<W>, words: &Payload) {
    // A reader that sees one of the stores below sees the head behind the record.
    W::fence(Ordering::Release);
    for (word, value) in row[1..].iter().zip(&words[1..]) {
        word.store(*value, Ordering::Relaxed);
    }
    // A reader that sees this sees no address of an earlier block.
    row[0].store(words[0], Ordering::Release);
}

/// Notes that the block's free waits for other streams.
#[inline]
pub(super) fn set_pending<W: Word>(row: &Row<W>) {
    W::fence(Ordering::Release);
    let head = row[0].load(Ordering::Relaxed);
    if head != 0 {
        row[0].store(words::with_kind(head, FREE, 1), Ordering::Relaxed);
    }
}

/// Takes a block out.
#[inline]
pub(super) fn clear<W: Word>(row: &Row<W>) {
    W::fence(Ordering::Release);
    row[0].store(0, Ordering::Relaxed);
}

/// Whether a block is in the row of these words, whose first was loaded before the others.
pub(super) const fn is_taken(row: &Payload) -> bool {
    row[0] != 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU64;

    use trace_format::StackId;

    use super::super::pack::ALLOC;
    use super::super::slot::{copy, copy_row, is_intact, publish};
    use super::*;

    /// A block's words, all of which follow from its address.
    fn alloc(addr: u64) -> Payload {
        words::encode(0, (ALLOC, 0), StackId(addr as u32), [addr, addr + 1, addr << 9], 0)
    }

    fn free(addr: u64) -> Payload {
        words::encode(0, (FREE, 0), StackId(0), [addr, addr + 1, addr << 9], 0)
    }

    const SLOTS: usize = 8;

    #[derive(Default)]
    struct Ring<W> {
        head: W,
        slots: [[W; SLOT_WORDS]; SLOTS],
        rows: [Row<W>; 1],
    }

    impl<W: Word> Ring<W> {
        fn record(&self, number: u64, words: &Payload) {
            publish(&self.head, &self.slots[number as usize % SLOTS], number, words);
            let row = &self.rows[0];
            if words::decode(words).kind == ALLOC { put(row, words) } else { clear(row) }
        }

        /// What is live after all records before the number that comes with it.
        fn live(&self) -> (BTreeMap<u64, Payload>, u64) {
            let start = self.head.load(Ordering::Acquire).saturating_sub(1);
            let rows = self.rows.iter().map(copy_row).filter(is_taken);
            let mut live: BTreeMap<_, _> = rows.map(|words| (words[1], words)).collect();
            W::fence(Ordering::Acquire);
            let end = self.head.load(Ordering::Acquire);
            for number in start..end {
                let words = copy(&self.slots[number as usize % SLOTS]);
                assert!(is_intact(&self.head, SLOTS as u64, number), "nothing is overwritten here");
                let slot = words::decode(&words);
                if slot.kind == ALLOC {
                    live.insert(slot.args[0], words);
                } else {
                    live.remove(&slot.args[0]);
                }
            }
            (live, end)
        }
    }

    /// The state after the first `end` of the records that the tests make.
    fn expected(end: u64) -> BTreeMap<u64, Payload> {
        let addr = match end {
            1 => 1,
            3 => 2,
            _ => return BTreeMap::new(),
        };
        BTreeMap::from([(addr, alloc(addr))])
    }

    #[test]
    fn a_record_that_was_not_entered_before_the_end_is_done_again() {
        let ring = Ring::<AtomicU64>::default();
        ring.record(0, &alloc(1));
        assert_eq!(ring.live(), (expected(1), 1));
        publish(&ring.head, &ring.slots[1], 1, &free(1));
        assert_eq!(ring.live(), (expected(2), 2), "freed, but still in its row");
        clear(&ring.rows[0]);
        publish(&ring.head, &ring.slots[2], 2, &alloc(2));
        ring.rows[0][1].store(2, Ordering::Relaxed);
        assert_eq!(ring.live(), (expected(3), 3), "in its row in part");
    }

    #[test]
    fn a_block_that_waits_keeps_its_numbers() {
        let ring = Ring::<AtomicU64>::default();
        ring.record(0, &alloc(7));
        set_pending(&ring.rows[0]);
        let slot = words::decode(&copy_row(&ring.rows[0]));
        assert_eq!((slot.kind, slot.detail, slot.stack), (FREE, 1, StackId(7)));
        assert_eq!(slot.args, [7, 8, 7 << 9]);
    }

    /// Every interleaving and every reordering the memory model allows, of one row used twice.
    #[test]
    fn loom_finds_no_state_that_never_was() {
        type Word = loom::sync::atomic::AtomicU64;
        loom::model(|| {
            let ring = loom::sync::Arc::new(Ring::<Word>::default());
            let writer = {
                let ring = loom::sync::Arc::clone(&ring);
                loom::thread::spawn(move || {
                    for (number, words) in (0..).zip([alloc(1), free(1), alloc(2)]) {
                        ring.record(number, &words);
                    }
                })
            };
            let (live, end) = ring.live();
            assert_eq!(live, expected(end));
            writer.join().unwrap();
        });
    }
}
