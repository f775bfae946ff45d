//! Where input bytes come from: a file or standard input, plain, zstd or gzip, told apart by content.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;

/// The largest zstd window accepted (`--long=27`): 128 MiB.
const MAX_WINDOW_LOG: u32 = 27;

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
    /// It is larger than allowed once decompressed.
    #[error("{path}: more than {limit_bytes} bytes after decompression, the limit")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
}

/// All bytes of `path` (`-` is standard input), decompressed, at most `limit_bytes` of them.
///
/// # Errors
/// When it cannot be opened, read or decompressed, or is larger than the limit.
pub fn read_all(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, SourceError> {
    if path.as_os_str() == "-" {
        return read_from(io::stdin().lock(), path, limit_bytes);
    }
    let failed = |source| SourceError::Io { path: path.to_owned(), compression: "", source };
    read_from(File::open(path).map_err(failed)?, path, limit_bytes)
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
pub fn read_from(raw: impl Read, path: &Path, limit_bytes: u64) -> Result<Vec<u8>, SourceError> {
    let (reader, compression) = decompress(raw, path)?;
    let bytes = take(reader, compression, path, limit_bytes.saturating_add(1))?;
    if bytes.len() as u64 > limit_bytes {
        return Err(SourceError::TooLarge { path: path.to_owned(), limit_bytes });
    }
    Ok(bytes)
}

/// Whether a file that begins like this is compressed.
pub fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&GZIP) || start.starts_with(&ZSTD)
}

/// What is in a file, decompressed as it is read.
///
/// # Errors
/// When it cannot be opened or begins like a compressed file and is none.
pub fn open(path: &Path) -> Result<Box<dyn Read>, SourceError> {
    let failed = |source| SourceError::Io { path: path.to_owned(), compression: "", source };
    Ok(decompress(File::open(path).map_err(failed)?, path)?.0)
}

/// What `raw` reads, decompressed, and how: in words for errors.
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
