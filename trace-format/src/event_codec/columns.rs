//! One event after the other out of the columns of a chunk.

use super::{
    ADDRS, ARGS, COLUMNS, PLACES, SIZES,
    dictionary::{Address, Dictionaries, at},
    kinds::{self, KIND, NEW_PLACE},
};
use crate::{
    Addr, Event, PageNumber, PoolId, Stream, StringId,
    varint::{Cursor, Malformed},
};

/// The rest of the columns while a batch is decoded.
pub(super) struct Columns<'a> {
    pub(super) cursors: [Cursor<'a>; COLUMNS],
    pub(super) dictionaries: &'a mut Dictionaries,
    /// The place of the last event that had one.
    pub(super) place: Option<(Stream, PoolId)>,
    /// How many strings are defined.
    pub(super) strings: u32,
}

impl Columns<'_> {
    #[inline]
    pub(super) fn event(&mut self, tag: u8) -> Result<Event, Malformed> {
        Ok(match tag & KIND {
            kinds::ALLOC => {
                let Address { addr, requested_bytes, size_bytes } = self.block()?;
                let (stream, pool) = self.place(tag)?;
                Event::Alloc { addr, requested_bytes, size_bytes, stream, pool }
            }
            kind @ (kinds::FREE | kinds::FREE_PENDING) => {
                let Address { addr, requested_bytes, size_bytes } = self.block()?;
                let pending = kind == kinds::FREE_PENDING;
                Event::Free { addr, requested_bytes, size_bytes, pending }
            }
            kinds::FREE_COMPLETED => {
                let Address { addr, requested_bytes, size_bytes } = self.block()?;
                Event::FreeCompleted { addr, requested_bytes, size_bytes }
            }
            _ => self.rare(tag)?,
        })
    }

    fn rare(&mut self, tag: u8) -> Result<Event, Malformed> {
        Ok(match tag & KIND {
            kinds::RECORD_STREAM => {
                let addr = self.addr()?.addr;
                Event::RecordStream { addr, stream: Stream(self.arg()?) }
            }
            kinds::SEGMENT_ALLOC => {
                let (addr, size_bytes, is_large) = self.segment()?;
                let (stream, pool) = self.place(tag)?;
                Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
            }
            kinds::SEGMENT_FREE => {
                let (addr, size_bytes, is_large) = self.segment()?;
                let (stream, pool) = self.place(tag)?;
                Event::SegmentFree { addr, size_bytes, stream, pool, is_large }
            }
            kinds::SEGMENT_MAP => {
                let (addr, size_bytes, is_large) = self.segment()?;
                let (stream, pool) = self.place(tag)?;
                Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
            }
            kinds::SEGMENT_UNMAP => {
                let (addr, size_bytes, is_large) = self.segment()?;
                let (stream, pool) = self.place(tag)?;
                Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large }
            }
            kinds::EMPTY_CACHE => {
                Event::EmptyCache { pool: self.pool()?, inferred: self.cursors[ARGS].bool()? }
            }
            kinds::POOL_CREATE => {
                Event::PoolCreate { pool: self.pool()?, own_source: self.cursors[ARGS].bool()? }
            }
            kinds::POOL_BEGIN => {
                let pool = self.pool()?;
                let filter = kinds::filter_of(self.cursors[ARGS].byte()?)?;
                Event::PoolBegin { pool, filter }
            }
            kinds::POOL_END => Event::PoolEnd { pool: self.pool()? },
            kinds::POOL_RELEASE => Event::PoolRelease { pool: self.pool()? },
            kinds::POOL_USE_ON_OOM => {
                Event::PoolUseOnOom { pool: self.pool()?, enabled: self.cursors[ARGS].bool()? }
            }
            kinds::POOL_NO_SPLIT => Event::PoolNoSplit { pool: self.pool()? },
            kinds::CAPTURE_BEGIN => Event::CaptureBegin { pool: self.pool()? },
            kinds::CAPTURE_END => Event::CaptureEnd { pool: self.pool()? },
            kinds::SETTINGS => Event::Settings { text: self.string()? },
            kinds::MEMORY_FRACTION => {
                Event::MemoryFraction { fraction: f64::from_bits(self.arg()?) }
            }
            kinds::RESET_PEAK => Event::ResetPeak,
            kinds::RESET_ACCUMULATED => Event::ResetAccumulated,
            kinds::DRIVER_REFUSED => Event::DriverRefused { size_bytes: self.arg()? },
            kinds::OOM => {
                let (requested_bytes, size_bytes) = (self.arg()?, self.arg()?);
                let device_free_bytes = self.arg()?;
                let (stream, pool) = self.place(tag)?;
                Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool }
            }
            kinds::SNAPSHOT => Event::Snapshot { active_bytes: self.arg()? },
            kinds::MARK => {
                let kind = kinds::mark_of(self.cursors[ARGS].byte()?)?;
                Event::Mark { kind, name: self.string()? }
            }
            kinds::CATEGORY => {
                let addr = self.addr()?.addr;
                let category = kinds::category_of(self.cursors[ARGS].byte()?)?;
                Event::Category { addr, category }
            }
            kinds::STREAM_PASSED => {
                Event::StreamPassed { stream: Stream(self.arg()?), frees: self.arg()? }
            }
            kinds::PAGE_MAP => Event::PageMap { addr: self.addr()?.addr, page: self.page()? },
            kinds::PAGE_UNMAP => Event::PageUnmap { addr: self.addr()?.addr, page: self.page()? },
            kinds::LOST => Event::Lost { count: self.arg()? },
            _ => return Err(Malformed::Code),
        })
    }

    #[inline]
    fn addr(&mut self) -> Result<&mut Address, Malformed> {
        let index = self.cursors[ADDRS].usize()?;
        self.dictionaries.addrs.get_mut(index).ok_or(Malformed::Reference)
    }

    #[inline]
    fn block(&mut self) -> Result<Address, Malformed> {
        let sizes = match self.cursors[SIZES].usize()? {
            0 => None,
            above => Some(*at(&self.dictionaries.sizes, above - 1)?),
        };
        let place = self.addr()?;
        if let Some((requested_bytes, size_bytes)) = sizes {
            place.requested_bytes = requested_bytes;
            place.size_bytes = size_bytes;
        }
        Ok(*place)
    }

    fn segment(&mut self) -> Result<(Addr, u64, bool), Malformed> {
        let addr = self.addr()?.addr;
        Ok((addr, self.arg()?, self.cursors[ARGS].bool()?))
    }

    #[inline]
    fn place(&mut self, tag: u8) -> Result<(Stream, PoolId), Malformed> {
        if tag & NEW_PLACE != 0 {
            let index = self.cursors[PLACES].usize()?;
            self.place = Some(*at(&self.dictionaries.places, index)?);
        }
        self.place.ok_or(Malformed::Reference)
    }

    fn arg(&mut self) -> Result<u64, Malformed> {
        self.cursors[ARGS].u64()
    }

    fn page(&mut self) -> Result<PageNumber, Malformed> {
        Ok(PageNumber(self.cursors[ARGS].u32()?))
    }

    fn pool(&mut self) -> Result<PoolId, Malformed> {
        Ok(PoolId(self.arg()?, self.arg()?))
    }

    fn string(&mut self) -> Result<StringId, Malformed> {
        let id = self.cursors[ARGS].u32()?;
        if id > self.strings { Err(Malformed::Reference) } else { Ok(StringId(id)) }
    }
}
