//! Integers in as many bytes as they need: seven bits to a byte, lowest first, the top bit on all but the last.

/// Why bytes inside a chunk make no sense, although their checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The payload ends in the middle of something.
    #[error("it ends in the middle of a value")]
    Short,
    /// Bytes are left over.
    #[error("it has bytes left over")]
    Long,
    /// A number does not fit its type.
    #[error("a number is too large")]
    Range,
    /// A code that this version does not know.
    #[error("it holds a code that this version does not know")]
    Code,
    /// A reference to something that was not defined before.
    #[error("it refers to something that no chunk before it defines")]
    Reference,
    /// Entries that should ascend.
    #[error("its entries are not in ascending order")]
    Order,
    /// Text that is not UTF-8, or JSON that does not parse.
    #[error("its text is not UTF-8, or not the JSON it should be")]
    Text,
}

/// Appends `value`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends a length and that many bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Folds the sign into the lowest bit, so that small differences of either sign stay short.
pub(crate) fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

/// The reverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Reads what the functions above wrote, from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// That everything was read.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.bytes.split_first().ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(first)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 { Ok(u64::from(first)) } else { self.u64_after(first) }
    }

    fn u64_after(&mut self, first: u8) -> Result<u64, Malformed> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Range);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Range)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.u64()?).map_err(|_| Malformed::Range)
    }

    #[inline]
    pub(crate) fn usize(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.u64()?).map_err(|_| Malformed::Range)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Code),
        }
    }

    /// A count of things that take at least a byte each, so that it cannot allocate more memory than the file's size.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.usize()?;
        if count > self.bytes.len() { Err(Malformed::Short) } else { Ok(count) }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, Malformed> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        for shift in 0..64 {
            for value in [1 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                let mut cursor = Cursor::new(&bytes);
                assert_eq!(cursor.u64(), Ok(value));
                cursor.end().unwrap();
                assert_eq!(unzigzag(zigzag(value)), value);
            }
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        let mut eleven = [0x80; 11];
        eleven[10] = 1;
        assert_eq!(Cursor::new(&eleven).u64(), Err(Malformed::Range));
        let mut ten = [0xff; 10];
        ten[9] = 2;
        assert_eq!(Cursor::new(&ten).u64(), Err(Malformed::Range));
        assert_eq!(Cursor::new(&[0x80]).u64(), Err(Malformed::Short));
    }

    #[test]
    fn a_count_beyond_the_bytes_left_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, 1 << 40);
        assert_eq!(Cursor::new(&bytes).count(), Err(Malformed::Short));
    }
}
