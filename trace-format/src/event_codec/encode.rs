//! Records into columns.

use super::{
    ADDRS, ARGS, COLUMNS, PLACES, SIZES, STACKS, THREADS,
    dictionary::{Dictionary, gcd},
    kinds::{self, HAS_STACK, NEW_PLACE, NEW_THREAD},
};
use crate::{
    Addr, Event, PoolId, Record, StackId, Stream, ThreadId,
    layout::count_of,
    varint::{put, zigzag},
};

/// No index yet.
const NONE: u32 = u32::MAX;

/// Collects the records of one device until a chunk is made of them.
#[derive(Debug)]
pub(crate) struct EventsEncoder {
    tags: Vec<u8>,
    columns: [Vec<u8>; COLUMNS],
    /// Differences between times, divided by what they have in common only when the chunk is made.
    time_steps_ns: Vec<u64>,
    first_time_ns: u64,
    last_time_ns: u64,
    threads: Dictionary<ThreadId>,
    places: Dictionary<(Stream, PoolId)>,
    /// Bytes requested, bytes of the block.
    sizes: Dictionary<(u64, u64)>,
    addrs: Dictionary<Addr>,
    /// Index of the sizes last seen at each address.
    sizes_at: Vec<u32>,
    thread: u32,
    place: u32,
}

impl EventsEncoder {
    pub(crate) fn new() -> Self {
        Self {
            tags: Vec::new(),
            columns: Default::default(),
            time_steps_ns: Vec::new(),
            first_time_ns: 0,
            last_time_ns: 0,
            threads: Dictionary::new(),
            places: Dictionary::new(),
            sizes: Dictionary::new(),
            addrs: Dictionary::new(),
            sizes_at: Vec::new(),
            thread: NONE,
            place: NONE,
        }
    }

    /// Records collected so far.
    pub(crate) fn len(&self) -> u32 {
        count_of(self.tags.len())
    }

    /// Bytes that the payload will take at most.
    pub(crate) fn size_bytes(&self) -> usize {
        const HEAD_BYTES: usize = 20 + (COLUMNS + 5) * 10;
        let columns = self.columns.iter().map(Vec::len).sum::<usize>() + self.tags.len();
        let varints = self.time_steps_ns.len()
            + self.threads.values.len()
            + 3 * self.places.values.len()
            + 2 * self.sizes.values.len()
            + self.addrs.values.len();
        HEAD_BYTES + columns + 10 * varints
    }

    /// Times of the first and the last record.
    pub(crate) fn times_ns(&self) -> (u64, u64) {
        (self.first_time_ns, self.last_time_ns)
    }

    pub(crate) fn push(&mut self, record: &Record) {
        let mut tag = self.event(&record.event);
        if self.tags.is_empty() {
            self.first_time_ns = record.time_ns;
            self.last_time_ns = record.time_ns;
        }
        self.time_steps_ns.push(record.time_ns.wrapping_sub(self.last_time_ns));
        self.last_time_ns = record.time_ns;
        let known = self.threads.values.get(self.thread as usize);
        if known != Some(&record.thread) {
            self.thread = self.threads.index(record.thread);
            put(&mut self.columns[THREADS], self.thread.into());
            tag |= NEW_THREAD;
        }
        if record.stack != StackId::NONE {
            put(&mut self.columns[STACKS], record.stack.0.into());
            tag |= HAS_STACK;
        }
        self.tags.push(tag);
    }

    /// The event's tag, its fields going to their columns.
    fn event(&mut self, event: &Event) -> u8 {
        match *event {
            Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
                self.block(addr, requested_bytes, size_bytes);
                kinds::ALLOC | self.place(stream, pool)
            }
            Event::Free { addr, requested_bytes, size_bytes, pending } => {
                self.block(addr, requested_bytes, size_bytes);
                if pending { kinds::FREE_PENDING } else { kinds::FREE }
            }
            Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                self.block(addr, requested_bytes, size_bytes);
                kinds::FREE_COMPLETED
            }
            Event::RecordStream { addr, stream } => {
                self.addr(addr);
                self.args([stream.0], kinds::RECORD_STREAM)
            }
            Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large } => {
                self.segment(addr, size_bytes, is_large);
                kinds::SEGMENT_ALLOC | self.place(stream, pool)
            }
            Event::SegmentFree { addr, size_bytes, stream, pool, is_large } => {
                self.segment(addr, size_bytes, is_large);
                kinds::SEGMENT_FREE | self.place(stream, pool)
            }
            Event::SegmentMap { addr, size_bytes, stream, pool, is_large } => {
                self.segment(addr, size_bytes, is_large);
                kinds::SEGMENT_MAP | self.place(stream, pool)
            }
            Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large } => {
                self.segment(addr, size_bytes, is_large);
                kinds::SEGMENT_UNMAP | self.place(stream, pool)
            }
            Event::EmptyCache { pool, inferred } => {
                self.args([pool.0, pool.1, inferred.into()], kinds::EMPTY_CACHE)
            }
            Event::PoolCreate { pool, own_source } => {
                self.args([pool.0, pool.1, own_source.into()], kinds::POOL_CREATE)
            }
            Event::PoolBegin { pool, filter } => {
                let filter = kinds::filter_code(filter);
                self.args([pool.0, pool.1, filter.into()], kinds::POOL_BEGIN)
            }
            Event::PoolEnd { pool } => self.args([pool.0, pool.1], kinds::POOL_END),
            Event::PoolRelease { pool } => self.args([pool.0, pool.1], kinds::POOL_RELEASE),
            Event::PoolUseOnOom { pool, enabled } => {
                self.args([pool.0, pool.1, enabled.into()], kinds::POOL_USE_ON_OOM)
            }
            Event::PoolNoSplit { pool } => self.args([pool.0, pool.1], kinds::POOL_NO_SPLIT),
            Event::CaptureBegin { pool } => self.args([pool.0, pool.1], kinds::CAPTURE_BEGIN),
            Event::CaptureEnd { pool } => self.args([pool.0, pool.1], kinds::CAPTURE_END),
            Event::Settings { text } => self.args([text.0.into()], kinds::SETTINGS),
            Event::MemoryFraction { fraction } => {
                self.args([fraction.to_bits()], kinds::MEMORY_FRACTION)
            }
            Event::ResetPeak => kinds::RESET_PEAK,
            Event::ResetAccumulated => kinds::RESET_ACCUMULATED,
            Event::DriverRefused { size_bytes } => self.args([size_bytes], kinds::DRIVER_REFUSED),
            Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool } => {
                self.args([requested_bytes, size_bytes, device_free_bytes], kinds::OOM)
                    | self.place(stream, pool)
            }
            Event::Snapshot { active_bytes } => self.args([active_bytes], kinds::SNAPSHOT),
            Event::Mark { kind, name } => {
                self.args([kinds::mark_code(kind).into(), name.0.into()], kinds::MARK)
            }
            Event::Category { addr, category } => {
                self.addr(addr);
                self.args([kinds::category_code(category).into()], kinds::CATEGORY)
            }
            Event::StreamPassed { stream, frees } => {
                self.args([stream.0, frees], kinds::STREAM_PASSED)
            }
            Event::PageMap { addr, page } => {
                self.addr(addr);
                self.args([page.0.into()], kinds::PAGE_MAP)
            }
            Event::PageUnmap { addr, page } => {
                self.addr(addr);
                self.args([page.0.into()], kinds::PAGE_UNMAP)
            }
            Event::Lost { count } => self.args([count], kinds::LOST),
        }
    }

    fn args<const N: usize>(&mut self, values: [u64; N], kind: u8) -> u8 {
        for value in values {
            put(&mut self.columns[ARGS], value);
        }
        kind
    }

    fn addr(&mut self, addr: Addr) -> usize {
        let index = self.addrs.index(addr);
        if index as usize == self.sizes_at.len() {
            self.sizes_at.push(NONE);
        }
        put(&mut self.columns[ADDRS], index.into());
        index as usize
    }

    /// A block's sizes: 0 where they are those last seen at its address, else their index plus one.
    fn block(&mut self, addr: Addr, requested_bytes: u64, size_bytes: u64) {
        let at = self.addr(addr);
        let sizes = (requested_bytes, size_bytes);
        let last = self.sizes_at[at];
        if self.sizes.values.get(last as usize) == Some(&sizes) {
            self.columns[SIZES].push(0);
        } else {
            let index = self.sizes.index(sizes);
            self.sizes_at[at] = index;
            put(&mut self.columns[SIZES], u64::from(index) + 1);
        }
    }

    fn segment(&mut self, addr: Addr, size_bytes: u64, is_large: bool) {
        self.addr(addr);
        self.args([size_bytes, is_large.into()], 0);
    }

    fn place(&mut self, stream: Stream, pool: PoolId) -> u8 {
        if self.places.values.get(self.place as usize) == Some(&(stream, pool)) {
            return 0;
        }
        self.place = self.places.index((stream, pool));
        put(&mut self.columns[PLACES], self.place.into());
        NEW_PLACE
    }

    /// Appends the payload of a chunk to `out` and starts afresh.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let unit_ns = self.time_steps_ns.iter().copied().fold(0, gcd).max(1);
        let times = &mut self.columns[super::TIMES];
        for step_ns in self.time_steps_ns.drain(..) {
            put(times, step_ns / unit_ns);
        }
        put(out, self.first_time_ns);
        put(out, unit_ns);
        self.dictionaries(out);
        for column in &self.columns {
            put(out, column.len() as u64);
        }
        out.append(&mut self.tags);
        for column in &mut self.columns {
            out.append(column);
        }
        self.threads.clear();
        self.places.clear();
        self.sizes.clear();
        self.addrs.clear();
        self.sizes_at.clear();
        self.thread = NONE;
        self.place = NONE;
    }

    fn dictionaries(&self, out: &mut Vec<u8>) {
        put(out, self.threads.values.len() as u64);
        for thread in &self.threads.values {
            put(out, thread.0.into());
        }
        put(out, self.places.values.len() as u64);
        for (stream, pool) in &self.places.values {
            put(out, stream.0);
            put(out, pool.0);
            put(out, pool.1);
        }
        put(out, self.sizes.values.len() as u64);
        for (requested_bytes, size_bytes) in &self.sizes.values {
            put(out, *requested_bytes);
            put(out, zigzag(size_bytes.wrapping_sub(*requested_bytes)));
        }
        put(out, self.addrs.values.len() as u64);
        let unit = self.addrs.values.iter().fold(0, |unit, addr| gcd(unit, addr.0)).max(1);
        put(out, unit);
        let mut last = 0;
        for addr in &self.addrs.values {
            let place = addr.0 / unit;
            put(out, zigzag(place.wrapping_sub(last)));
            last = place;
        }
    }
}
