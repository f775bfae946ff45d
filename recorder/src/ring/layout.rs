//! What lies where in a ring's memory, in words of 64 bits.
//!
//! Header, slots, contexts, the tables of live blocks, of segments and of pages, two copies of the pools' state, and
//! the text log. All sizes follow from the number of slots; the header repeats them for readers.

/// "VTRING" and two zero bytes.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"VTRING\0\0");
/// Of the layout below and of the words in it.
pub(super) const VERSION: u64 = 4;

pub(super) const HEADER_WORDS: usize = 512;
pub(super) const SLOT_WORDS: usize = 4;
/// The words of a slot.
pub(super) type Payload = [u64; SLOT_WORDS];
pub(super) const CONTEXT_WORDS: usize = 4;
pub(super) const SEGMENT_WORDS: usize = 8;
pub(super) const PAGE_WORDS: usize = 2;

/// The header's words by their numbers. Those that different threads write lie on different cache lines.
#[derive(Clone, Copy)]
pub(super) enum HeaderField {
    Magic = 0,
    Version = 1,
    Pid = 2,
    ProcessStart = 3,
    Device = 4,
    Slots = 5,
    Contexts = 6,
    Blocks = 7,
    Segments = 8,
    PoolsWords = 9,
    TextWords = 10,
    Pages = 11,
    /// Records written so far: the number of the next one.
    Head = 16,
    /// Records that the tape's drainer found overwritten.
    LostByTape = 24,
    /// 0 without a tape, 1 while one is written, 2 after writing has failed.
    Tape = 25,
    /// Words of the text log in use.
    TextLen = 32,
    /// Strings and stacks that the text log had no room for.
    TextMissing = 33,
    /// The slope of the line from ticks to nanoseconds, a double's bits.
    NsPerTick = 40,
    /// Clock snapshots written to the two copies below so far.
    ClockSnapshotCount = 41,
    /// Two copies of the newest clock snapshot.
    ClockSnapshots = 48,
    /// Live blocks that the table of blocks has no place for.
    BlocksMissing = 56,
    /// Odd while the table of segments or that of pages changes.
    MappingsVersion = 57,
    /// Segments that the table of segments has no place for.
    SegmentsMissing = 58,
    /// States of the pools written to their two copies so far.
    PoolsCount = 59,
    /// Pools and scopes that the newest state of the pools has no place for; it is not written then.
    PoolsMissing = 60,
    /// Copies of the statistics so far; the newest is copy `count & 1`.
    StatisticsCount = 61,
    /// Mappings of pages that the table of pages has no place for.
    PagesMissing = 62,
    /// Two copies: the number of the first record that is not counted, and the values.
    Statistics = 64,
}

/// How many there are of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) slots: usize,
    /// Places for who and where (thread, stream, pool).
    pub(super) contexts: usize,
    /// Places for live blocks.
    pub(super) blocks: usize,
    /// Places for segments, and for mapped runs of expandable ones.
    pub(super) segments: usize,
    /// Places for mappings of pages.
    pub(super) pages: usize,
    /// Words of one copy of the pools' state.
    pub(super) pools_words: usize,
    pub(super) text_words: usize,
}

/// One of the parts behind the slots, which come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Contexts = 1,
    Blocks,
    Segments,
    Pages,
    Pools,
    Text,
}

impl Shape {
    /// The shape of a ring of `slots` records, a power of two.
    pub(super) const fn new(slots: usize, text_words: usize) -> Self {
        Self {
            slots,
            contexts: between(slots / 64, 1 << 8, 1 << 14),
            blocks: between(slots / 4, 1 << 14, 1 << 20),
            segments: between(slots / 64, 1 << 10, 1 << 14),
            pages: 0,
            pools_words: 1 << 12,
            text_words,
        }
    }

    /// The same with a table of pages: for 128 GiB of mappings at least.
    pub(super) const fn with_pages(self) -> Self {
        Self { pages: between(self.slots / 4, 1 << 16, 1 << 20), ..self }
    }

    const fn sizes(self) -> [Option<usize>; 7] {
        [
            self.slots.checked_mul(SLOT_WORDS),
            self.contexts.checked_mul(CONTEXT_WORDS),
            self.blocks.checked_mul(SLOT_WORDS),
            self.segments.checked_mul(SEGMENT_WORDS),
            self.pages.checked_mul(PAGE_WORDS),
            self.pools_words.checked_mul(2),
            Some(self.text_words),
        ]
    }

    /// Whether it is the shape of a ring that some version made: a reader's work is bounded by it.
    pub(super) fn is_plausible(self) -> bool {
        let Self { slots, contexts, blocks, segments, pages, pools_words, text_words } = self;
        slots.is_power_of_two()
            && contexts.is_power_of_two()
            && contexts <= 1 << 16
            && blocks <= 1 << 24
            && segments <= 1 << 20
            && pages <= 1 << 20
            && pools_words <= 1 << 20
            && text_words <= 1 << 24
    }

    /// Words of the whole; `None` where no machine has as many.
    pub(super) fn words(self) -> Option<usize> {
        self.sizes().into_iter().try_fold(HEADER_WORDS, |sum, size| sum.checked_add(size?))
    }

    /// First word and number of words of a part; of a shape whose words can be counted.
    pub(super) fn part(self, part: Part) -> (usize, usize) {
        let sizes = self.sizes().map(Option::unwrap_or_default);
        let start = HEADER_WORDS + sizes[..part as usize].iter().sum::<usize>();
        (start, sizes[part as usize])
    }
}

const fn between(value: usize, least: usize, most: usize) -> usize {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_side_by_side_and_fill_the_whole() {
        let shape = Shape::new(1 << 20, 1 << 19).with_pages();
        let tables = [Part::Contexts, Part::Blocks, Part::Segments, Part::Pages, Part::Pools];
        let parts = tables.into_iter().chain([Part::Text]);
        let mut end = HEADER_WORDS + (SLOT_WORDS << 20);
        for part in parts {
            let (start, words) = shape.part(part);
            assert_eq!(start, end);
            end = start + words;
        }
        assert_eq!(Some(end), shape.words());
        assert_eq!(Shape { slots: usize::MAX, ..shape }.words(), None);
    }
}
