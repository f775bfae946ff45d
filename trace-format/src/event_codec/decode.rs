//! Columns into records.

use super::{
    COLUMNS, STACKS, THREADS, TIMES,
    columns::Columns,
    dictionary::{Dictionaries, at},
    kinds::{HAS_STACK, NEW_THREAD},
};
use crate::{
    PoolId, Record, StackId, Stream, ThreadId,
    varint::{Cursor, Malformed},
};

/// Records decoded at a time: few enough to stay in the nearest cache.
const BATCH: usize = 256;

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
    dictionaries: Dictionaries,
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
        self.dictionaries.read(&mut cursor)?;
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

    /// The streams and pools that the chunk's records may name.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Stream, PoolId)> {
        self.dictionaries.places.iter().copied()
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

    /// Takes the records that are decoded and were not handed out.
    pub(crate) fn take_decoded(&mut self) -> &[Record] {
        let begin = std::mem::replace(&mut self.next, self.batch.len());
        &self.batch[begin..]
    }

    fn fill(&mut self) -> Result<(), Malformed> {
        self.batch.clear();
        let end = self.tags.1.min(self.tags.0 + BATCH);
        let mut columns = Columns {
            cursors: self.columns.map(|(begin, end)| Cursor::new(&self.payload[begin..end])),
            dictionaries: &mut self.dictionaries,
            place: self.place,
            strings: self.defined.strings,
        };
        for &tag in &self.payload[self.tags.0..end] {
            let event = columns.event(tag)?;
            if tag & NEW_THREAD != 0 {
                let index = columns.cursors[THREADS].usize()?;
                self.thread = Some(*at(&columns.dictionaries.threads, index)?);
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
