//! How a reader gets a ring's words: from memory of its own process ([`Region`](super::region::Region)), or from the
//! file of another ([`FileRegion`](super::file_region::FileRegion)).
//!
//! Both load words one after the other in the order of the calls, so the protocols of slots, tables and snapshots are
//! written once.

use super::layout::{HEADER_WORDS, HeaderField, Part, Payload, Shape};
use super::protocol::ReadWords;
use super::protocol::slots::Slots;

/// The words of a ring, for a reader.
pub(super) trait Look: ReadWords {
    /// Slots that are copied before they are looked at.
    const BATCH: usize;

    /// How many there are of everything.
    fn shape(&self) -> Shape;

    /// The rows of a part, the first word of each loaded before its others.
    fn each_row<const N: usize>(&self, part: Part, take: impl FnMut([u64; N]));

    /// Fills `into` with the records from `number` on, which are below the head; false where the first of them was
    /// overwritten, perhaps just now.
    fn copy(&self, number: u64, into: &mut [Payload]) -> bool {
        let (head_at, start, count) =
            (HeaderField::Head as usize, HEADER_WORDS, self.shape().slots);
        Slots { head_at, start, count }.copy(self, number, into)
    }

    /// Whether nothing more can be loaded; all words are zero then.
    fn has_failed(&self) -> bool {
        false
    }

    /// A word of the header.
    fn field(&self, word: HeaderField) -> u64 {
        self.load(word as usize)
    }

    /// One row of a part; `None` beyond it.
    fn row<const N: usize>(&self, part: Part, number: usize) -> Option<[u64; N]> {
        let (start, words) = self.shape().part(part);
        let mut row = [0; N];
        (number < words / N).then(|| self.load_all(start + number * N, &mut row))?;
        Some(row)
    }

    /// Records that the ring holds at most.
    fn slot_count(&self) -> u64 {
        self.shape().slots as u64
    }

    /// Records written so far.
    fn written(&self) -> u64 {
        self.field(HeaderField::Head)
    }

    /// Number of the oldest record that is surely there, if `head` is the head.
    fn oldest(&self, head: u64) -> u64 {
        head.saturating_add(1).saturating_sub(self.slot_count())
    }
}
