//! Which memory of the one run is which memory of the other.

use std::collections::BTreeMap;

use recorder::TraceAction as Kind;
use trace_format::Addr;

use super::steps::{SegmentOffset, Step};

/// A run of memory that one segment event brought to both runs.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    /// Where the other run has it.
    actual: u64,
    /// How many segment events brought memory before this one.
    ordinal: u64,
    /// Distance from the start of what that event brought.
    offset: u64,
}

/// All memory, by the address in the expected run.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    by_expected: BTreeMap<u64, Piece>,
    brought: u64,
}

impl Pieces {
    /// Whether two steps of one kind and size concern the same memory; if so, follows them.
    pub(super) fn accept(&mut self, expected: &Step, actual: &Step) -> bool {
        let (one, other, bytes) = (expected.addr.0, actual.addr.0, expected.bytes);
        match expected.kind {
            Kind::Oom => true,
            Kind::SegmentAlloc | Kind::SegmentMap => {
                if self.find(one).is_some() {
                    return false; // The expected run maps what is mapped: no two runs can agree on that.
                }
                let ordinal = self.brought;
                self.brought += 1;
                self.by_expected.insert(one, Piece { bytes, actual: other, ordinal, offset: 0 });
                true
            }
            Kind::SegmentFree | Kind::SegmentUnmap => {
                let same = self.are_same(one, other, bytes);
                if same {
                    self.remove(one, bytes);
                }
                same
            }
            _ => self.are_same(one, other, bytes),
        }
    }

    /// Segment and offset of a step of the expected run.
    pub(super) fn place_of_expected(&self, step: &Step) -> Option<SegmentOffset> {
        let (start, piece) = self.find(step.addr.0)?;
        Some((piece.ordinal, piece.offset + (step.addr.0 - start)))
    }

    /// Segment and offset of a step of the actual run. Looks at every piece: only for messages.
    pub(super) fn place_of_actual(&self, step: &Step) -> Option<SegmentOffset> {
        let Addr(addr) = step.addr;
        let piece = self.by_expected.values().find(|piece| {
            addr.checked_sub(piece.actual).is_some_and(|offset| offset < piece.bytes)
        })?;
        Some((piece.ordinal, piece.offset + (addr - piece.actual)))
    }

    /// Whether both ranges begin and end in the same places. A block of an expandable segment may begin in one piece
    /// and end in another.
    fn are_same(&self, expected: u64, actual: u64, bytes: u64) -> bool {
        let last = bytes.saturating_sub(1);
        let ends = expected.checked_add(last).zip(actual.checked_add(last));
        self.translate(expected) == Some(actual)
            && ends.is_some_and(|(one, other)| self.translate(one) == Some(other))
    }

    fn translate(&self, expected: u64) -> Option<u64> {
        let (start, piece) = self.find(expected)?;
        Some(piece.actual + (expected - start))
    }

    fn find(&self, expected: u64) -> Option<(u64, Piece)> {
        let (&start, &piece) = self.by_expected.range(..=expected).next_back()?;
        (expected - start < piece.bytes).then_some((start, piece))
    }

    /// Takes a range out, which may cut pieces.
    fn remove(&mut self, from: u64, bytes: u64) {
        let to = from.saturating_add(bytes);
        self.cut(from);
        self.cut(to);
        while let Some((&start, _)) = self.by_expected.range(from..to).next() {
            self.by_expected.remove(&start);
        }
    }

    /// Cuts the piece that `at` lies in, so that one begins there.
    fn cut(&mut self, at: u64) {
        let Some((start, piece)) = self.find(at) else { return };
        let front = at - start;
        if front == 0 {
            return;
        }
        self.by_expected.insert(start, Piece { bytes: front, ..piece });
        let back = Piece {
            bytes: piece.bytes - front,
            actual: piece.actual + front,
            offset: piece.offset + front,
            ..piece
        };
        self.by_expected.insert(at, back);
    }
}
