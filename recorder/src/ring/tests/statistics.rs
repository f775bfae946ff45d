//! When the statistics are copied into the ring, and by which records.

use std::cell::Cell;

use events::{STATISTICS, Statistics, StatisticsValues};

use super::*;
use crate::cast;

/// Each look at the statistics gives the next number.
#[derive(Default)]
struct Looks(Cell<u64>);

impl Statistics for Looks {
    fn values(&self) -> Option<StatisticsValues> {
        self.0.set(self.0.get() + 1);
        Some([self.0.get(); STATISTICS])
    }
}

/// The number of the copy that the reader finds.
fn copied(reader: &RingReader) -> Option<u64> {
    reader.statistics().map(|(values, next)| {
        assert!(next <= reader.info().written);
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        values[0]
    })
}

#[test]
fn the_first_block_copies_the_statistics_and_then_one_block_a_second_does() {
    let (_dir, mut recorder, clock, reader) = timed(64);
    let looks = Looks::default();
    let mut block = |n: u64| {
        recorder.record_block(BlockSlot(cast::low_half(n)), StackId::NONE, small(n), &looks);
    };
    assert_eq!(copied(&reader), None);
    block(1);
    assert_eq!(copied(&reader), Some(1));
    (2..100).for_each(&mut block);
    assert_eq!(copied(&reader), Some(1), "less than a second has passed");
    for second in 2..6 {
        clock.pass(3 * SECOND_NS);
        (100 * second..100 * second + 9).for_each(&mut block);
        assert_eq!(copied(&reader), Some(second));
    }
    assert_eq!(looks.0.get(), 5);
}

#[test]
fn a_free_copies_nothing_and_the_copy_counts_its_own_block() {
    let (_dir, mut recorder, clock, reader) = timed(64);
    let looks = Looks::default();
    recorder.record_block(BlockSlot(1), StackId::NONE, small(1), &looks);
    assert_eq!(reader.statistics().map(|(_, next)| next), Some(reader.info().written));
    clock.pass(3 * SECOND_NS);
    let addr = Addr(1 << 9);
    let free = Event::Free { addr, requested_bytes: 1, size_bytes: 512, pending: false };
    recorder.record_block(BlockSlot(1), StackId::NONE, free, &looks);
    assert_eq!(copied(&reader), Some(1));
    recorder.record_block(BlockSlot(1), StackId::NONE, small(1), &looks);
    assert_eq!(copied(&reader), Some(2));
    assert_eq!(reader.statistics().map(|(_, next)| next), Some(reader.info().written));
}

#[test]
fn marks_that_note_every_second_leave_the_copy_to_the_next_block() {
    let (_dir, mut recorder, clock, reader) = timed(64);
    let looks = Looks::default();
    recorder.record_block(BlockSlot(1), StackId::NONE, small(1), &looks);
    for second in 2..6 {
        clock.pass(3 * SECOND_NS);
        let name = recorder.intern("step");
        recorder.record(StackId::NONE, Event::Mark { kind: MarkKind::Step, name });
        let slot = BlockSlot(cast::low_half(second));
        recorder.record_block(slot, StackId::NONE, small(second), &looks);
        assert_eq!(copied(&reader), Some(second));
    }
}

#[test]
fn an_explicit_copy_waits_for_nothing_and_a_forked_child_makes_none() {
    let (_dir, mut recorder) = ring(64);
    let reader = reader(&recorder);
    recorder.copy_statistics(&());
    assert_eq!(copied(&reader), None, "nothing is counted");
    let looks = Looks(Cell::new(40));
    recorder.copy_statistics(&looks);
    assert_eq!(copied(&reader), Some(41));
    recorder.ring().after_fork_child();
    recorder.copy_statistics(&looks);
    recorder.record_block(BlockSlot(1), StackId::NONE, small(1), &looks);
    assert_eq!(copied(&reader), Some(41));
}
