//! Where input bytes come from: a file or standard input, plain, zstd or gzip, distinguished by content.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;
use trace_format::{Bound, TooMuch};

/// The largest zstd window accepted (`--long=27`): 128 MiB.
const MAX_WINDOW_LOG: u32 = 27;

/// Bytes decompressed between two looks at how many there are.
const STEP_BYTES: u64 = 1 << 20;

/// Bytes passed on at once.
const PART_BYTES: usize = 1 << 18;

/// How compressed files begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Input that could not be read.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file cannot be opened or read, or its compression is damaged.
    #[error("{path}: cannot read{compression}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Empty, or which decompression failed.
        compression: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It unpacks to more than files of its size do.
    #[error("{path}: {error}")]
    TooMuch {
        /// The file.
        path: PathBuf,
        /// How much, and what is accepted.
        error: TooMuch,
    },
    /// It is larger than allowed once decompressed.
    #[error("{path}: more than {limit_bytes} bytes after decompression, the limit")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
}

/// Largest file read, after decompression, however much it is trusted.
const INPUT_BYTES_MAX: u64 = 4 << 30;

/// A whole file, decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its stored size, which bounds its content's size.
    pub stored_bytes: u64,
}

impl From<Vec<u8>> for Input {
    /// A file that is not compressed.
    fn from(bytes: Vec<u8>) -> Self {
        Self { stored_bytes: bytes.len() as u64, bytes }
    }
}

/// All bytes of `path` (`-` is standard input), decompressed: at most `trust_factor` times what files of its size are
/// expected to unpack to.
///
/// # Errors
/// When it cannot be opened, read or decompressed, or is larger than the limit.
pub fn read_all(path: &Path, trust_factor: u64) -> Result<Input, SourceError> {
    if path.as_os_str() == "-" {
        return read_from(io::stdin().lock(), path, trust_factor);
    }
    let failed = |source| SourceError::Io { path: path.to_owned(), compression: "", source };
    read_from(File::open(path).map_err(failed)?, path, trust_factor)
}

/// The first bytes of a file, decompressed: `limit_bytes` of them, or all where it has less.
///
/// # Errors
/// When it cannot be opened, read or decompressed.
pub fn read_start(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, SourceError> {
    let failed = |source| SourceError::Io { path: path.to_owned(), compression: "", source };
    let (reader, compression) = decompress(File::open(path).map_err(failed)?, path)?;
    take(reader, compression, path, limit_bytes)
}

/// The same of what `raw` reads; errors call it `path`.
///
/// # Errors
/// As [`read_all`].
pub fn read_from(raw: impl Read, path: &Path, trust_factor: u64) -> Result<Input, SourceError> {
    let stored_bytes = Cell::new(0);
    let (mut reader, compression) = decompress(Counted { raw, bytes: &stored_bytes }, path)?;
    let failed = |source| SourceError::Io { path: path.to_owned(), compression, source };
    let mut bytes = Vec::new();
    loop {
        let held = bytes.len() as u64;
        let too_much = |error| SourceError::TooMuch { path: path.to_owned(), error };
        Bound::UNPACKED.check(held, stored_bytes.get(), trust_factor).map_err(too_much)?;
        if held > INPUT_BYTES_MAX {
            let limit_bytes = INPUT_BYTES_MAX;
            return Err(SourceError::TooLarge { path: path.to_owned(), limit_bytes });
        }
        if reader.by_ref().take(STEP_BYTES).read_to_end(&mut bytes).map_err(failed)? == 0 {
            break;
        }
    }
    drop(reader);
    Ok(Input { bytes, stored_bytes: stored_bytes.get() })
}

/// Passes the bytes of `path` on in parts, as [`read_all`] reads them, without holding them all.
///
/// # Errors
/// As [`read_all`], without its limit for a whole file.
pub fn each_part(
    path: &Path,
    trust_factor: u64,
    mut part: impl FnMut(&[u8]),
) -> Result<(), SourceError> {
    let failed =
        |compression| move |source| SourceError::Io { path: path.to_owned(), compression, source };
    let raw: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed(""))?)
    };
    let stored_bytes = Cell::new(0);
    let (mut reader, compression) = decompress(Counted { raw, bytes: &stored_bytes }, path)?;
    let mut buffer = vec![0; PART_BYTES];
    let mut read_bytes = 0;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(compression)(error)),
        };
        read_bytes += count as u64;
        let too_much = |error| SourceError::TooMuch { path: path.to_owned(), error };
        Bound::UNPACKED.check(read_bytes, stored_bytes.get(), trust_factor).map_err(too_much)?;
        part(&buffer[..count]);
    }
}

/// A reader that counts the bytes read so far.
struct Counted<'c, R> {
    raw: R,
    bytes: &'c Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

/// Whether a file that begins like this is compressed.
pub fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&GZIP) || start.starts_with(&ZSTD)
}

/// Opens a file, decompressed as it is read.
///
/// # Errors
/// When it cannot be opened or begins like a compressed file and is none.
pub fn open(path: &Path) -> Result<Box<dyn Read>, SourceError> {
    let failed = |source| SourceError::Io { path: path.to_owned(), compression: "", source };
    Ok(decompress(File::open(path).map_err(failed)?, path)?.0)
}

/// Decompresses `raw`; also returns the format, in words for errors.
fn decompress<'r>(
    raw: impl Read + 'r,
    path: &Path,
) -> Result<(Box<dyn Read + 'r>, &'static str), SourceError> {
    let failed =
        |compression| move |source| SourceError::Io { path: path.to_owned(), compression, source };
    let mut raw = BufReader::with_capacity(1 << 18, raw);
    let head = raw.fill_buf().map_err(failed(""))?;
    Ok(if head.starts_with(&GZIP) {
        (Box::new(MultiGzDecoder::new(raw)), " (gzip)")
    } else if head.starts_with(&ZSTD) {
        let mut decoder = zstd::Decoder::with_buffer(raw).map_err(failed(" (zstd)"))?;
        decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed(" (zstd)"))?;
        (Box::new(decoder), " (zstd)")
    } else {
        (Box::new(raw), "")
    })
}

fn take(
    reader: impl Read,
    compression: &'static str,
    path: &Path,
    limit_bytes: u64,
) -> Result<Vec<u8>, SourceError> {
    let failed = |source| SourceError::Io { path: path.to_owned(), compression, source };
    let mut bytes = Vec::new();
    reader.take(limit_bytes).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
