//! Byte counts as PyTorch writes them in its messages.

use core::fmt;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A number of bytes that displays as in PyTorch's out-of-memory sentence (c10's `format_size`):
/// `512 bytes`, `1.50 KiB`, `20.00 MiB`, `79.15 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A whole unit still reads in the unit below it: 1024 bytes, 1024.00 KiB.
        let (unit_bytes, unit) = if self.0 <= KIB {
            return write!(f, "{} bytes", self.0);
        } else if self.0 <= MIB {
            (KIB, "KiB")
        } else if self.0 <= GIB {
            (MIB, "MiB")
        } else {
            (GIB, "GiB")
        };
        write!(f, "{:.2} {unit}", self.0 as f64 / unit_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;

    #[test]
    fn sizes_read_as_in_pytorch() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (MIB, "1024.00 KiB"),
            (MIB + 1, "1.00 MiB"),
            (20 * MIB, "20.00 MiB"),
            (GIB, "1024.00 MiB"),
            (GIB + 1, "1.00 GiB"),
            (80 * GIB, "80.00 GiB"),
            (u64::MAX, "17179869184.00 GiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }
}
