//! A ring's file as another process reads it: with `pread`, never through a mapping.
//!
//! A file may become shorter at any time. Behind the end of a mapped file every access is a signal that kills the
//! process; `pread` returns fewer bytes, which is an error that names the file.
//!
//! The writer stores atomic words through its mapping of the same pages. Each load here is one call, and calls of one
//! thread are made in order, so the fences of the protocols order them as they order plain loads. POSIX does not say
//! that a call copies an aligned word whole. Linux does so on x86-64 and aarch64: it copies to an aligned buffer by
//! words or more at a time. Slots, clock snapshots, pools and segments do not rely on that: a counter read before and
//! after shows that nothing was stored in between.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use super::layout::{HEADER_WORDS, HeaderField, MAGIC, Part, Shape, VERSION};
use super::look::Look;
use super::protocol::ReadWords;

/// Bytes of a small read and of a large one; both are buffers on the stack.
const SMALL_BYTES: usize = 128;
const LARGE_BYTES: usize = 32 << 10;

/// Rows of a table that are read at once.
const ROWS: usize = 1024;

/// The words of a ring's file that is open for reading.
#[derive(Debug)]
pub(super) struct FileRegion {
    file: File,
    /// Checked once, against the size of the file.
    shape: Shape,
    /// Why nothing more is read.
    failure: OnceLock<io::Error>,
}

/// The kernel's copy ends on a word's boundary.
#[repr(align(64))]
struct Aligned<const N: usize>([u8; N]);

impl FileRegion {
    /// Reads the header of a finished ring.
    pub(super) fn open(file: File) -> io::Result<Self> {
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let size_words = usize::try_from(file.metadata()?.len() / 8).unwrap_or(usize::MAX);
        if size_words < HEADER_WORDS {
            return invalid("it is too short");
        }
        let mut ring = Self { file, shape: Shape::new(0, 0), failure: OnceLock::new() };
        // The magic number is stored last: what it is loaded before is complete.
        let magic = ring.field(HeaderField::Magic);
        let size = |word| usize::try_from(ring.field(word)).unwrap_or(usize::MAX);
        let shape = Shape {
            slots: size(HeaderField::Slots),
            contexts: size(HeaderField::Contexts),
            blocks: size(HeaderField::Blocks),
            segments: size(HeaderField::Segments),
            pages: size(HeaderField::Pages),
            pools_words: size(HeaderField::PoolsWords),
            text_words: size(HeaderField::TextWords),
        };
        let version = ring.field(HeaderField::Version);
        ring.check()?;
        if magic != MAGIC {
            return invalid("it does not begin with a ring's magic number");
        }
        if version != VERSION {
            return invalid("it is of another version of vramtape");
        }
        if !(shape.is_plausible() && shape.words().is_some_and(|words| words <= size_words)) {
            return invalid("its size contradicts its header");
        }
        ring.shape = shape;
        Ok(ring)
    }

    /// The file, for its lock and metadata.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// An error if a read failed, now or earlier.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(io::Error::new(failure.kind(), failure.to_string())),
        }
    }

    fn read<const N: usize>(&self, at: usize, into: &mut [u64]) -> io::Result<()> {
        let mut buffer = Aligned([0; N]);
        for (chunk, words) in into.chunks_mut(N / 8).enumerate() {
            let bytes = &mut buffer.0[..words.len() * 8];
            let offset = (at as u64).saturating_mul(8).saturating_add((chunk * N) as u64);
            self.file.read_exact_at(bytes, offset)?;
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                // As the writer's processor has it: rings are made on little-endian ones only.
                *word = u64::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

impl ReadWords for FileRegion {
    fn load(&self, at: usize) -> u64 {
        let mut word = [0];
        self.load_all(at, &mut word);
        self.acquire_fence();
        word[0]
    }

    fn load_all(&self, at: usize, into: &mut [u64]) {
        let read = match (self.failure.get(), into.len() * 8 <= SMALL_BYTES) {
            (Some(_), _) => return into.fill(0),
            (None, true) => self.read::<SMALL_BYTES>(at, into),
            (None, false) => self.read::<LARGE_BYTES>(at, into),
        };
        if let Err(error) = read {
            into.fill(0);
            let shorter = "it became shorter while it was read: something truncated it";
            let _ = self.failure.set(match error.kind() {
                kind @ io::ErrorKind::UnexpectedEof => io::Error::new(kind, shorter),
                _ => error,
            });
        }
    }
}

impl Look for FileRegion {
    const BATCH: usize = 1024;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn each_row<const N: usize>(&self, part: Part, mut take: impl FnMut([u64; N])) {
        let (start, words) = self.shape.part(part);
        let mut first = vec![[0; N]; ROWS.min(words / N)];
        let mut others = first.clone();
        for from in (0..words / N).step_by(ROWS) {
            let count = ROWS.min(words / N - from);
            let (first, others) = (&mut first[..count], &mut others[..count]);
            self.load_all(start + from * N, first.as_flattened_mut());
            if first.iter().all(|row| row[0] == 0) {
                for row in &*first {
                    take(*row);
                }
                continue;
            }
            self.acquire_fence();
            self.load_all(start + from * N, others.as_flattened_mut());
            for (row, first) in others.iter_mut().zip(&*first) {
                row[0] = first[0];
                take(*row);
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }
}
