//! Where the chunks of a finished tape lie: an overview without reading them.

use std::io::{self, Read, Seek, SeekFrom};

use crate::{
    DeviceId,
    layout::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Packing},
    varint::{Cursor, Malformed, put, unzigzag, zigzag},
};

/// Last bytes of a finished tape: the index chunk's offset, this mark, and a checksum of both.
const END_MARK: [u8; 4] = *b"VTPX";
/// Bytes of that ending.
const ENDING_BYTES: usize = 16;

/// A chunk's entry in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its kind of content.
    pub kind: ChunkKind,
    /// The device that an events or base chunk belongs to.
    pub device: DeviceId,
    /// Where it starts in the file, in bytes.
    pub offset_bytes: u64,
    /// Records, strings or stacks in it; one for other kinds.
    pub items: u32,
    /// Time of its first record (a base chunk: its own time), in nanoseconds since the Unix epoch.
    pub first_time_ns: u64,
    /// Time of its last record.
    pub last_time_ns: u64,
}

/// The chunks of a tape in the order in which they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// One entry for each chunk but the index itself.
    pub entries: Vec<IndexEntry>,
}

impl Index {
    /// Reads the index of a finished tape; `None` where there is none, or it is damaged: read the tape from its start.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn read(tape: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        let length_bytes = tape.seek(SeekFrom::End(0))?;
        if length_bytes < (ENDING_BYTES + CHUNK_HEADER_BYTES) as u64 {
            return Ok(None);
        }
        let mut ending = [0; ENDING_BYTES];
        tape.seek(SeekFrom::Start(length_bytes - ENDING_BYTES as u64))?;
        tape.read_exact(&mut ending)?;
        let Some(offset_bytes) = offset_in(ending) else { return Ok(None) };
        if offset_bytes > length_bytes - CHUNK_HEADER_BYTES as u64 {
            return Ok(None);
        }
        tape.seek(SeekFrom::Start(offset_bytes))?;
        let mut header = [0; CHUNK_HEADER_BYTES];
        tape.read_exact(&mut header)?;
        let Some(header) = ChunkHeader::decode(&header) else { return Ok(None) };
        let mut payload = Vec::new();
        tape.take(header.stored_bytes.into()).read_to_end(&mut payload)?;
        let is_whole = header.kind == ChunkKind::Index
            && header.packing == Some(Packing::Plain)
            && header.payload_crc == crc32fast::hash(&payload);
        Ok(if is_whole { Self::decode(&payload).ok() } else { None })
    }

    /// The payload of the index chunk that starts at `offset_bytes`.
    pub(crate) fn encode(&self, offset_bytes: u64, out: &mut Vec<u8>) {
        put(out, self.entries.len() as u64);
        let mut last_offset_bytes = 0;
        let mut last_time_ns = 0;
        for entry in &self.entries {
            out.push(entry.kind.code());
            put(out, entry.device.0.into());
            put(out, entry.offset_bytes - last_offset_bytes);
            put(out, entry.items.into());
            put(out, zigzag(entry.first_time_ns.wrapping_sub(last_time_ns)));
            put(out, zigzag(entry.last_time_ns.wrapping_sub(entry.first_time_ns)));
            last_offset_bytes = entry.offset_bytes;
            last_time_ns = entry.last_time_ns;
        }
        let mut ending = [0; ENDING_BYTES];
        ending[..8].copy_from_slice(&offset_bytes.to_le_bytes());
        ending[8..12].copy_from_slice(&END_MARK);
        let crc = crc32fast::hash(&ending[..12]);
        ending[12..].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&ending);
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let mut entries = Vec::new();
        let mut offset_bytes = 0u64;
        let mut time_ns = 0u64;
        for _ in 0..cursor.count()? {
            let kind = ChunkKind::from_code(cursor.byte()?);
            let device = u16::try_from(cursor.u64()?).map_err(|_| Malformed::Range)?;
            offset_bytes = offset_bytes.checked_add(cursor.u64()?).ok_or(Malformed::Range)?;
            let items = cursor.u32()?;
            let first_time_ns = time_ns.wrapping_add(unzigzag(cursor.u64()?));
            time_ns = first_time_ns.wrapping_add(unzigzag(cursor.u64()?));
            entries.push(IndexEntry {
                kind,
                device: DeviceId(device),
                offset_bytes,
                items,
                first_time_ns,
                last_time_ns: time_ns,
            });
        }
        if cursor.left() == ENDING_BYTES { Ok(Self { entries }) } else { Err(Malformed::Long) }
    }
}

fn offset_in(ending: [u8; ENDING_BYTES]) -> Option<u64> {
    let crc = crc32fast::hash(&ending[..12]).to_le_bytes();
    let mut offset = [0; 8];
    offset.copy_from_slice(&ending[..8]);
    (ending[8..12] == END_MARK && ending[12..] == crc).then(|| u64::from_le_bytes(offset))
}
