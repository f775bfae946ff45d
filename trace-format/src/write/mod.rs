//! Writes a tape, chunk by chunk.

mod chunks;
mod error;
mod file;

use std::{fs::File, io::Write, path::Path};

pub use error::{WriteCause, WriteError};
pub use file::Commit;

use crate::{
    BaseState, DeviceId, Event, Record, StackId, StringId, base_codec,
    event_codec::EventsEncoder,
    index::IndexEntry,
    layout::{CHUNK_HEADER_BYTES, ChunkKind, JSON_MAX_BYTES, PAYLOAD_MAX_BYTES},
    meta::Meta,
    order_codec, pages_codec,
    tables::{Frame, Full, TapeInterner},
};
pub use chunks::Medium;
use chunks::{Chunks, entry};
use error::named;

/// Records in a full events chunk. More compress a little better; fewer lose less when a process is killed.
const RECORDS_PER_CHUNK: u32 = 1 << 16;
/// New strings and stacks are written when they reach this size, even if no event refers to them yet.
const TABLES_PENDING_BYTES: usize = 1 << 20;
/// Most whole chunks that a tape drops where its end does not fit.
const GIVEN_UP_MAX: usize = 64;
/// Longest text that fits a strings chunk.
const STRING_MAX_BYTES: usize = (PAYLOAD_MAX_BYTES as usize) - TABLES_PENDING_BYTES - 64;

/// Writes a tape to `W`.
///
/// Records of one device keep their order; those of different devices are ordered by time only. Strings and stacks
/// are written before the first record that names them. Nothing is written behind a chunk that could not be written
/// whole: after an error, what came before it is a readable tape and every later call fails.
pub struct Writer<W: Write> {
    chunks: Chunks<W>,
    commit: Option<Commit>,
    tables: TapeInterner,
    devices: Vec<(DeviceId, EventsEncoder)>,
    payload: Vec<u8>,
    /// Chunks before the end of a tape that was finished short.
    kept_chunks: Option<usize>,
}

impl Writer<File> {
    /// Starts a tape that appears at `path` when it is finished. Until then it has a temporary name in the same
    /// folder; a writer that is dropped unfinished leaves nothing.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn create(path: impl AsRef<Path>, meta: &Meta) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let begun = Commit::begin(path);
        let (file, commit) = begun.map_err(|error| WriteError::create(path, error))?;
        let mut writer = Self::new(file, path.display().to_string(), meta)?;
        writer.commit = Some(commit);
        Ok(writer)
    }

    /// Starts a tape at `path` itself, to be read while it is written; a process that is killed leaves all chunks
    /// written so far. Call [`flush`](Self::flush) as often as readers should see something new.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn create_live(path: impl AsRef<Path>, meta: &Meta) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|error| WriteError::create(path, error))?;
        Self::new(file, path.display().to_string(), meta)
    }
}

impl<W: Medium> Writer<W> {
    /// As [`finish`](Self::finish), and waits until the tape is on its disk: for one that is written in place.
    ///
    /// # Errors
    /// Where it cannot be written, or the disk lost some of it.
    pub fn finish_on_disk(mut self) -> Result<W, WriteError> {
        self.flush()?;
        self.chunks.write_index()?;
        self.chunks.sync()?;
        Ok(self.chunks.into_sink())
    }

    /// Finishes a tape that could not be written on, as on a full disk: `meta` and the index take the place of the
    /// chunk that was torn, and of as many whole ones before it as they need. `lost` gives for each device what is
    /// missing behind its last record. May be called again with a later account.
    ///
    /// # Errors
    /// Where there is still no space, or the system refuses this too.
    pub fn finish_short(
        &mut self,
        meta: &Meta,
        lost: &[(DeviceId, Record)],
    ) -> Result<(), WriteError> {
        let mut keep = self.kept_chunks.unwrap_or_else(|| self.chunks.len());
        let fewest = keep.saturating_sub(GIVEN_UP_MAX).max(1);
        loop {
            self.chunks.cut(keep)?;
            match self.end_with(meta, lost) {
                Ok(()) => {
                    self.kept_chunks = Some(keep);
                    return Ok(());
                }
                Err(error) if keep <= fewest => return Err(error),
                Err(_) => keep -= 1,
            }
        }
    }

    fn end_with(&mut self, meta: &Meta, lost: &[(DeviceId, Record)]) -> Result<(), WriteError> {
        // Records that wait for a full chunk, and texts that only they name, came after the chunk that failed.
        self.devices.clear();
        self.tables = TapeInterner::default();
        for (device, record) in lost {
            self.push(*device, record)?;
        }
        self.flush()?;
        self.meta(meta)?;
        self.chunks.write_index()
    }
}

impl<W: Write> Writer<W> {
    /// Starts a tape; errors call it `name`. Every chunk is one `write_all`, so `sink` needs no buffer.
    ///
    /// # Errors
    /// Where the header cannot be written.
    pub fn new(sink: W, name: impl Into<String>, meta: &Meta) -> Result<Self, WriteError> {
        let chunks = Chunks::open(sink, name.into())?;
        let mut writer = Self {
            chunks,
            commit: None,
            tables: TapeInterner::default(),
            devices: Vec::new(),
            payload: Vec::new(),
            kept_chunks: None,
        };
        writer.meta(meta)?;
        Ok(writer)
    }

    /// Replaces the tape's description.
    ///
    /// # Errors
    /// Where it is over 1 MiB, or cannot be written.
    pub fn meta(&mut self, meta: &Meta) -> Result<(), WriteError> {
        let json = serde_json::to_vec(meta).map_err(|e| self.error(WriteCause::Json(e)))?;
        self.fits("a description", json.len(), JSON_MAX_BYTES)?;
        self.payload.clear();
        self.payload.extend_from_slice(&json);
        self.write_chunk(entry(ChunkKind::Meta, DeviceId::default(), 1))
    }

    /// The number of `text` on this tape.
    ///
    /// # Errors
    /// Where it is too long for a chunk, the tape has all the strings it can have, or a chunk that became full cannot
    /// be written.
    pub fn string(&mut self, text: &str) -> Result<StringId, WriteError> {
        self.fits("a string", text.len(), STRING_MAX_BYTES)?;
        let id = self.tables.string(text).map_err(|Full| self.error(WriteCause::TablesFull))?;
        self.flush_full_tables()?;
        Ok(id)
    }

    /// The number of a call stack on this tape, its innermost frame first; no frames are [`StackId::NONE`].
    ///
    /// # Errors
    /// Where a frame names a string that is not on this tape, the tape has all the stacks it can have, or a chunk that
    /// became full cannot be written.
    pub fn stack(&mut self, frames: &[Frame]) -> Result<StackId, WriteError> {
        // A frame takes at most 5 bytes in its stack and 15 in the frame table.
        self.fits("a stack", frames.len() * 20, STRING_MAX_BYTES)?;
        for frame in frames {
            self.knows_string(frame.name)?;
            self.knows_string(frame.filename)?;
        }
        let id = self.tables.stack(frames).map_err(|Full| self.error(WriteCause::TablesFull))?;
        self.flush_full_tables()?;
        Ok(id)
    }

    /// Adds a record to a device's tape.
    ///
    /// # Errors
    /// Where it names a string or stack that is not on this tape, or a chunk that became full cannot be written.
    #[inline]
    pub fn push(&mut self, device: DeviceId, record: &Record) -> Result<(), WriteError> {
        self.knows_stack(record.stack)?;
        if let Event::Settings { text } | Event::Mark { name: text, .. } = record.event {
            self.knows_string(text)?;
        }
        let at = self.device(device);
        self.devices[at].1.push(record);
        if self.devices[at].1.len() < RECORDS_PER_CHUNK { Ok(()) } else { self.flush_device(at) }
    }

    /// Adds a device's state: what its records so far have led to, or what its first ones start from.
    ///
    /// # Errors
    /// Where segments or blocks overlap or leave gaps, name a stack that is not on this tape, are too many for a chunk,
    /// or cannot be written, or pages are not in the order of their addresses.
    pub fn base(&mut self, device: DeviceId, base: &BaseState) -> Result<(), WriteError> {
        events::State::from_segments(&base.segments)
            .map_err(|e| self.error(WriteCause::Base(e)))?;
        for segment in &base.segments {
            self.knows_stack(segment.stack)?;
            for block in &segment.blocks {
                self.knows_stack(block.stack)?;
            }
        }
        events::check_pages(&base.pages).map_err(|e| self.error(WriteCause::Base(e)))?;
        self.fits("a state's statistics", base.stats.len(), JSON_MAX_BYTES)?;
        base_codec::check_stats(&base.stats).map_err(|e| self.error(WriteCause::NotJson(e)))?;
        let at = self.device(device);
        self.flush_device(at)?;
        self.flush_tables()?;
        let times = |kind| IndexEntry {
            first_time_ns: base.time_ns,
            last_time_ns: base.time_ns,
            ..entry(kind, device, 1)
        };
        if !base.pages.is_empty() {
            self.payload.clear();
            pages_codec::encode(&base.pages, &mut self.payload);
            self.write_chunk(times(ChunkKind::Pages))?;
        }
        if !base.order.is_empty() {
            self.payload.clear();
            order_codec::encode(&base.order, &mut self.payload);
            self.write_chunk(times(ChunkKind::Order))?;
        }
        self.payload.clear();
        base_codec::encode(base, &mut self.payload);
        self.write_chunk(times(ChunkKind::Base))
    }

    /// Writes everything that waits for a full chunk, so that a reader sees it and a killed process leaves it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        for at in 0..self.devices.len() {
            self.flush_device(at)?;
        }
        self.flush_tables()?;
        self.chunks.flush()
    }

    /// Bytes that the tape would have at most, were it [finished](Self::finish) now. What waits for a full chunk is
    /// counted before compression.
    pub fn size_at_most_bytes(&self) -> u64 {
        let waiting = self.devices.iter().map(|(_, encoder)| encoder.size_bytes());
        let waiting = waiting.sum::<usize>() + self.tables.pending_bytes();
        let chunks = self.devices.len() + 2;
        self.chunks.size_with_index_bytes() + (waiting + chunks * 2 * CHUNK_HEADER_BYTES) as u64
    }

    /// Records of a device in the chunks that were written whole.
    pub fn written_records(&self, device: DeviceId) -> u64 {
        self.chunks.items(ChunkKind::Events, device)
    }

    /// Writes what waits, then the index, and gives a tape started with [`create`](Writer::create) its name.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        self.chunks.write_index()?;
        if let Some(commit) = self.commit.take() {
            named(self.chunks.name(), commit.finish())?;
        }
        Ok(self.chunks.into_sink())
    }

    fn device(&mut self, device: DeviceId) -> usize {
        if let Some(at) = self.devices.iter().position(|(known, _)| *known == device) {
            return at;
        }
        self.devices.push((device, EventsEncoder::new()));
        self.devices.len() - 1
    }

    fn flush_device(&mut self, at: usize) -> Result<(), WriteError> {
        let (device, encoder) = &self.devices[at];
        let (first_time_ns, last_time_ns) = encoder.times_ns();
        let records = encoder.len();
        let times = IndexEntry {
            first_time_ns,
            last_time_ns,
            ..entry(ChunkKind::Events, *device, records)
        };
        if records == 0 {
            return Ok(());
        }
        self.flush_tables()?;
        self.payload.clear();
        self.devices[at].1.finish(&mut self.payload);
        self.write_chunk(times)
    }

    fn flush_full_tables(&mut self) -> Result<(), WriteError> {
        if self.tables.pending_bytes() < TABLES_PENDING_BYTES {
            Ok(())
        } else {
            self.flush_tables()
        }
    }

    fn flush_tables(&mut self) -> Result<(), WriteError> {
        self.payload.clear();
        if let Some(strings) = self.tables.take_strings(&mut self.payload) {
            self.write_chunk(entry(ChunkKind::Strings, DeviceId::default(), strings))?;
        }
        self.payload.clear();
        if let Some(stacks) = self.tables.take_stacks(&mut self.payload) {
            self.write_chunk(entry(ChunkKind::Stacks, DeviceId::default(), stacks))?;
        }
        Ok(())
    }

    /// Writes `self.payload` as the chunk that `entry` describes, all but its place.
    fn write_chunk(&mut self, entry: IndexEntry) -> Result<(), WriteError> {
        self.fits("a chunk", self.payload.len(), PAYLOAD_MAX_BYTES as usize)?;
        self.chunks.write(entry, &self.payload)
    }

    fn fits(&self, what: &'static str, size: usize, max: usize) -> Result<(), WriteError> {
        if size <= max {
            return Ok(());
        }
        let (size_bytes, max_bytes) = (size as u64, max as u64);
        Err(self.error(WriteCause::TooLarge { what, size_bytes, max_bytes }))
    }

    fn knows_string(&self, id: StringId) -> Result<(), WriteError> {
        if id.0 <= self.tables.strings_len() {
            return Ok(());
        }
        Err(self.error(WriteCause::Undefined { what: "string", id: id.0 }))
    }

    fn knows_stack(&self, id: StackId) -> Result<(), WriteError> {
        if id.0 <= self.tables.stacks_len() {
            return Ok(());
        }
        Err(self.error(WriteCause::Undefined { what: "stack", id: id.0 }))
    }

    fn error(&self, cause: WriteCause) -> WriteError {
        WriteError { name: self.chunks.name().to_owned(), cause }
    }
}
