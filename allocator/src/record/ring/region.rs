//! The ring's memory: a header, the slots, and the text log, as words that several processes may look at.
//!
//! Everything is an atomic 64-bit word, so that the writer, the drainer and readers of other processes may look at
//! the same pages without undefined behaviour. Only [`Region::words`] is unsafe.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use super::slot::{self, Found};
use crate::record::clock::{Calibration, Moment};

/// "VTRING" and two zero bytes.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"VTRING\0\0");
/// Of the layout below, the slots' words and the text log.
pub(super) const VERSION: u64 = 1;

const HEADER_WORDS: usize = 512;
pub(super) const SLOT_WORDS: usize = 8;
/// The words of a slot besides its mark.
pub(super) type Payload = [u64; SLOT_WORDS - 1];

/// The header's words. Those that different threads write lie on different cache lines.
#[derive(Clone, Copy)]
pub(super) enum Word {
    Magic = 0,
    Version = 1,
    Pid = 2,
    ProcessStart = 3,
    Device = 4,
    Slots = 5,
    TextWords = 6,
    /// Records written so far: the number of the next one.
    Head = 8,
    /// Records that the tape's drainer found overwritten.
    LostByTape = 16,
    /// Words of the text log in use.
    TextLen = 24,
    /// Strings and stacks that the text log had no room for.
    TextMissing = 25,
    /// The calibration's start, which never changes.
    StartTicks = 32,
    StartUnixNs = 33,
    /// Its slope, a double's bits.
    NsPerTick = 34,
}

/// Where things are; checked once, against the memory's true size.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slots: usize,
    text_words: usize,
}

impl Shape {
    fn words(self) -> Option<usize> {
        self.slots.checked_mul(SLOT_WORDS)?.checked_add(HEADER_WORDS)?.checked_add(self.text_words)
    }
}

/// Mapped memory with a ring in it.
#[derive(Debug)]
pub(super) struct Region {
    map: MmapRaw,
    shape: Shape,
}

impl Region {
    /// Bytes of a ring; `None` where no machine has as many.
    pub(super) fn size_bytes(slots: usize, text_words: usize) -> Option<u64> {
        let words = Shape { slots, text_words }.words()? as u64;
        words.checked_mul(8).filter(|bytes| i64::try_from(*bytes).is_ok())
    }

    /// Maps `file`, which has a ring's size and holds zeros. `slots` is a power of two.
    pub(super) fn in_file(file: &File, slots: usize, text_words: usize) -> io::Result<Self> {
        let map = MmapOptions::new().populate().map_raw(file)?;
        Self::new(map, Shape { slots, text_words })
    }

    /// The same in memory that nobody else sees.
    pub(super) fn anonymous(slots: usize, text_words: usize) -> io::Result<Self> {
        let size_bytes = Self::size_bytes(slots, text_words).ok_or(io::ErrorKind::OutOfMemory)?;
        let map: MmapMut = MmapOptions::new().len(size_bytes as usize).populate().map_anon()?;
        Self::new(map.into(), Shape { slots, text_words })
    }

    fn new(map: MmapRaw, shape: Shape) -> io::Result<Self> {
        let fits = shape.words().is_some_and(|words| words <= map.len() / 8);
        if !(fits && shape.slots.is_power_of_two()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its size contradicts its header",
            ));
        }
        Ok(Self { map, shape })
    }

    /// Maps a finished ring for reading.
    pub(super) fn open(file: &File) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        if file.metadata()?.len() < (HEADER_WORDS * 8) as u64 {
            return Err(invalid("it is too short"));
        }
        let map = MmapOptions::new().map_raw_read_only(file)?;
        let mut region = Self { map, shape: Shape { slots: 1, text_words: 0 } };
        if region.word(Word::Magic).load(Ordering::Acquire) != MAGIC {
            return Err(invalid("it does not begin with a ring's magic number"));
        }
        if region.get(Word::Version) != VERSION {
            return Err(invalid("it is of another version of vramtape"));
        }
        let size = |word| usize::try_from(region.get(word)).unwrap_or(usize::MAX);
        let shape = Shape { slots: size(Word::Slots), text_words: size(Word::TextWords) };
        region = Self::new(region.map, shape)?;
        Ok(region)
    }

    /// Completes the header. Nothing is a ring before this.
    pub(super) fn seal(&self) {
        self.set(Word::Version, VERSION);
        self.set(Word::Slots, self.shape.slots as u64);
        self.set(Word::TextWords, self.shape.text_words as u64);
        self.word(Word::Magic).store(MAGIC, Ordering::Release);
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and holds `len / 8` whole words. They are
        // valid for any bit pattern, and nobody touches them but through atomics: this module hands out nothing else,
        // and processes that map the file run this code. The file is never truncated, so no access faults.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().cast(), self.map.len() / 8)
        }
    }

    #[inline]
    pub(super) fn word(&self, word: Word) -> &AtomicU64 {
        &self.words()[word as usize]
    }

    /// A header word, relaxed.
    pub(super) fn get(&self, word: Word) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    /// Sets a header word, relaxed.
    pub(super) fn set(&self, word: Word, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    pub(super) fn slots(&self) -> u64 {
        self.shape.slots as u64
    }

    #[inline]
    fn slot(&self, sequence: u64) -> (&AtomicU64, &[AtomicU64; SLOT_WORDS - 1]) {
        let (slots, _) = self.words()[HEADER_WORDS..].as_chunks::<SLOT_WORDS>();
        let [mark, words @ ..] = &slots[sequence as usize & (self.shape.slots - 1)];
        (mark, words)
    }

    /// Writes record number `sequence` and tells readers. One writer at a time.
    #[inline]
    pub(super) fn publish(&self, sequence: u64, payload: &Payload) {
        let (mark, words) = self.slot(sequence);
        slot::publish(mark, words, sequence, payload);
        self.word(Word::Head).store(sequence + 1, Ordering::Release);
    }

    /// Looks for record number `sequence`.
    #[inline]
    pub(super) fn read(&self, sequence: u64) -> Found<{ SLOT_WORDS - 1 }> {
        let (mark, words) = self.slot(sequence);
        slot::read(mark, words, sequence)
    }

    /// Records written so far.
    pub(super) fn head(&self) -> u64 {
        self.word(Word::Head).load(Ordering::Acquire)
    }

    /// The text log's words.
    pub(super) fn text(&self) -> &[AtomicU64] {
        let start = HEADER_WORDS + self.shape.slots * SLOT_WORDS;
        &self.words()[start..start + self.shape.text_words]
    }

    /// What turns ticks into time.
    pub(super) fn calibration(&self) -> Calibration {
        let start =
            Moment { ticks: self.get(Word::StartTicks), unix_ns: self.get(Word::StartUnixNs) };
        Calibration { start, ns_per_tick: f64::from_bits(self.get(Word::NsPerTick)) }
    }

    /// Before the ring is sealed, or a refinement of the one it was sealed with.
    pub(super) fn set_calibration(&self, calibration: &Calibration) {
        self.set(Word::StartTicks, calibration.start.ticks);
        self.set(Word::StartUnixNs, calibration.start.unix_ns);
        self.set(Word::NsPerTick, calibration.ns_per_tick.to_bits());
    }
}
