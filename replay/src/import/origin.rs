//! The kind of a file, by its first bytes.

use std::fmt;

use super::{is_json, minimalloc, rmm};

/// The kinds of file that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A memory snapshot of PyTorch, pickle or JSON.
    Snapshot,
    /// A log of RMM's `logging_resource_adaptor`.
    RmmLog,
    /// A problem of minimalloc.
    Minimalloc,
}

/// As much of a file as a header takes.
const HEADER_BYTES_MAX: usize = 4096;

/// How much of a file's start shows what it is.
pub(crate) const START_BYTES: u64 = HEADER_BYTES_MAX as u64;

/// Keys of snapshots; one of them is in the start of each.
const SNAPSHOT_KEYS: [&[u8]; 3] = [b"segments", b"device_traces", b"total_size"];

/// How every pickle of a dict or a list begins: with a protocol, a mark or an empty container.
const PICKLE_STARTS: &[u8] = b"\x80(}])";

impl Origin {
    /// The kind of `bytes`; where it is none, how they begin.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, String> {
        let start = &bytes[..bytes.len().min(HEADER_BYTES_MAX)];
        let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if let Ok(line) = std::str::from_utf8(line) {
            let heads: Vec<_> = line.split(',').map(|head| head.trim().trim_matches('"')).collect();
            if rmm::is_header(&heads) {
                return Ok(Self::RmmLog);
            }
            if minimalloc::is_header(&heads) {
                return Ok(Self::Minimalloc);
            }
        }
        match bytes.first() {
            // An empty file is best explained as a pickle that ends too early.
            None => Ok(Self::Snapshot),
            Some(byte) if PICKLE_STARTS.contains(byte) || is_json(bytes) => Ok(Self::Snapshot),
            Some(_) => Err(String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned()),
        }
    }
}

/// Whether a file that begins with these bytes is one to import, rather than any file of such a format.
pub(crate) fn is_run(start: &[u8]) -> bool {
    let whole = |at: usize| at == 0 || start[at - 1] != b'_'; // Not in `expandable_segments`.
    let has = |key: &&[u8]| {
        start.windows(key.len()).enumerate().any(|(at, window)| window == *key && whole(at))
    };
    match Origin::of(start) {
        Ok(Origin::Snapshot) => SNAPSHOT_KEYS.iter().any(has),
        Ok(Origin::RmmLog | Origin::Minimalloc) => true,
        Err(_) => false,
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snapshot => "a memory snapshot of PyTorch",
            Self::RmmLog => "a log of RMM",
            Self::Minimalloc => "a problem of minimalloc",
        })
    }
}
