//! Names of things on the tape, as types that cannot be swapped.

use core::fmt;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A device address. On a tape it names a block or a segment; it is never dereferenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct Addr(pub u64);

/// A CUDA stream by its raw handle; 0 is the default stream.
///
/// The handle takes part in the best-fit order (PyTorch's `BlockComparatorSize`), so it is kept as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct Stream(pub u64);

/// A memory pool, PyTorch's `MempoolId_t`: `(0, 0)` is the default pool, `(n, 0)` an implicit graph pool,
/// `(0, n)` a pool made by `graph_pool_handle()` or `torch.cuda.MemPool`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool of everything that asked for no other.
    pub const DEFAULT: Self = Self(0, 0);

    /// Whether this is the default pool.
    pub const fn is_default(self) -> bool {
        self.0 == 0 && self.1 == 0
    }
}

/// An interned call stack; 0 means that none was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct StackId(pub u32);

impl StackId {
    /// No stack was captured.
    pub const NONE: Self = Self(0);
}

/// An interned string; 0 is the empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct StringId(pub u32);

/// One line of call stacks, as the tape's stack table numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct FrameId(pub u32);

/// The operating system's thread id of the caller; 0 where the source does not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct ThreadId(pub u32);

/// A physical page of `stitch` by its number, which it keeps as long as it is mapped anywhere. Later pages reuse it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct PageNumber(pub u32);

impl PageNumber {
    /// Bytes of each page.
    pub const PAGE_BYTES: u64 = 2 << 20;
}

/// A device by its CUDA ordinal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct DeviceId(pub u16);

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.0, self.1)
    }
}

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
