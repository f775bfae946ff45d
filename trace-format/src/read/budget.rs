//! How much a tape may hold for its size, so that a small hostile file cannot ask for all of a reader's memory.
//!
//! A recorded tape takes 0.6 to 6 bytes for each record and unpacks to 2 to 20 times its size. The limits leave room
//! for several times that, and for short tapes whatever they compress to.

use std::collections::BTreeSet;

use super::ReadCause;
use crate::ids::{DeviceId, PoolId, Stream};

/// What is bounded, what of it any file may hold, and how much more for each byte of the file.
struct Bound {
    what: &'static str,
    any: u64,
    per_byte: u64,
}

const RECORDS: Bound = Bound { what: "records", any: 2 << 20, per_byte: 6 };
const UNPACKED: Bound = Bound { what: "unpacked bytes", any: 64 << 20, per_byte: 256 };
const TABLES: Bound = Bound { what: "bytes of strings and stacks", any: 64 << 20, per_byte: 64 };
/// Distinct pairs of a stream and a pool. A replay keeps a free list for each that holds memory.
const PLACES: Bound = Bound { what: "pairs of a stream and a pool", any: 8 << 10, per_byte: 1 };
/// One more pair for so many bytes of the file.
const PLACE_BYTES: u64 = 64;
/// Of one chunk, for its stored bytes: a chunk's dictionaries take many times its unpacked bytes.
const CHUNK: Bound = Bound { what: "unpacked bytes in one chunk", any: 4 << 20, per_byte: 1024 };

/// What was read so far.
#[derive(Debug)]
pub(super) struct Budget {
    factor: u64,
    file_bytes: u64,
    records: u64,
    unpacked_bytes: u64,
    places: BTreeSet<(DeviceId, Stream, PoolId)>,
}

impl Budget {
    /// The usual limits times `factor`.
    pub(super) fn new(factor: u64) -> Self {
        let places = BTreeSet::new();
        Self { factor: factor.max(1), file_bytes: 0, records: 0, unpacked_bytes: 0, places }
    }

    /// Takes in a chunk before it is unpacked.
    pub(super) fn chunk(
        &mut self,
        stored_bytes: u64,
        unpacked_bytes: u64,
        records: u64,
    ) -> Result<(), ReadCause> {
        self.check(&CHUNK, unpacked_bytes, stored_bytes)?;
        self.file_bytes += stored_bytes;
        self.unpacked_bytes += unpacked_bytes;
        self.records += records;
        self.check(&UNPACKED, self.unpacked_bytes, self.file_bytes)?;
        self.check(&RECORDS, self.records, self.file_bytes)
    }

    /// Whether the tables may be as large as they have become.
    pub(super) fn tables(&self, size_bytes: u64) -> Result<(), ReadCause> {
        self.check(&TABLES, size_bytes, self.file_bytes)
    }

    /// Takes in the streams and pools that a chunk names.
    pub(super) fn places(
        &mut self,
        device: DeviceId,
        places: impl Iterator<Item = (Stream, PoolId)>,
    ) -> Result<(), ReadCause> {
        self.places.extend(places.map(|(stream, pool)| (device, stream, pool)));
        self.check(&PLACES, self.places.len() as u64, self.file_bytes / PLACE_BYTES)
    }

    fn check(&self, bound: &Bound, held: u64, of_bytes: u64) -> Result<(), ReadCause> {
        let limit = of_bytes.saturating_mul(bound.per_byte).saturating_add(bound.any);
        let limit = limit.saturating_mul(self.factor);
        if held > limit {
            return Err(ReadCause::TooMuch { what: bound.what, held, limit });
        }
        Ok(())
    }
}
