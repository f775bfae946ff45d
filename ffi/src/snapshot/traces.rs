//! The memory history and the settings, as a snapshot has them.

use serde::Serialize;
use serde::ser::Serializer;
use settings::{Config, UNLIMITED};

use super::segments::{Names, Segment};
use crate::process::history::Entry;

#[derive(Serialize)]
pub(crate) struct Taken {
    pub(super) segments: Vec<Segment>,
    pub(super) device_traces: Vec<Vec<Trace>>,
    pub(super) settings: Settings,
    #[serde(flatten)]
    pub(super) names: Names,
}

/// Action, address, size, stream, pool, pool, time, stack, metadata.
#[derive(Serialize)]
pub(super) struct Trace(u8, u64, u64, u64, u64, u64, u64, u32, Option<String>);

impl From<&Entry> for Trace {
    fn from(entry: &Entry) -> Self {
        Self(
            entry.action as u8,
            entry.addr.0,
            entry.size_bytes,
            entry.stream.0,
            entry.pool.0,
            entry.pool.1,
            entry.time_us,
            entry.stack.0,
            entry.metadata.as_deref().map(str::to_owned),
        )
    }
}

/// The entries of PyTorch's `allocator_settings` about the device's memory. Pinned memory is PyTorch's own.
#[derive(Serialize)]
pub(super) struct Settings {
    #[serde(rename = "PYTORCH_CUDA_ALLOC_CONF")]
    text: String,
    max_split_size: i64,
    garbage_collection_threshold: f64,
    expandable_segments: bool,
    release_lock_on_cudamalloc: bool,
    graph_capture_record_stream_reuse: bool,
    #[serde(serialize_with = "by_interval")]
    roundup_power2_divisions: Vec<u64>,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self {
            text: config.text.clone(),
            max_split_size: match config.max_split_size_bytes {
                UNLIMITED => -1,
                bytes => bytes as i64,
            },
            garbage_collection_threshold: config.garbage_collection_threshold,
            expandable_segments: config.expandable_segments,
            release_lock_on_cudamalloc: config.release_lock_on_cudamalloc,
            graph_capture_record_stream_reuse: config.graph_capture_record_stream_reuse,
            roundup_power2_divisions: config.roundup_power2_divisions.to_vec(),
        }
    }
}

/// Keys are the intervals' first sizes in MiB.
fn by_interval<S: Serializer>(divisions: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(divisions.iter().enumerate().map(|(at, value)| (1_u64 << at, value)))
}
