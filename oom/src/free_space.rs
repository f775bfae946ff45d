//! Free memory at a moment, and why none of it served the request.

use std::collections::BTreeMap;

use allocator::size;
use events::{BlockStatus, PoolId, SegmentState, Stream};
use serde::Serialize;
use settings::Config;

use crate::situation::Situation;

/// Why free memory did not serve the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unserved {
    /// It is of the request's pool and stream, in pieces that are smaller than the request.
    TooSmall,
    /// It is large enough, and the settings withhold it: `max_split_size_mb`, or expandable segments that were
    /// switched off.
    Settings,
    /// It was freed, and other streams still use it.
    PendingFree,
    /// Requests of another stream are served from it.
    OtherStream,
    /// Requests of the other size class are served from it: up to 1 MiB, or more.
    OtherClass,
    /// It is of another pool.
    OtherPool,
    /// There is no request: it is cached.
    Cached,
}

impl Unserved {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::TooSmall => "smaller than the request",
            Self::Settings => "withheld by the settings",
            Self::PendingFree => "pending free: another stream still uses it",
            Self::OtherStream => "other stream",
            Self::OtherClass => "other size class",
            Self::OtherPool => "other pool",
            Self::Cached => "cached",
        }
    }
}

/// Free memory of one pool, stream and size class. The rows of a moment add up to what is reserved and not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FreeSpace {
    /// The pool; 0:0 is the default pool.
    pub pool: PoolId,
    /// The stream.
    pub stream: Stream,
    /// Whether it serves requests over 1 MiB, else those up to 1 MiB.
    pub is_large: bool,
    /// Why it did not serve.
    pub reason: Unserved,
    /// All of it.
    pub free_bytes: u64,
    /// The largest block of it.
    pub largest_bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Bytes of it in whole segments and pages, which the allocator returns to the device when memory is short.
    pub returnable_bytes: u64,
}

/// The free memory of these segments, the most first; `situation` is that of the request, where there is one.
pub fn free_space(
    segments: &[SegmentState],
    config: &Config,
    situation: Option<&Situation>,
) -> Vec<FreeSpace> {
    let mut rows: BTreeMap<_, FreeSpace> = BTreeMap::new();
    for segment in segments {
        for block in &segment.blocks {
            if block.status == BlockStatus::Allocated {
                continue;
            }
            let (pool, stream, is_large) = (segment.pool, segment.stream, segment.is_large);
            let is_pending = block.status == BlockStatus::PendingFree;
            let reason = reason(segment, block.size_bytes, is_pending, situation);
            let row = rows.entry((pool, stream, is_large, reason)).or_insert(FreeSpace {
                pool,
                stream,
                is_large,
                reason,
                free_bytes: 0,
                largest_bytes: 0,
                blocks: 0,
                returnable_bytes: 0,
            });
            row.free_bytes += block.size_bytes;
            row.largest_bytes = row.largest_bytes.max(block.size_bytes);
            row.blocks += 1;
            let is_flushed = situation.is_none_or(|situation| situation.is_flushed(segment));
            if is_flushed && !is_pending {
                row.returnable_bytes += size::whole_bytes(segment.into(), block, config);
            }
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.free_bytes), row.pool, row.stream, row.reason));
    rows
}

fn reason(
    segment: &SegmentState,
    size_bytes: u64,
    is_pending: bool,
    situation: Option<&Situation>,
) -> Unserved {
    let Some(situation) = situation else {
        return if is_pending { Unserved::PendingFree } else { Unserved::Cached };
    };
    let config = &situation.config;
    match () {
        () if is_pending => Unserved::PendingFree,
        () if segment.pool != situation.pool() => Unserved::OtherPool,
        () if segment.is_large != situation.is_large() => Unserved::OtherClass,
        () if segment.stream != situation.request.stream => Unserved::OtherStream,
        () if size_bytes < size::round(situation.request.requested_bytes, config) => {
            Unserved::TooSmall
        }
        () => Unserved::Settings,
    }
}
