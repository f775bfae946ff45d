//! Where each byte of the two fixed structures lies: the file header and the chunk header.
//!
//! `docs/trace-format.md` draws them; the tests below hold the drawings' numbers.

use events::DeviceId;

/// First bytes of every tape. The high bit, the line ends and the end-of-file mark show damage done by transfers
/// that take it for text, as in PNG.
pub const MAGIC: [u8; 8] = [0x89, b'V', b'T', b'P', 0x0d, 0x0a, 0x1a, 0x0a];
/// The version of the format that this crate writes.
pub const VERSION: u32 = 4;
/// The oldest version that it reads. Version 1 was never released.
pub const FIRST_VERSION: u32 = 2;
/// Bytes of the file header.
pub const FILE_HEADER_BYTES: usize = 16;
/// Bytes of a chunk header.
pub const CHUNK_HEADER_BYTES: usize = 32;
/// First bytes of every chunk, to find the next one behind a damaged one.
pub(crate) const CHUNK_MARK: [u8; 4] = [0xf5, b'C', b'h', b'k'];
/// Most bytes of a payload, stored or unpacked. Bounds what a reader holds.
pub(crate) const PAYLOAD_MAX_BYTES: u32 = 64 << 20;
/// Most bytes of JSON in one place: parsed, it takes many times its length.
pub(crate) const JSON_MAX_BYTES: usize = 1 << 20;
/// Most bytes that a tape's strings and stacks take in a reader's memory, so that a small hostile file cannot ask for
/// all of it.
pub(crate) const TABLES_MAX_BYTES: usize = 1 << 30;
/// Most records of an events chunk. Bounds what a reader holds.
pub(crate) const RECORDS_MAX: u32 = 1 << 20;

/// A number of entries, chunks or bytes as the format has it; the limits above keep it below 2^32.
pub(crate) fn count_of(len: usize) -> u32 {
    u32::try_from(len).expect("the limits of the format keep counts below 2^32")
}

/// The content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// JSON about the whole tape.
    Meta,
    /// Strings for the string table.
    Strings,
    /// Frames and stacks for the stack table.
    Stacks,
    /// Records of one device.
    Events,
    /// The state of one device.
    Base,
    /// Where the other chunks lie.
    Index,
    /// Orders and ages of the device's next base chunk.
    Order,
    /// Where pages are mapped at the device's next base chunk.
    Pages,
    /// Something of a later version, to be skipped.
    Unknown(u8),
}

impl ChunkKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Meta => 1,
            Self::Strings => 2,
            Self::Stacks => 3,
            Self::Events => 4,
            Self::Base => 5,
            Self::Index => 6,
            Self::Order => 7,
            Self::Pages => 8,
            Self::Unknown(code) => code,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Meta,
            2 => Self::Strings,
            3 => Self::Stacks,
            4 => Self::Events,
            5 => Self::Base,
            6 => Self::Index,
            7 => Self::Order,
            8 => Self::Pages,
            code => Self::Unknown(code),
        }
    }
}

/// How a chunk's payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Zstd,
}

/// A chunk header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) kind: ChunkKind,
    /// `None`: packed in a format of a later version.
    pub(crate) packing: Option<Packing>,
    /// The device that an events or base chunk belongs to.
    pub(crate) device: DeviceId,
    /// How many chunks stand before this one.
    pub(crate) sequence: u32,
    /// Bytes of the payload in the file.
    pub(crate) stored_bytes: u32,
    /// Bytes of the payload unpacked.
    pub(crate) unpacked_bytes: u32,
    /// Records, strings or stacks in it; one for other kinds.
    pub(crate) items: u32,
    /// Checksum of the stored payload.
    pub(crate) payload_crc: u32,
}

impl ChunkHeader {
    pub(crate) fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let packing = match self.packing {
            Some(Packing::Plain) | None => 0,
            Some(Packing::Zstd) => 1,
        };
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&CHUNK_MARK);
        bytes[4] = self.kind.code();
        bytes[5] = packing;
        bytes[6..8].copy_from_slice(&self.device.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.unpacked_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.items.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` where the mark or the checksum is wrong, or a length is beyond what the format allows.
    pub(crate) fn decode(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Option<Self> {
        if bytes[..4] != CHUNK_MARK || u32_at(bytes, 28) != crc32fast::hash(&bytes[..28]) {
            return None;
        }
        let header = Self {
            kind: ChunkKind::from_code(bytes[4]),
            packing: match bytes[5] {
                0 => Some(Packing::Plain),
                1 => Some(Packing::Zstd),
                _ => None,
            },
            device: DeviceId(u16::from_le_bytes([bytes[6], bytes[7]])),
            sequence: u32_at(bytes, 8),
            stored_bytes: u32_at(bytes, 12),
            unpacked_bytes: u32_at(bytes, 16),
            items: u32_at(bytes, 20),
            payload_crc: u32_at(bytes, 24),
        };
        let payload_max_bytes = match header.kind {
            ChunkKind::Meta => count_of(JSON_MAX_BYTES),
            _ => PAYLOAD_MAX_BYTES,
        };
        let fits = header.stored_bytes.max(header.unpacked_bytes) <= payload_max_bytes
            && (header.kind != ChunkKind::Events || header.items <= RECORDS_MAX);
        fits.then_some(header)
    }
}

/// The file header of the version that this crate writes.
pub(crate) fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A little-endian `u32` at a fixed place.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_lie_as_the_specification_draws_them() {
        let file = file_header();
        assert_eq!(file[..12], *b"\x89VTP\r\n\x1a\n\x04\0\0\0");
        let header = ChunkHeader {
            kind: ChunkKind::Events,
            packing: Some(Packing::Zstd),
            device: DeviceId(0x0203),
            sequence: 0x0405_0607,
            stored_bytes: 0x0008_090a,
            unpacked_bytes: 0x000b_0c0d,
            items: 0x000e_0f10,
            payload_crc: 0x1112_1314,
        };
        let bytes = header.encode();
        assert_eq!(
            bytes[..28],
            [
                0xf5, b'C', b'h', b'k', 4, 1, 3, 2, 7, 6, 5, 4, 10, 9, 8, 0, 13, 12, 11, 0, 16, 15,
                14, 0, 20, 19, 18, 17
            ]
        );
        assert_eq!(ChunkHeader::decode(&bytes), Some(header));
    }

    #[test]
    fn a_header_with_any_bit_wrong_is_none() {
        let header = ChunkHeader {
            kind: ChunkKind::Meta,
            packing: Some(Packing::Plain),
            device: DeviceId(0),
            sequence: 0,
            stored_bytes: 3,
            unpacked_bytes: 3,
            items: 1,
            payload_crc: 9,
        };
        for bit in 0..CHUNK_HEADER_BYTES * 8 {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChunkHeader::decode(&bytes), None, "bit {bit}");
        }
    }
}
