//! Chunks onto a stream: packed, sealed, one write each, and nothing behind one that failed.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use super::{WriteCause, WriteError, error::named};
use crate::{
    DeviceId,
    index::{Index, IndexEntry},
    layout::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Packing, count_of, file_header},
};

/// The compression level: half the time of zstd's default, for 2 % more bytes.
const LEVEL: i32 = 1;

/// Writes chunks to `W` in order.
pub(super) struct Chunks<W> {
    sink: W,
    name: String,
    stopped: bool,
    offset_bytes: u64,
    index: Index,
    packer: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    chunk: Vec<u8>,
}

impl<W: Write> Chunks<W> {
    /// Writes the file header.
    pub(super) fn open(sink: W, name: String) -> Result<Self, WriteError> {
        let packer = named(&name, zstd::bulk::Compressor::new(LEVEL))?;
        let mut chunks = Self {
            sink,
            name,
            stopped: false,
            offset_bytes: 0,
            index: Index::default(),
            packer,
            packed: Vec::new(),
            chunk: file_header().to_vec(),
        };
        chunks.write_out()?;
        Ok(chunks)
    }

    /// Chunks that were written whole.
    pub(super) fn len(&self) -> usize {
        let chunks = self.index.entries.iter();
        chunks.filter(|chunk| chunk.offset_bytes < self.offset_bytes).count()
    }

    /// Items of a device's chunks of this kind that were written whole.
    pub(super) fn items(&self, kind: ChunkKind, device: DeviceId) -> u64 {
        let chunks = self.index.entries.iter();
        let whole = chunks.filter(|chunk| chunk.offset_bytes < self.offset_bytes);
        let meant = whole.filter(|chunk| chunk.kind == kind && chunk.device == device);
        meant.map(|chunk| u64::from(chunk.items)).sum()
    }

    /// The tape's name in errors.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The stream.
    pub(super) fn into_sink(self) -> W {
        self.sink
    }

    /// Bytes written so far, and those that an index of one more chunk takes at most.
    pub(super) fn size_with_index_bytes(&self) -> u64 {
        const ENTRY_MAX_BYTES: u64 = 40;
        let entries = self.index.entries.len() as u64 + 1;
        self.offset_bytes + CHUNK_HEADER_BYTES as u64 + ENTRY_MAX_BYTES * (entries + 1)
    }

    /// Writes a chunk that `entry` describes, all but its place.
    pub(super) fn write(&mut self, entry: IndexEntry, payload: &[u8]) -> Result<(), WriteError> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(payload.len()));
        let packed = self.packer.compress_to_buffer(payload, &mut self.packed);
        named(&self.name, packed)?;
        if self.packed.len() < payload.len() {
            self.seal(entry, Packing::Zstd, payload.len());
        } else {
            self.packed.clear();
            self.packed.extend_from_slice(payload);
            self.seal(entry, Packing::Plain, payload.len());
        }
        self.write_out()
    }

    /// Writes the index as it is: its last bytes are to be the file's.
    pub(super) fn write_index(&mut self) -> Result<(), WriteError> {
        self.packed.clear();
        self.index.encode(self.offset_bytes, &mut self.packed);
        let unpacked_bytes = self.packed.len();
        let entry = entry(ChunkKind::Index, DeviceId::default(), 1);
        self.seal(entry, Packing::Plain, unpacked_bytes);
        self.write_out()?;
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Result<(), WriteError> {
        let flushed = self.sink.flush();
        self.wrote(flushed)
    }

    /// Makes `self.chunk` of the payload that stands in `self.packed`.
    fn seal(&mut self, entry: IndexEntry, packing: Packing, unpacked_bytes: usize) {
        let header = ChunkHeader {
            kind: entry.kind,
            packing: Some(packing),
            device: entry.device,
            sequence: count_of(self.index.entries.len()),
            stored_bytes: count_of(self.packed.len()),
            unpacked_bytes: count_of(unpacked_bytes),
            items: entry.items,
            payload_crc: crc32fast::hash(&self.packed),
        };
        self.index.entries.push(IndexEntry { offset_bytes: self.offset_bytes, ..entry });
        self.chunk.clear();
        self.chunk.reserve(CHUNK_HEADER_BYTES + self.packed.len());
        self.chunk.extend_from_slice(&header.encode());
        self.chunk.extend_from_slice(&self.packed);
    }

    fn write_out(&mut self) -> Result<(), WriteError> {
        if self.stopped {
            return Err(WriteError { name: self.name.clone(), cause: WriteCause::Stopped });
        }
        let written = self.sink.write_all(&self.chunk);
        self.wrote(written)?;
        self.offset_bytes += self.chunk.len() as u64;
        Ok(())
    }

    fn wrote(&mut self, result: io::Result<()>) -> Result<(), WriteError> {
        self.stopped |= result.is_err();
        named(&self.name, result)
    }
}

/// A file, or a model of one: its end can be cut off, and it can be brought to its disk.
pub trait Medium: Write {
    /// Cuts the file to this size and goes on writing there.
    ///
    /// # Errors
    /// Where the system refuses.
    fn cut(&mut self, size_bytes: u64) -> io::Result<()>;

    /// Waits until everything written is on the disk.
    ///
    /// # Errors
    /// Where the system refuses, or lost some of it.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn cut(&mut self, size_bytes: u64) -> io::Result<()> {
        self.set_len(size_bytes)?;
        self.seek(SeekFrom::Start(size_bytes)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl<W: Medium> Chunks<W> {
    /// Waits until all chunks are on the disk.
    pub(super) fn sync(&mut self) -> Result<(), WriteError> {
        let synced = self.sink.sync();
        self.wrote(synced)
    }

    /// Removes the chunk that could not be written whole from the end of the file, and others until `keep` are left.
    pub(super) fn cut(&mut self, keep: usize) -> Result<(), WriteError> {
        if let Some(first_cut) = self.index.entries.get(keep) {
            self.offset_bytes = self.offset_bytes.min(first_cut.offset_bytes);
        }
        let end_bytes = self.offset_bytes;
        self.index.entries.retain(|chunk| chunk.offset_bytes < end_bytes);
        named(&self.name, self.sink.cut(end_bytes))?;
        self.stopped = false;
        Ok(())
    }
}

/// An index entry for a chunk whose place and times are not known yet.
pub(super) fn entry(kind: ChunkKind, device: DeviceId, items: u32) -> IndexEntry {
    IndexEntry { kind, device, offset_bytes: 0, items, first_time_ns: 0, last_time_ns: 0 }
}
