//! Pinned host memory, as the names of moments have it (`docs/trace-format.md`, "Pinned host memory").

use std::fmt::Write;

use events::Addr;
use serde::Serialize;

/// What the name of such a moment begins with.
const PREFIX: &str = "pinned host memory: ";
/// Values of the field `per_block`.
const HISTORY: u64 = 1;
const CALLS: u64 = 2;

/// Pinned host memory at one moment. Blocks have rounded sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostReading {
    /// Bytes that PyTorch holds: in use, or free and kept for reuse.
    pub reserved_bytes: u64,
    /// The most of them so far.
    pub reserved_bytes_peak: u64,
    /// Blocks that PyTorch holds.
    pub blocks: u64,
    /// Bytes in use; `None` where PyTorch counts them wrongly, which it does before 2.15.
    pub active_bytes: Option<u64>,
    /// The most of them so far. PyTorch's statistics add the peaks of each block size, which is too much.
    pub active_bytes_peak: Option<u64>,
    /// Blocks in use.
    pub active_blocks: Option<u64>,
    /// Whether each block was counted, and not PyTorch's statistics read.
    pub is_per_block: bool,
    /// Whether they were counted by the calls of the CUDA runtime, and not by PyTorch's history.
    pub is_by_calls: bool,
    /// The call that led to the reading, if one did.
    #[serde(skip)]
    pub call: Option<HostCall>,
}

/// A call of the CUDA runtime for pinned host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostCall {
    /// A block was pinned (`cudaHostAlloc`, `cudaMallocHost`, `cudaHostRegister`).
    Pinned {
        /// Its address.
        addr: Addr,
        /// Its bytes.
        size_bytes: u64,
    },
    /// A block was unpinned (`cudaFreeHost`, `cudaHostUnregister`).
    Unpinned {
        /// Its address.
        addr: Addr,
        /// Its bytes.
        size_bytes: u64,
    },
    /// A request was refused (`cudaErrorMemoryAllocation`).
    Refused {
        /// The requested bytes.
        size_bytes: u64,
    },
}

impl HostReading {
    /// Reads the name of a moment; `None` if it is another moment's.
    pub fn of_mark(name: &str) -> Option<Self> {
        let mut reading = Self::default();
        let mut held = 0;
        let (mut addr, mut pinned, mut unpinned, mut refused) = (None, None, None, None);
        for field in name.strip_prefix(PREFIX)?.split(' ') {
            let (key, value) = field.split_once('=')?;
            let value = || value.parse().ok();
            match key {
                "reserved_bytes" => reading.reserved_bytes = value()?,
                "reserved_bytes_peak" => reading.reserved_bytes_peak = value()?,
                "blocks" => reading.blocks = value()?,
                "active_bytes" => reading.active_bytes = Some(value()?),
                "active_bytes_peak" => reading.active_bytes_peak = Some(value()?),
                "active_blocks" => reading.active_blocks = Some(value()?),
                "per_block" => {
                    let by = value()?;
                    (reading.is_per_block, reading.is_by_calls) = (by != 0, by == CALLS);
                }
                "addr" => addr = Some(value()?),
                "pinned_bytes" => pinned = Some(value()?),
                "unpinned_bytes" => unpinned = Some(value()?),
                "refused_bytes" => refused = Some(value()?),
                _ => {} // Of a later version.
            }
            held += u32::from(matches!(key, "reserved_bytes" | "reserved_bytes_peak" | "blocks"));
        }
        reading.call = match (addr.map(Addr), pinned, unpinned, refused) {
            (Some(addr), Some(size_bytes), _, _) => Some(HostCall::Pinned { addr, size_bytes }),
            (Some(addr), _, Some(size_bytes), _) => Some(HostCall::Unpinned { addr, size_bytes }),
            (_, _, _, Some(size_bytes)) => Some(HostCall::Refused { size_bytes }),
            _ => None,
        };
        (held == 3).then_some(reading)
    }

    /// The name of the moment that has it.
    pub fn mark(&self) -> String {
        let Self { reserved_bytes, reserved_bytes_peak, blocks, .. } = self;
        let mut name = format!(
            "{PREFIX}reserved_bytes={reserved_bytes} reserved_bytes_peak={reserved_bytes_peak} blocks={blocks}"
        );
        let by = if self.is_by_calls { CALLS } else { HISTORY };
        let (kind, size_bytes, addr) = match self.call {
            Some(HostCall::Pinned { addr, size_bytes }) => {
                ("pinned_bytes", Some(size_bytes), Some(addr))
            }
            Some(HostCall::Unpinned { addr, size_bytes }) => {
                ("unpinned_bytes", Some(size_bytes), Some(addr))
            }
            Some(HostCall::Refused { size_bytes }) => ("refused_bytes", Some(size_bytes), None),
            None => ("", None, None),
        };
        let others = [
            ("active_bytes", self.active_bytes),
            ("active_bytes_peak", self.active_bytes_peak),
            ("active_blocks", self.active_blocks),
            ("per_block", self.is_per_block.then_some(by)),
            (kind, size_bytes),
            ("addr", addr.map(|addr| addr.0)),
        ];
        for (field, value) in others.into_iter().filter_map(|(field, value)| Some((field, value?)))
        {
            let _ = write!(name, " {field}={value}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = "pinned host memory: reserved_bytes=8 reserved_bytes_peak=12 blocks=1";
    const LATER: &str = "pinned host memory: reserved_bytes=4 reserved_bytes_peak=12 blocks=1 active_bytes=3 \
                         active_bytes_peak=9 active_blocks=1 of_a_later_version=x";

    #[test]
    fn the_numbers_of_a_moment_are_read_and_no_other_name_is() {
        let earlier = HostReading::of_mark(EARLIER).unwrap();
        assert_eq!((earlier.reserved_bytes, earlier.active_bytes), (8, None));
        assert_eq!(earlier.mark(), EARLIER);
        let later = HostReading::of_mark(LATER).unwrap();
        assert_eq!(HostReading::of_mark(&later.mark()), Some(later));
        assert_eq!((later.active_bytes, later.active_blocks), (Some(3), Some(1)));
        for name in [
            "",
            "epoch 2",
            "pinned host memory: ",
            "pinned host memory: of the loader",
            "pinned host memory: reserved_bytes=8 blocks=1",
            "pinned host memory: reserved_bytes=-8 reserved_bytes_peak=12 blocks=1",
            "pinned host memory: reserved_bytes=99999999999999999999 reserved_bytes_peak=12 blocks=1",
        ] {
            assert_eq!(HostReading::of_mark(name), None, "{name}");
        }
    }

    #[test]
    fn a_call_is_read_as_it_was_written() {
        let size_bytes = 4096;
        for call in [
            HostCall::Pinned { addr: Addr(u64::MAX), size_bytes },
            HostCall::Unpinned { addr: Addr(1), size_bytes },
            HostCall::Refused { size_bytes },
        ] {
            let reading = HostReading {
                is_per_block: true,
                is_by_calls: true,
                call: Some(call),
                ..HostReading::default()
            };
            assert_eq!(HostReading::of_mark(&reading.mark()), Some(reading));
        }
        let history = HostReading { is_per_block: true, ..HostReading::default() };
        assert_eq!(HostReading::of_mark(&history.mark()), Some(history));
    }
}
