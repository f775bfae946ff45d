//! The allocator's settings: PyTorch's own and vramtape's. The environment that holds them is passed in.
#![no_std]
#![forbid(unsafe_code)]

use alloc::string::String;
use alloc::sync::Arc;

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

mod bytes;
mod cursor;
mod entries;
mod environment;
mod error;
mod keys;
mod limits;
mod merge;
mod number;
mod plan;
mod pytorch;
mod reserve;
mod roundup;
mod stacks;
mod stitch;
mod tape_path;
mod tokenizer;
mod vramtape;

pub use bytes::{nearest, parse_bytes, parse_bytes_with_unit};
pub use environment::Environment;
pub use error::{ConfigError, PyException, TextPosition, Warning};
pub use merge::merge;
pub use plan::{Plan, PlanError, PlannedRequest, PlannedSequence};
pub use pytorch::Parsed;
pub use reserve::SegmentReserve;
pub use stacks::{StackMode, StackSettings};
pub use stitch::{STITCH_KEYS, StitchConfig, StreamSharing};
pub use tape_path::TapePath;
pub use vramtape::{DeviceKind, MarkMode, RecordMode, Route, Settings, Strategy};

/// Which PyTorch's behaviour `native` reproduces. They differ in the capture gate, in deferred frees,
/// and in which of two equally large free blocks is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compat {
    /// PyTorch 2.11: an open pool scope of any kind counts as a capture.
    V2_11,
    /// PyTorch 2.15: only real captures hold back the retry chain and event processing.
    #[default]
    V2_15,
}

impl Compat {
    /// The behaviour of a PyTorch version such as `2.11.0+cu130`: scopes and captures were separated
    /// in 2.13. A version that cannot be parsed counts as the newest.
    pub fn of_torch(version: &str) -> Self {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) < (2, 13) => Self::V2_11,
            _ => Self::V2_15,
        }
    }

    /// All of them, oldest first.
    pub const ALL: [Self; 2] = [Self::V2_11, Self::V2_15];

    /// Its name in settings and files: the version of PyTorch.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2_11 => "2.11",
            Self::V2_15 => "2.15",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compat| compat.name() == name)
    }
}

/// No limit, for sizes (`SIZE_MAX` in PyTorch; printed as -1).
pub const UNLIMITED: u64 = u64::MAX;

/// Number of `roundup_power2_divisions` intervals: 1 MiB, 2 MiB, ... 32 GiB.
pub const ROUNDUP_INTERVALS: usize = 16;

/// The native allocator's settings, `PYTORCH_CUDA_ALLOC_CONF` after parsing. Sizes are bytes.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own name")]
pub struct Config {
    /// The PyTorch version whose behaviour to reproduce.
    pub compat: Compat,
    /// Blocks at least this large are never split.
    pub max_split_size_bytes: u64,
    /// An oversize request may take an oversize block that is larger by less than this.
    pub max_non_split_rounding_bytes: u64,
    /// Segment size for requests of 1 to 10 MiB; also the page of large expandable segments.
    pub large_segment_size_bytes: u64,
    /// Fraction of the allowed memory above which old cached segments are returned; 0 is off.
    pub garbage_collection_threshold: f64,
    /// Divisions per power-of-two interval; 0 or 1 rounds to 512 bytes.
    pub roundup_power2_divisions: [u64; ROUNDUP_INTERVALS],
    /// Grow segments by mapping pages.
    pub expandable_segments: bool,
    /// The addresses of each expandable segment.
    pub segment_reserve: SegmentReserve,
    /// Give the heap's lock up during `cudaMalloc`.
    pub release_lock_on_cudamalloc: bool,
    /// Reuse cross-stream blocks within a capture where the graph's order allows it.
    pub graph_capture_record_stream_reuse: bool,
    /// Limit set at construction; 1 means none.
    pub per_process_memory_fraction: f64,
    /// Refuse at once what would pass `per_process_memory_fraction` of the device, whatever limit is in force.
    pub throw_on_cudamalloc_oom: bool,
    /// Make pages of expandable segments so that other processes can open them (`TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC`).
    pub shares_expandable_segments: bool,
    /// Search the pool once more after the last flush freed pending blocks (PyTorch does not:
    /// #189504).
    pub search_after_flush: bool,
    /// Serve the default pool by `stitch`, chosen once at the start.
    pub stitch: Option<StitchConfig>,
    /// Where `stitch` places the requests of runs that were planned.
    pub plan: Option<Arc<Plan>>,
    /// The text this was parsed from, as PyTorch shows it in a snapshot's settings.
    pub text: String,
}

impl Config {
    /// The same policy for a heap that takes over memory, which `stitch` cannot: expandable segments with its pages.
    #[must_use]
    pub fn without_stitch(&self) -> Self {
        if self.stitch.is_none() {
            return self.clone();
        }
        Self {
            stitch: None,
            plan: None,
            expandable_segments: true,
            large_segment_size_bytes: 2 << 20,
            roundup_power2_divisions: [0; ROUNDUP_INTERVALS],
            max_split_size_bytes: UNLIMITED,
            ..self.clone()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            compat: Compat::default(),
            max_split_size_bytes: UNLIMITED,
            max_non_split_rounding_bytes: 20 << 20,
            large_segment_size_bytes: 20 << 20,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; ROUNDUP_INTERVALS],
            expandable_segments: false,
            segment_reserve: SegmentReserve::Default,
            release_lock_on_cudamalloc: false,
            graph_capture_record_stream_reuse: false,
            per_process_memory_fraction: 1.0,
            throw_on_cudamalloc_oom: false,
            shares_expandable_segments: true,
            search_after_flush: false,
            stitch: None,
            plan: None,
            text: String::new(),
        }
    }
}
