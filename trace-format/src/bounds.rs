//! How much a file may hold for its size, so that a small hostile one cannot exhaust a reader's memory.
//!
//! The reader of tapes and the importers of other files share the numbers. A recorded tape takes 0.6 to 6 bytes for
//! each record and unpacks to 2 to 20 times its size; a packed snapshot of PyTorch takes 2 to 30 bytes for each event
//! and unpacks to 20 to 40 times its size as a pickle, to 360 as JSON. The limits leave room for more than that, and
//! for short files whatever they compress to.

use std::collections::BTreeSet;

use events::{DeviceId, PoolId, Stream};

/// A limit: the quantity, the amount that any file may hold, and the amount added for each unit of the file: a byte,
/// unless the limit names another.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    what: &'static str,
    any: u64,
    per_unit: u64,
}

/// More of something than a file of its size is expected to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{held} {what} so far, where at most {limit} are expected of a file of this size; such a file may be made to \
     exhaust memory or time: if you trust it, raise the limits (--trust-factor 10)"
)]
pub struct TooMuch {
    /// The thing of which there is too much.
    pub what: &'static str,
    /// How much of it was read or claimed.
    pub held: u64,
    /// How much of it is accepted.
    pub limit: u64,
}

impl Bound {
    /// Records of a tape.
    pub(crate) const RECORDS: Self = Self { what: "records", any: 2 << 20, per_unit: 3 };
    /// Events, blocks and rows of other files, each of which becomes up to two records.
    pub const ROWS: Self = Self { what: "events, blocks or rows", any: 512 << 10, per_unit: 1 };
    /// Everything, unpacked.
    pub const UNPACKED: Self = Self { what: "unpacked bytes", any: 64 << 20, per_unit: 256 };
    /// Values of a pickle or a JSON document, in units of eight bytes.
    pub const VALUES: Self = Self { what: "values", any: 8 << 20, per_unit: 32 };
    /// A tape's tables.
    pub(crate) const TABLES: Self =
        Self { what: "bytes of strings and stacks", any: 64 << 20, per_unit: 64 };
    /// Of one chunk, for its stored bytes: a chunk's dictionaries take many times its unpacked bytes.
    pub(crate) const CHUNK: Self =
        Self { what: "unpacked bytes in one chunk", any: 4 << 20, per_unit: 1024 };

    /// Distinct pairs of a stream and a pool; the unit is 64 bytes of a tape. A replay keeps a free list for each pair
    /// that holds memory.
    pub(crate) const PLACES: Self =
        Self { what: "pairs of a stream and a pool", any: 8 << 10, per_unit: 1 };

    /// Driver calls of one replay; the unit is a record of the tape. The device of a replay is larger than any real
    /// one, so a short tape can move millions of pages over and over.
    pub const DRIVER_CALLS: Self = Self { what: "driver calls", any: 32 << 20, per_unit: 64 };

    /// How much a file of so many units may hold that is trusted `factor` times as much as any; 0 and 1 are as much.
    pub fn limit(&self, units: u64, factor: u64) -> u64 {
        let limit = units.saturating_mul(self.per_unit).saturating_add(self.any);
        limit.saturating_mul(factor.max(1))
    }

    /// Checks that a file of so many units may hold so much.
    ///
    /// # Errors
    /// Where that is more than [`limit`](Self::limit).
    pub fn check(&self, held: u64, units: u64, factor: u64) -> Result<(), TooMuch> {
        let limit = self.limit(units, factor);
        if held > limit { Err(TooMuch { what: self.what, held, limit }) } else { Ok(()) }
    }
}

/// The quantities read from a tape so far.
#[derive(Debug)]
pub(crate) struct Budget {
    factor: u64,
    file_bytes: u64,
    records: u64,
    unpacked_bytes: u64,
    places: BTreeSet<(DeviceId, Stream, PoolId)>,
}

impl Budget {
    /// The usual limits times `factor`.
    pub(crate) fn new(factor: u64) -> Self {
        let places = BTreeSet::new();
        Self { factor, file_bytes: 0, records: 0, unpacked_bytes: 0, places }
    }

    /// Takes in a chunk before it is unpacked.
    pub(crate) fn chunk(
        &mut self,
        stored_bytes: u64,
        unpacked_bytes: u64,
        records: u64,
    ) -> Result<(), TooMuch> {
        Bound::CHUNK.check(unpacked_bytes, stored_bytes, self.factor)?;
        self.file_bytes += stored_bytes;
        self.unpacked_bytes += unpacked_bytes;
        self.records += records;
        Bound::UNPACKED.check(self.unpacked_bytes, self.file_bytes, self.factor)?;
        Bound::RECORDS.check(self.records, self.file_bytes, self.factor)
    }

    /// Takes in the streams and pools that a chunk names.
    pub(crate) fn places(
        &mut self,
        device: DeviceId,
        places: impl Iterator<Item = (Stream, PoolId)>,
    ) -> Result<(), TooMuch> {
        const FILE_BYTES_PER_PLACE: u64 = 64;
        self.places.extend(places.map(|(stream, pool)| (device, stream, pool)));
        let of_bytes = self.file_bytes / FILE_BYTES_PER_PLACE;
        Bound::PLACES.check(self.places.len() as u64, of_bytes, self.factor)
    }

    /// Whether the tables may be as large as they have become.
    pub(crate) fn tables(&self, size_bytes: u64) -> Result<(), TooMuch> {
        Bound::TABLES.check(size_bytes, self.file_bytes, self.factor)
    }
}
