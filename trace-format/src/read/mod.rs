//! Reads a tape from its start, whatever its end looks like.

mod chunks;
mod error;
mod recovery;

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

pub use error::{ReadCause, ReadError};
pub use recovery::{Recovery, Torn};

use crate::{
    Addr, BaseOrder, BaseState, DeviceId, PageNumber, Record, base_codec,
    bounds::Budget,
    event_codec::{Defined, EventsDecoder},
    layout::{ChunkHeader, ChunkKind},
    meta::Meta,
    order_codec, pages_codec,
    tables::Tables,
    varint::Malformed,
};
use chunks::Chunks;

/// An item of a tape.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The tape's description, replacing the one before.
    Meta(Box<Meta>),
    /// A device's state at this point.
    Base(DeviceId, Box<BaseState>),
    /// A record of a device.
    Event(DeviceId, Record),
}

/// A chunk of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    offset_bytes: u64,
    chunk: u32,
}

/// Reads a tape item by item, holding one chunk, the strings and the stacks.
///
/// The iterator ends at the last whole chunk; [`recovered`](Self::recovered) then reports losses. After
/// an error it ends too, and what it gave before stays true.
pub struct Reader<R> {
    name: String,
    chunks: Chunks<R>,
    meta: Meta,
    tables: Tables,
    payload: Vec<u8>,
    events: EventsDecoder,
    budget: Budget,
    device: DeviceId,
    /// The fields that the next base chunk of a device adds to its state.
    order: Option<(DeviceId, BaseOrder)>,
    pages: Option<(DeviceId, Vec<(Addr, PageNumber)>)>,
    stopped: bool,
}

impl Reader<BufReader<File>> {
    /// Opens a tape.
    ///
    /// # Errors
    /// Where it cannot be read, is none, is of a later version, or ended before its first chunk was written.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::new(BufReader::new(file), name),
            Err(e) => Err(ReadError { name, offset_bytes: 0, chunk: 0, cause: ReadCause::Io(e) }),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads a tape from `source`, which errors call `name`.
    ///
    /// # Errors
    /// As for [`open`](Reader::open).
    pub fn new(source: R, name: impl Into<String>) -> Result<Self, ReadError> {
        Self::with_limits(source, name, 1)
    }

    /// The same with `factor` times the usual limits on what a file of some size may hold, for one that is trusted.
    ///
    /// # Errors
    /// As for [`open`](Reader::open).
    pub fn with_limits(source: R, name: impl Into<String>, factor: u64) -> Result<Self, ReadError> {
        let name = name.into();
        let chunks = match Chunks::open(source) {
            Ok(chunks) => chunks,
            Err(cause) => return Err(ReadError { name, offset_bytes: 0, chunk: 0, cause }),
        };
        let mut reader = Self {
            name,
            chunks,
            meta: Meta::default(),
            tables: Tables::default(),
            payload: Vec::new(),
            events: EventsDecoder::default(),
            budget: Budget::new(factor),
            device: DeviceId::default(),
            order: None,
            pages: None,
            stopped: false,
        };
        let first = reader.read_meta();
        first.map_err(|cause| reader.error(cause))?;
        Ok(reader)
    }

    /// The tape's description, as far as it was read.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The strings and stacks that the items so far may name.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// How the tape ended; complete once the iterator has ended.
    pub fn recovered(&self) -> &Recovery {
        &self.chunks.recovery
    }

    /// Where the newest item is.
    pub fn place(&self) -> Place {
        Place { offset_bytes: self.chunks.offset_bytes, chunk: self.chunks.sequence }
    }

    /// The error of items that are well-formed and, as the caller found, make no sense together.
    pub fn refuse(&self, why: String) -> ReadError {
        self.refuse_at(self.place(), why)
    }

    /// The same of items that were read before.
    pub fn refuse_at(&self, place: Place, why: String) -> ReadError {
        let Place { offset_bytes, chunk } = place;
        ReadError { name: self.name.clone(), offset_bytes, chunk, cause: ReadCause::Refused(why) }
    }

    /// Takes the records behind the newest one that are decoded already, all of its device: faster than one by one.
    /// The iterator continues behind them.
    pub fn take_decoded(&mut self) -> &[Record] {
        self.events.take_decoded()
    }

    fn read_meta(&mut self) -> Result<(), ReadCause> {
        match self.chunks.next()? {
            None => Err(ReadCause::Empty),
            Some(header) if header.kind == ChunkKind::Meta => self.chunk(&header).map(|_| ()),
            Some(_) => Err(ReadCause::Malformed(Malformed::Reference)),
        }
    }

    fn next_item(&mut self) -> Result<Option<Item>, ReadCause> {
        loop {
            if let Some(record) = self.events.next().map_err(ReadCause::Malformed)? {
                return Ok(Some(Item::Event(self.device, record)));
            }
            let Some(header) = self.chunks.next()? else { return Ok(None) };
            if let Some(item) = self.chunk(&header)? {
                return Ok(Some(item));
            }
        }
    }

    /// Takes in a chunk; the item it is, if it is one.
    fn chunk(&mut self, header: &ChunkHeader) -> Result<Option<Item>, ReadCause> {
        let records = if header.kind == ChunkKind::Events { header.items } else { 0 };
        let (stored_bytes, unpacked_bytes) = (header.stored_bytes, header.unpacked_bytes);
        self.budget
            .chunk(stored_bytes.into(), unpacked_bytes.into(), records.into())
            .map_err(ReadCause::TooMuch)?;
        match header.kind {
            ChunkKind::Unknown(_) => {
                self.chunks.recovery.unknown_chunks += 1;
                return Ok(None);
            }
            ChunkKind::Index => return Ok(None),
            ChunkKind::Events => {
                self.chunks.unpack(header, self.events.payload_mut())?;
                self.device = header.device;
                let defined = Defined {
                    strings: self.tables.strings_len(),
                    stacks: self.tables.stacks_len(),
                };
                self.events.start(header.items, defined).map_err(ReadCause::Malformed)?;
                let places = self.events.places();
                self.budget.places(header.device, places).map_err(ReadCause::TooMuch)?;
                return Ok(None);
            }
            ChunkKind::Meta
            | ChunkKind::Strings
            | ChunkKind::Stacks
            | ChunkKind::Base
            | ChunkKind::Order
            | ChunkKind::Pages => {}
        }
        self.chunks.unpack(header, &mut self.payload)?;
        let item = self.contents(header).map_err(ReadCause::Malformed)?;
        self.budget.tables(self.tables.size_bytes()).map_err(ReadCause::TooMuch)?;
        if let Some(Item::Base(device, base)) = &item {
            events::check_segments(&base.segments).map_err(ReadCause::Contradiction)?;
            let places = base.segments.iter().map(|segment| (segment.stream, segment.pool));
            self.budget.places(*device, places).map_err(ReadCause::TooMuch)?;
        }
        Ok(item)
    }

    fn contents(&mut self, header: &ChunkHeader) -> Result<Option<Item>, Malformed> {
        let payload = &self.payload;
        match header.kind {
            ChunkKind::Meta => {
                self.meta = serde_json::from_slice(payload).map_err(|_| Malformed::Text)?;
                Ok(Some(Item::Meta(Box::new(self.meta.clone()))))
            }
            ChunkKind::Strings => {
                self.tables.add_strings(payload, header.items)?;
                Ok(None)
            }
            ChunkKind::Stacks => {
                self.tables.add_stacks(payload, header.items)?;
                Ok(None)
            }
            ChunkKind::Base => {
                let mut base = base_codec::decode(payload, self.tables.stacks_len())?;
                let is_here = |device: DeviceId| device == header.device;
                if let Some((_, order)) = self.order.take().filter(|(device, _)| is_here(*device)) {
                    base.order = order;
                }
                if let Some((_, pages)) = self.pages.take().filter(|(device, _)| is_here(*device)) {
                    base.pages = pages;
                }
                Ok(Some(Item::Base(header.device, Box::new(base))))
            }
            ChunkKind::Order => {
                self.order = Some((header.device, order_codec::decode(payload)?));
                Ok(None)
            }
            ChunkKind::Pages => {
                self.pages = Some((header.device, pages_codec::decode(payload)?));
                Ok(None)
            }
            ChunkKind::Events | ChunkKind::Index | ChunkKind::Unknown(_) => Ok(None),
        }
    }

    fn error(&self, cause: ReadCause) -> ReadError {
        ReadError {
            name: self.name.clone(),
            offset_bytes: self.chunks.offset_bytes,
            chunk: self.chunks.sequence,
            cause,
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Item, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stopped {
            return None;
        }
        match self.next_item() {
            Ok(Some(item)) => Some(Ok(item)),
            Ok(None) => {
                self.stopped = true;
                None
            }
            Err(cause) => {
                self.stopped = true;
                Some(Err(self.error(cause)))
            }
        }
    }
}
