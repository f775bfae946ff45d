//! Chunks of a stream: whole ones are returned, a torn tail is measured, damage is an error.

use std::io::{self, Read};

use super::{ReadCause, Recovery, Torn};
use crate::layout::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, FILE_HEADER_BYTES, FIRST_VERSION, MAGIC, Packing,
    VERSION, file_header, u32_at,
};

/// Bytes looked through at a time behind a damaged chunk.
const SCAN_BYTES: usize = 1 << 16;

/// Reads chunks from `R` in order.
pub(super) struct Chunks<R> {
    source: R,
    /// Where the chunk last returned starts.
    pub(super) offset_bytes: u64,
    /// How many chunks stand before it.
    pub(super) sequence: u32,
    /// Where the next one starts.
    next_offset_bytes: u64,
    next_sequence: u32,
    stored: Vec<u8>,
    unpacker: zstd::bulk::Decompressor<'static>,
    pub(super) recovery: Recovery,
}

impl<R: Read> Chunks<R> {
    /// Reads the file header.
    pub(super) fn open(mut source: R) -> Result<Self, ReadCause> {
        let mut header = [0; FILE_HEADER_BYTES];
        let count = read_full(&mut source, &mut header)?;
        check_file_header(&header[..count])?;
        Ok(Self {
            source,
            offset_bytes: FILE_HEADER_BYTES as u64,
            sequence: 0,
            next_offset_bytes: FILE_HEADER_BYTES as u64,
            next_sequence: 0,
            stored: Vec::new(),
            unpacker: zstd::bulk::Decompressor::new().map_err(ReadCause::Io)?,
            recovery: Recovery::default(),
        })
    }

    /// The next whole chunk, its payload still stored; `None` at the end, or where only a torn tail is left.
    pub(super) fn next(&mut self) -> Result<Option<ChunkHeader>, ReadCause> {
        if self.recovery.torn.is_some() {
            return Ok(None);
        }
        self.offset_bytes = self.next_offset_bytes;
        self.sequence = self.next_sequence;
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        let count = read_full(&mut self.source, &mut bytes)?;
        if count == 0 {
            return Ok(None);
        }
        if count < CHUNK_HEADER_BYTES || self.recovery.finished {
            let rest = io::copy(&mut self.source, &mut io::sink()).map_err(ReadCause::Io)?;
            self.torn(count as u64 + rest, None);
            return Ok(None);
        }
        let Some(header) = ChunkHeader::decode(&bytes) else {
            return self.tail(&bytes, None).map(|()| None);
        };
        self.stored.clear();
        let stored_bytes = u64::from(header.stored_bytes);
        let got = (&mut self.source).take(stored_bytes).read_to_end(&mut self.stored);
        let whole = got.map_err(ReadCause::Io)? as u64 == stored_bytes
            && crc32fast::hash(&self.stored) == header.payload_crc;
        self.next_offset_bytes += (CHUNK_HEADER_BYTES + self.stored.len()) as u64;
        if !whole {
            return self.tail(&[], Some(header)).map(|()| None);
        }
        if header.sequence != self.sequence {
            return Err(ReadCause::Sequence { found: header.sequence });
        }
        self.next_sequence += 1;
        self.recovery.finished = header.kind == ChunkKind::Index;
        Ok(Some(header))
    }

    /// Unpacks the payload of the chunk that [`next`](Self::next) returned.
    pub(super) fn unpack(
        &mut self,
        header: &ChunkHeader,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadCause> {
        let length = header.unpacked_bytes as usize;
        match header.packing {
            None => return Err(ReadCause::Packing),
            Some(Packing::Plain) => {
                out.clear();
                out.extend_from_slice(&self.stored);
            }
            Some(Packing::Zstd) => {
                out.clear();
                out.reserve_exact(length);
                let unpacked = self.unpacker.decompress_to_buffer(&self.stored, out);
                unpacked.map_err(|_| ReadCause::Unpack)?;
            }
        }
        if out.len() == length { Ok(()) } else { Err(ReadCause::Unpack) }
    }

    /// The bytes after the last whole chunk: a torn tail if they hold no chunk header, else damage.
    ///
    /// `seen` are bytes of it that were read already, `chunk` the header of the chunk that is torn, if it is whole.
    fn tail(&mut self, seen: &[u8], chunk: Option<ChunkHeader>) -> Result<(), ReadCause> {
        let from = self.next_offset_bytes;
        let mut window = seen.to_vec();
        let mut window_offset_bytes = from;
        loop {
            let found = window.windows(CHUNK_HEADER_BYTES).position(is_header);
            if let Some(at) = found {
                let next_offset_bytes = window_offset_bytes + at as u64;
                return Err(ReadCause::Damaged { next_offset_bytes });
            }
            let keep = window.len().min(CHUNK_HEADER_BYTES - 1);
            window_offset_bytes += (window.len() - keep) as u64;
            window.drain(..window.len() - keep);
            let got = (&mut self.source)
                .take(SCAN_BYTES as u64)
                .read_to_end(&mut window)
                .map_err(ReadCause::Io)?;
            if got == 0 {
                break;
            }
        }
        let end = window_offset_bytes + window.len() as u64;
        self.torn(end - self.offset_bytes, chunk);
        Ok(())
    }

    fn torn(&mut self, lost_bytes: u64, chunk: Option<ChunkHeader>) {
        let lost = chunk.map(|header| (header.kind, header.items));
        self.recovery.torn = Some(Torn { offset_bytes: self.offset_bytes, lost_bytes, lost });
    }
}

fn is_header(bytes: &[u8]) -> bool {
    <&[u8; CHUNK_HEADER_BYTES]>::try_from(bytes).is_ok_and(|b| ChunkHeader::decode(b).is_some())
}

fn check_file_header(bytes: &[u8]) -> Result<(), ReadCause> {
    if bytes.len() < FILE_HEADER_BYTES {
        let is_start = file_header().starts_with(bytes);
        return Err(if is_start { ReadCause::Empty } else { ReadCause::NotATape });
    }
    if bytes[..8] != MAGIC {
        let is_ours = bytes[1..4] == MAGIC[1..4];
        return Err(if is_ours { ReadCause::CopiedAsText } else { ReadCause::NotATape });
    }
    if u32_at(bytes, 12) != crc32fast::hash(&bytes[..12]) {
        return Err(ReadCause::HeaderDamaged);
    }
    match u32_at(bytes, 8) {
        FIRST_VERSION..=VERSION => Ok(()),
        version => Err(ReadCause::Version(version)),
    }
}

/// Fills `buffer` as far as the source goes.
fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> Result<usize, ReadCause> {
    let mut count = 0;
    while count < buffer.len() {
        match source.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(got) => count += got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(ReadCause::Io(e)),
        }
    }
    Ok(count)
}
