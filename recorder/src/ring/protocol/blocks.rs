//! The table of live blocks: a row for each place of the heap's arena, with the words of the block's allocation.
//!
//! A record is published first and entered here after it, so that a reader finds in the ring whatever it may have seen
//! half done here. It looks at the head, copies the table, looks at the head again and then does once more what the
//! records between say, from the one before the first look on, address by address. What is not in them did not change
//! meanwhile. The same holds after a kill, where the last record may not have been entered.

use std::sync::atomic::Ordering;

use super::super::layout::{Payload, SLOT_WORDS};
use super::super::pack::FREE;
use super::super::words;
use super::{AtomicWord, store_all};

/// A place of the table.
pub(in crate::ring) type Row<W> = [W; SLOT_WORDS];

/// Enters a block by the words of its allocation, whose record was published.
#[inline]
pub(in crate::ring) fn put<W: AtomicWord>(row: &Row<W>, words: &Payload) {
    debug_assert!(row[0].load_own() == 0 && words[0] != 0, "a row has one block at a time");
    // A reader that sees one of the stores below sees the head behind the record.
    W::fence(Ordering::Release);
    store_all(&row[1..], &words[1..]);
    // A reader that sees this sees no address of an earlier block.
    row[0].store(words[0], Ordering::Release);
}

/// Notes that the block's free waits for other streams.
#[inline]
pub(in crate::ring) fn set_pending<W: AtomicWord>(row: &Row<W>) {
    W::fence(Ordering::Release);
    let head = row[0].load_own();
    if head != 0 {
        row[0].store(words::with_kind(head, FREE, 1), Ordering::Relaxed);
    }
}

/// Takes a block out.
#[inline]
pub(in crate::ring) fn clear<W: AtomicWord>(row: &Row<W>) {
    W::fence(Ordering::Release);
    row[0].store(0, Ordering::Relaxed);
}

/// Copies a table's row, its first word before the others.
pub(in crate::ring) fn copy_row<W: AtomicWord, const N: usize>(row: &[W; N]) -> [u64; N] {
    let first = row[0].load(Ordering::Acquire);
    std::array::from_fn(|word| if word == 0 { first } else { row[word].load(Ordering::Relaxed) })
}

/// Whether a block is in the row of these words, whose first was loaded before the others.
pub(in crate::ring) const fn is_taken(row: &Payload) -> bool {
    row[0] != 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU64;

    use trace_format::StackId;

    use super::super::super::pack::ALLOC;
    use super::super::super::words::Slot;
    use super::super::ReadWords;
    use super::super::loom_word::{self, LoomWord};
    use super::super::slots::{Slots, publish};
    use super::*;
    use crate::cast;

    const SLOTS: Slots = Slots { head_at: 0, start: 1, count: 8 };
    const ROW: usize = SLOTS.start + SLOTS.count * SLOT_WORDS;
    const WORDS: usize = ROW + SLOT_WORDS;

    /// A block's words, all of which follow from its address.
    fn alloc(addr: u64) -> Payload {
        words::encode(0, (ALLOC, 0), StackId(cast::low_half(addr)), [addr, addr + 1, addr << 9], 0)
    }

    fn free(addr: u64) -> Payload {
        words::encode(0, (FREE, 0), StackId(0), [addr, addr + 1, addr << 9], 0)
    }

    /// The words of a live block after its free, which waits.
    fn pending(&[head, rest @ ..]: &Payload) -> Payload {
        let [first, second, third] = rest;
        [words::with_kind(head, FREE, 1), first, second, third]
    }

    fn row<W>(ring: &[W]) -> &Row<W> {
        ring[ROW..].first_chunk().unwrap()
    }

    fn publish_only<W: AtomicWord>(ring: &[W], number: u64, words: &Payload) {
        let slot = ring[SLOTS.start + cast::index(number) * SLOT_WORDS..].first_chunk().unwrap();
        publish(&ring[SLOTS.head_at], slot, number, words);
    }

    fn record<W: AtomicWord>(ring: &[W], number: u64, words: &Payload) {
        publish_only(ring, number, words);
        match words::decode(words) {
            Slot { kind: ALLOC, .. } => put(row(ring), words),
            Slot { detail: 1, .. } => set_pending(row(ring)),
            _ => clear(row(ring)),
        }
    }

    /// What is live after all records before the number that comes with it.
    fn live<W: AtomicWord>(ring: &[W]) -> (BTreeMap<u64, Payload>, u64) {
        let start = ReadWords::load(ring, SLOTS.head_at).saturating_sub(1);
        let words = Some(copy_row(row(ring))).filter(is_taken);
        let mut live: BTreeMap<_, _> = words.iter().map(|words| (words[1], *words)).collect();
        ring.acquire_fence();
        let end = ReadWords::load(ring, SLOTS.head_at);
        for number in start..end {
            let mut words = [Payload::default()];
            assert!(SLOTS.copy(ring, number, &mut words), "nothing is overwritten here");
            let Slot { kind, detail, args: [addr, ..], .. } = words::decode(&words[0]);
            match (kind, detail) {
                (ALLOC, _) => _ = live.insert(addr, words[0]),
                (_, 1) => _ = live.entry(addr).and_modify(|words| *words = pending(words)),
                _ => _ = live.remove(&addr),
            }
        }
        (live, end)
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
        let ring: [AtomicU64; WORDS] = std::array::from_fn(|_| AtomicU64::default());
        record(&ring, 0, &alloc(1));
        assert_eq!(live(&ring), (expected(1), 1));
        publish_only(&ring, 1, &free(1));
        assert_eq!(live(&ring), (expected(2), 2), "freed, but still in its row");
        clear(row(&ring));
        publish_only(&ring, 2, &alloc(2));
        row(&ring)[1].store(2, Ordering::Relaxed);
        assert_eq!(live(&ring), (expected(3), 3), "in its row in part");
    }

    #[test]
    fn a_block_that_waits_keeps_its_numbers() {
        let row: Row<AtomicU64> = <_>::default();
        put(&row, &alloc(7));
        set_pending(&row);
        let slot = words::decode(&copy_row(&row));
        assert_eq!((slot.kind, slot.detail, slot.stack), (FREE, 1, StackId(7)));
        assert_eq!(slot.args, [7, 8, 7 << 9]);
    }

    /// One row used twice.
    #[test]
    fn loom_finds_no_state_that_never_was() {
        let writer = |ring: &[LoomWord]| {
            for (number, words) in (0..).zip([alloc(1), free(1), alloc(2)]) {
                record(ring, number, &words);
            }
        };
        loom_word::check(WORDS, writer, |ring| {
            let (live, end) = live(ring);
            assert_eq!(live, expected(end));
        });
    }

    /// A row that changes two records after its block's allocation: a reader that sees the change too early would not
    /// do the allocation once more.
    #[test]
    fn loom_finds_no_change_before_its_record() {
        fn check(last: fn() -> Payload, left: fn() -> BTreeMap<u64, Payload>) {
            let writer = move |ring: &[LoomWord]| {
                record(ring, 0, &alloc(1));
                publish_only(ring, 1, &free(9));
                record(ring, 2, &last());
            };
            loom_word::check(WORDS, writer, move |ring| {
                let (live, end) = live(ring);
                assert_eq!(live, if end == 3 { left() } else { expected(end.min(1)) });
            });
        }
        check(|| free(1), BTreeMap::new);
        check(|| pending(&free(1)), || BTreeMap::from([(1, pending(&alloc(1)))]));
    }
}
