//! The ring's memory, as words that several processes may look at.
//!
//! Everything is an atomic 64-bit word, so that the writer, the drainer and readers of other processes may look at
//! the same pages without undefined behaviour. Only [`Region::words`] and [`Region::row_at`] are unsafe. Other
//! processes read the file ([`FileRegion`](super::file_region::FileRegion)) and never map it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

pub(super) use super::layout::HeaderField;
use super::layout::{HEADER_WORDS, MAGIC, Part, Payload, SLOT_WORDS, Shape, VERSION};
use super::look::Look;
use super::protocol::{ReadWords, blocks, slots};
use crate::cast;

/// How far ahead of the record a slot's cache line is asked for: what memory takes to answer, in records.
const SLOTS_AHEAD: u64 = 16;

/// Mapped memory with a ring in it.
#[derive(Debug)]
pub(super) struct Region {
    map: MmapRaw,
    /// Checked once, against the memory's true size.
    shape: Shape,
    /// First word of the table of live blocks.
    blocks_start: usize,
}

impl Region {
    /// Bytes of a ring; `None` where no machine has as many.
    pub(super) fn size_bytes(shape: Shape) -> Option<u64> {
        (shape.words()? as u64).checked_mul(8).filter(|bytes| i64::try_from(*bytes).is_ok())
    }

    /// Maps `file`, which has a ring's size and holds zeros. The number of slots is a power of two.
    pub(super) fn in_file(file: &File, shape: Shape) -> io::Result<Self> {
        Self::new(MmapOptions::new().populate().map_raw(file)?, shape)
    }

    /// The same in private memory.
    pub(super) fn anonymous(shape: Shape) -> io::Result<Self> {
        let size_bytes = Self::size_bytes(shape).ok_or(io::ErrorKind::OutOfMemory)?;
        let map: MmapMut = MmapOptions::new().len(cast::index(size_bytes)).populate().map_anon()?;
        Self::new(map.into(), shape)
    }

    fn new(map: MmapRaw, shape: Shape) -> io::Result<Self> {
        let fits = shape.words().is_some_and(|words| words <= map.len() / 8);
        if !(fits && shape.slots.is_power_of_two() && shape.contexts.is_power_of_two()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its size contradicts its header",
            ));
        }
        Ok(Self { map, shape, blocks_start: shape.part(Part::Blocks).0 })
    }

    /// Completes the header. Nothing is a ring before this.
    pub(super) fn seal(&self) {
        let Shape { slots, contexts, blocks, segments, pages, pools_words, text_words } =
            self.shape;
        self.set(HeaderField::Version, VERSION);
        self.set(HeaderField::Slots, slots as u64);
        self.set(HeaderField::Contexts, contexts as u64);
        self.set(HeaderField::Blocks, blocks as u64);
        self.set(HeaderField::Segments, segments as u64);
        self.set(HeaderField::Pages, pages as u64);
        self.set(HeaderField::PoolsWords, pools_words as u64);
        self.set(HeaderField::TextWords, text_words as u64);
        self.word(HeaderField::Magic).store(MAGIC, Ordering::Release);
    }

    /// All words.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and holds `len / 8` whole words. They are
        // valid for any bit pattern, and every access to them is atomic: this module hands out nothing else,
        // and other processes only read the file. It is this process's own, and we never truncate it, so no access
        // faults.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().cast(), self.map.len() / 8)
        }
    }

    /// `N` words from number `at` on.
    ///
    /// # Safety
    /// They lie in the mapping.
    #[allow(unsafe_code)]
    #[inline]
    unsafe fn row_at<const N: usize>(&self, at: usize) -> &[AtomicU64; N] {
        #[allow(clippy::cast_ptr_alignment, reason = "a mapping begins with a page")]
        let first = self.map.as_ptr().cast::<AtomicU64>();
        // SAFETY: the caller promises that words `at` to `at + N` lie in the mapping, which is one allocation: the
        // offset stays inside it.
        let row = unsafe { first.add(at) };
        // SAFETY: `row` points to `N` words of the mapping, which begins with a page, so they are aligned; it lives as
        // long as `self`. They are valid for any bit pattern, and every access to them is atomic: this module hands out
        // nothing else, and other processes only read the file, which is never truncated.
        unsafe { &*row.cast() }
    }

    #[inline]
    pub(super) fn word(&self, word: HeaderField) -> &AtomicU64 {
        // SAFETY: the header's words are the first of every shape, a field is one of them, and `new` checked that all
        // words of the shape are in the mapping.
        #[allow(unsafe_code)]
        let [word] = unsafe { self.row_at(word as usize) };
        word
    }

    /// A header word, relaxed.
    pub(super) fn get(&self, word: HeaderField) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    /// Sets a header word, relaxed.
    pub(super) fn set(&self, word: HeaderField, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    pub(super) fn slots(&self) -> u64 {
        self.shape.slots as u64
    }

    /// The words of a part, in rows of `N`.
    #[inline]
    pub(super) fn rows<const N: usize>(&self, part: Part) -> &[[AtomicU64; N]] {
        let (start, words) = self.shape.part(part);
        self.words()[start..start + words].as_chunks::<N>().0
    }

    /// The text log's words.
    pub(super) fn text(&self) -> &[AtomicU64] {
        self.rows::<1>(Part::Text).as_flattened()
    }

    #[inline]
    fn slot(&self, number: u64) -> &[AtomicU64; SLOT_WORDS] {
        let at = cast::index(number) & (self.shape.slots - 1);
        // SAFETY: the slots follow the header, and `new` checked that all of them are in the mapping; their number is a
        // power of two, so `at` is below it.
        #[allow(unsafe_code)]
        unsafe {
            self.row_at(HEADER_WORDS + at * SLOT_WORDS)
        }
    }

    /// An entry that a table has no row for, or whose numbers no row can hold, comes (1) or goes (-1).
    #[cold]
    #[inline(never)]
    pub(super) fn count_missing(&self, field: HeaderField, more: i64) {
        self.set(field, self.get(field).saturating_add_signed(more));
    }

    /// A row of the table of live blocks; `None` for places beyond it.
    #[inline]
    pub(super) fn block(&self, at: u32) -> Option<&[AtomicU64; SLOT_WORDS]> {
        // SAFETY: `at` is below the number of rows of the table of blocks, which begins at `blocks_start`, and `new`
        // checked that all of them are in the mapping.
        #[allow(unsafe_code)]
        ((at as usize) < self.shape.blocks)
            .then(|| unsafe { self.row_at(self.blocks_start + at as usize * SLOT_WORDS) })
    }

    /// Writes record `number` and publishes it. One writer at a time.
    #[inline]
    pub(super) fn publish(&self, number: u64, words: &Payload) {
        slots::publish(self.word(HeaderField::Head), self.slot(number), number, words);
        prefetch(self.slot(number.wrapping_add(SLOTS_AHEAD)));
    }

    /// Records written so far.
    pub(super) fn head(&self) -> u64 {
        self.word(HeaderField::Head).load(Ordering::Acquire)
    }
}

impl ReadWords for Region {
    fn load(&self, at: usize) -> u64 {
        self.words().load(at)
    }

    fn load_all(&self, at: usize, into: &mut [u64]) {
        self.words().load_all(at, into);
    }
}

impl Look for Region {
    const BATCH: usize = 64;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn each_row<const N: usize>(&self, part: Part, take: impl FnMut([u64; N])) {
        self.rows::<N>(part).iter().map(blocks::copy_row).for_each(take);
    }
}

/// Asks for the cache line of a slot that is written soon. The stores would not wait for it, but the next call's lock
/// waits for the stores.
#[inline]
fn prefetch(slot: &[AtomicU64; SLOT_WORDS]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which changes nothing that a program sees.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slot;
}
