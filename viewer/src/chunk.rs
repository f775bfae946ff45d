//! Chunks: arrays of varints, compressed, as text.

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A little smaller at higher levels, and half as fast.
const LEVEL: u32 = 4;

/// A part of the page's data under its id.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) id: String,
    /// Base64 of a gzip stream.
    pub(crate) text: Vec<u8>,
}

impl Chunk {
    /// Compresses the content of a chunk.
    pub(crate) fn new(id: String, content: &[u8]) -> Self {
        let text = compress(content).expect("memory takes every byte");
        Self { id, text }
    }

    /// Of arrays.
    pub(crate) fn of(id: String, arrays: &Arrays) -> Self {
        Self::new(id, &arrays.bytes)
    }
}

fn compress(content: &[u8]) -> io::Result<Vec<u8>> {
    let text = EncoderWriter::new(Vec::new(), &STANDARD);
    let mut gzip = GzEncoder::new(text, Compression::new(LEVEL));
    gzip.write_all(content)?;
    gzip.finish()?.finish()
}

/// The content of a chunk: array after array.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    bytes: Vec<u8>,
}

impl Arrays {
    /// Numbers as they are.
    pub(crate) fn plain(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.put(numbers.len() as u64);
        numbers.for_each(|number| self.put(number));
    }

    /// Numbers that never fall, each less the one before it.
    pub(crate) fn rising(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        let mut before = 0;
        self.plain(numbers.map(|number| {
            let step = number - before;
            before = number;
            step
        }));
    }

    /// Signed numbers.
    pub(crate) fn signed(&mut self, numbers: impl ExactSizeIterator<Item = i64>) {
        self.plain(numbers.map(zigzag));
    }

    /// Bytes, in the largest unit that divides them all.
    pub(crate) fn bytes(&mut self, numbers: impl ExactSizeIterator<Item = u64> + Clone) {
        let unit = unit_of(numbers.clone());
        self.put(numbers.len() as u64);
        self.put(unit);
        numbers.for_each(|number| self.put(number / unit));
    }

    /// The same, each less the one before it.
    pub(crate) fn bytes_delta(&mut self, numbers: impl ExactSizeIterator<Item = u64> + Clone) {
        let unit = unit_of(numbers.clone());
        self.put(numbers.len() as u64);
        self.put(unit);
        let mut before = 0;
        for number in numbers {
            let number = (number / unit).cast_signed();
            self.put(zigzag(number - before));
            before = number;
        }
    }

    /// One number, outside any array.
    pub(crate) fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// The largest number that divides all of these; 1 for zeros alone.
pub(crate) fn unit_of(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut unit = 0;
    for number in numbers {
        unit = gcd(number, unit);
        if unit == 1 {
            break;
        }
    }
    unit.max(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    // Numbers of bytes share large powers of two, and most are multiples of the unit so far.
    let (mut a, mut b) = if b != 0 { (b, a % b) } else { (a, 0) };
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Folds the sign into the lowest bit, so that small numbers of either sign stay short.
pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use base64::Engine;
    use flate2::read::GzDecoder;

    use super::*;

    fn content(chunk: &Chunk) -> Vec<u8> {
        let compressed = STANDARD.decode(&chunk.text).unwrap();
        let mut content = Vec::new();
        GzDecoder::new(&compressed[..]).read_to_end(&mut content).unwrap();
        content
    }

    #[test]
    fn arrays_are_varints_behind_their_length() {
        let mut arrays = Arrays::default();
        arrays.plain([0, 127, 128].into_iter());
        arrays.rising([5, 5, 300].into_iter());
        arrays.signed([-1, 1, -64].into_iter());
        let chunk = Chunk::of("d0/test".to_owned(), &arrays);
        let expected = [&[3, 0, 127, 0x80, 1][..], &[3, 5, 0, 0xa7, 2], &[3, 1, 2, 127]].concat();
        assert_eq!(content(&chunk), expected);
    }

    #[test]
    fn bytes_are_counted_in_the_largest_unit() {
        let mut arrays = Arrays::default();
        arrays.bytes([0, 1024, 1536].into_iter());
        arrays.bytes_delta([1024, 512].into_iter());
        arrays.bytes([0, 0].into_iter());
        let chunk = Chunk::of(String::new(), &arrays);
        let expected = [&[3, 0x80, 4, 0, 2, 3][..], &[2, 0x80, 4, 4, 1], &[2, 1, 0, 0]].concat();
        assert_eq!(content(&chunk), expected);
    }
}
