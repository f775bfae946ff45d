//! Columns into records.

use super::{
    ADDRS, ARGS, COLUMNS, PLACES, SIZES, STACKS, THREADS, TIMES,
    kinds::{self, HAS_STACK, KIND, NEW_PLACE, NEW_THREAD},
};
use crate::{
    event::{Event, Record},
    ids::{Addr, PoolId, StackId, Stream, StringId, ThreadId},
    varint::{Cursor, Malformed, unzigzag},
};

/// Records decoded at a time: few enough to stay in the nearest cache.
const BATCH: usize = 256;

/// An address and the sizes last seen there.
#[derive(Clone, Copy, Debug)]
struct Place {
    addr: Addr,
    requested_bytes: u64,
    size_bytes: u64,
}

/// How many strings and stacks are defined: an event may refer to no others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defined {
    pub(crate) strings: u32,
    pub(crate) stacks: u32,
}

/// Hands out the records of one chunk after the other; its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct EventsDecoder {
    payload: Vec<u8>,
    /// Where what is left of the tags, and of each column, begins and ends in the payload.
    tags: (usize, usize),
    columns: [(usize, usize); COLUMNS],
    threads: Vec<ThreadId>,
    places: Vec<(Stream, PoolId)>,
    sizes: Vec<(u64, u64)>,
    addrs: Vec<Place>,
    unit_ns: u64,
    time_ns: u64,
    thread: Option<ThreadId>,
    place: Option<(Stream, PoolId)>,
    defined: Defined,
    batch: Vec<Record>,
    next: usize,
}

impl EventsDecoder {
    /// The buffer that the next payload is to be put into.
    pub(crate) fn payload_mut(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// Takes the payload in the buffer as a chunk of `records` records.
    pub(crate) fn start(&mut self, records: u32, defined: Defined) -> Result<(), Malformed> {
        self.defined = defined;
        self.thread = None;
        self.place = None;
        self.tags = (0, 0);
        self.batch.clear();
        self.next = 0;
        let mut cursor = Cursor::new(&self.payload);
        self.time_ns = cursor.u64()?;
        self.unit_ns = cursor.u64()?;
        read_threads(&mut cursor, &mut self.threads)?;
        read_places(&mut cursor, &mut self.places)?;
        read_sizes(&mut cursor, &mut self.sizes)?;
        read_addrs(&mut cursor, &mut self.addrs)?;
        let mut lengths = [0; COLUMNS];
        for length in &mut lengths {
            *length = cursor.count()?;
        }
        // The tags, then the columns, then the payload's end.
        let begin = self.payload.len() - cursor.left();
        self.tags = (begin, begin + records as usize);
        let mut end = self.tags.1;
        for (column, length) in self.columns.iter_mut().zip(lengths) {
            *column = (end, end + length);
            end += length;
        }
        if end == self.payload.len() {
            return Ok(());
        }
        self.tags = (0, 0);
        Err(if end < self.payload.len() { Malformed::Long } else { Malformed::Short })
    }

    /// The next record of the chunk; `None` at its end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Record>, Malformed> {
        if let Some(record) = self.batch.get(self.next) {
            self.next += 1;
            return Ok(Some(*record));
        }
        if self.tags.0 == self.tags.1 {
            return Ok(None);
        }
        self.fill()?;
        self.next = 1;
        Ok(self.batch.first().copied())
    }

    fn fill(&mut self) -> Result<(), Malformed> {
        self.batch.clear();
        let end = self.tags.1.min(self.tags.0 + BATCH);
        let mut columns = Columns {
            cursors: self.columns.map(|(begin, end)| Cursor::new(&self.payload[begin..end])),
            addrs: &mut self.addrs,
            sizes: &self.sizes,
            places: &self.places,
            place: self.place,
            strings: self.defined.strings,
        };
        for &tag in &self.payload[self.tags.0..end] {
            let event = columns.event(tag)?;
            if tag & NEW_THREAD != 0 {
                let index = columns.cursors[THREADS].u64()?;
                self.thread = Some(*at(&self.threads, index)?);
            }
            let mut stack = StackId::NONE;
            if tag & HAS_STACK != 0 {
                stack = StackId(columns.cursors[STACKS].u32()?);
                if stack.0 > self.defined.stacks {
                    return Err(Malformed::Reference);
                }
            }
            let step_ns = columns.cursors[TIMES].u64()?.wrapping_mul(self.unit_ns);
            self.time_ns = self.time_ns.wrapping_add(step_ns);
            let thread = self.thread.ok_or(Malformed::Reference)?;
            self.batch.push(Record { time_ns: self.time_ns, thread, stack, event });
        }
        self.place = columns.place;
        let left = columns.cursors.map(|cursor| cursor.left());
        for ((begin, end), left) in self.columns.iter_mut().zip(left) {
            *begin = *end - left;
        }
        self.tags.0 = end;
        let is_last = end == self.tags.1;
        if is_last && self.columns.iter().any(|(begin, end)| begin != end) {
            return Err(Malformed::Long);
        }
        Ok(())
    }
}

fn read_threads(cursor: &mut Cursor, threads: &mut Vec<ThreadId>) -> Result<(), Malformed> {
    threads.clear();
    for _ in 0..cursor.count()? {
        threads.push(ThreadId(cursor.u32()?));
    }
    Ok(())
}

fn read_places(cursor: &mut Cursor, places: &mut Vec<(Stream, PoolId)>) -> Result<(), Malformed> {
    places.clear();
    for _ in 0..cursor.count()? {
        places.push((Stream(cursor.u64()?), PoolId(cursor.u64()?, cursor.u64()?)));
    }
    Ok(())
}

fn read_sizes(cursor: &mut Cursor, sizes: &mut Vec<(u64, u64)>) -> Result<(), Malformed> {
    sizes.clear();
    for _ in 0..cursor.count()? {
        let requested_bytes = cursor.u64()?;
        let size_bytes = requested_bytes.wrapping_add(unzigzag(cursor.u64()?));
        sizes.push((requested_bytes, size_bytes));
    }
    Ok(())
}

fn read_addrs(cursor: &mut Cursor, addrs: &mut Vec<Place>) -> Result<(), Malformed> {
    addrs.clear();
    let count = cursor.count()?;
    let unit = cursor.u64()?;
    let mut steps = 0u64;
    for _ in 0..count {
        steps = steps.wrapping_add(unzigzag(cursor.u64()?));
        let addr = Addr(steps.wrapping_mul(unit));
        addrs.push(Place { addr, requested_bytes: 0, size_bytes: 0 });
    }
    Ok(())
}

fn at<T>(values: &[T], index: u64) -> Result<&T, Malformed> {
    values.get(index as usize).ok_or(Malformed::Reference)
}

/// What is left of the columns while a batch is decoded.
struct Columns<'a> {
    cursors: [Cursor<'a>; COLUMNS],
    addrs: &'a mut [Place],
    sizes: &'a [(u64, u64)],
    places: &'a [(Stream, PoolId)],
    place: Option<(Stream, PoolId)>,
    strings: u32,
}

impl Columns<'_> {
    #[inline]
    fn event(&mut self, tag: u8) -> Result<Event, Malformed> {
        Ok(match tag & KIND {
            kinds::ALLOC => {
                let Place { addr, requested_bytes, size_bytes } = self.block()?;
                let (stream, pool) = self.place(tag)?;
                Event::Alloc { addr, requested_bytes, size_bytes, stream, pool }
            }
            kind @ (kinds::FREE | kinds::FREE_PENDING) => {
                let Place { addr, requested_bytes, size_bytes } = self.block()?;
                let pending = kind == kinds::FREE_PENDING;
                Event::Free { addr, requested_bytes, size_bytes, pending }
            }
            kinds::FREE_COMPLETED => {
                let Place { addr, requested_bytes, size_bytes } = self.block()?;
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
            kinds::LOST => Event::Lost { count: self.arg()? },
            _ => return Err(Malformed::Code),
        })
    }

    #[inline]
    fn addr(&mut self) -> Result<&mut Place, Malformed> {
        let index = self.cursors[ADDRS].u64()?;
        self.addrs.get_mut(index as usize).ok_or(Malformed::Reference)
    }

    #[inline]
    fn block(&mut self) -> Result<Place, Malformed> {
        let sizes = match self.cursors[SIZES].u64()? {
            0 => None,
            above => Some(*at(self.sizes, above - 1)?),
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
            let index = self.cursors[PLACES].u64()?;
            self.place = Some(*at(self.places, index)?);
        }
        self.place.ok_or(Malformed::Reference)
    }

    fn arg(&mut self) -> Result<u64, Malformed> {
        self.cursors[ARGS].u64()
    }

    fn pool(&mut self) -> Result<PoolId, Malformed> {
        Ok(PoolId(self.arg()?, self.arg()?))
    }

    fn string(&mut self) -> Result<StringId, Malformed> {
        let id = self.cursors[ARGS].u32()?;
        if id > self.strings { Err(Malformed::Reference) } else { Ok(StringId(id)) }
    }
}
