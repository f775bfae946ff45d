//! The verdicts on an out of memory, of a message as of a tape.

use std::fmt;

use serde::Serialize;

/// The reason for an out of memory, as far as numbers prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OomVerdict {
    /// Live memory and the request exceed the device or the limit.
    Capacity,
    /// Reserved memory that is free is at least as large as the request, but not in one piece.
    Fragmentation,
    /// Reserved memory that is free is a part of the shortfall.
    PartlyFragmentation,
    /// Other processes hold the memory that is missing.
    OtherProcess,
    /// The process holds it outside the allocator: CUDA contexts, libraries, other allocators.
    NonPytorch,
    /// Private pools, such as those of CUDA graphs, hold it.
    Graphs,
    /// The request alone exceeds the device or the limit.
    HugeRequest,
    /// Host memory was requested, not a device's.
    Host,
    /// Free blocks of another stream would have been enough.
    OtherStream,
    /// Blocks that wait for another stream's work would have been enough.
    PendingFree,
    /// Other settings of the allocator would have been enough.
    Settings,
    /// The numbers prove none of these.
    Unknown,
}

impl OomVerdict {
    /// The name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Fragmentation => "fragmentation",
            Self::PartlyFragmentation => "partly-fragmentation",
            Self::OtherProcess => "other-process",
            Self::NonPytorch => "non-pytorch",
            Self::Graphs => "graphs",
            Self::HugeRequest => "huge-request",
            Self::Host => "host",
            Self::OtherStream => "other-stream",
            Self::PendingFree => "pending-free",
            Self::Settings => "settings",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for OomVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One comparison of the arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What the bytes are.
    pub name: &'static str,
    /// How they follow from the message's numbers; empty for a number of the message.
    pub how: &'static str,
    /// The bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_one_in_json() {
        for verdict in [
            OomVerdict::Capacity,
            OomVerdict::Fragmentation,
            OomVerdict::PartlyFragmentation,
            OomVerdict::OtherProcess,
            OomVerdict::NonPytorch,
            OomVerdict::Graphs,
            OomVerdict::HugeRequest,
            OomVerdict::Host,
            OomVerdict::OtherStream,
            OomVerdict::PendingFree,
            OomVerdict::Settings,
            OomVerdict::Unknown,
        ] {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }
}
