//! Memory by pool and stream, and by call stack.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use recorder::RingReader;
use trace_format::{BlockStatus, PoolId, SegmentState, StackId, Stream};

use super::frame::{PoolFrame, StackFrame};

/// A screen shows as many as fit.
const STACKS: usize = 16;
/// Innermost frames of a stack that are kept.
const FRAMES: usize = 32;

/// The segments, summed up by pool, stream and kind.
pub(super) fn pools(segments: &[SegmentState]) -> Vec<PoolFrame> {
    let mut pools: BTreeMap<(PoolId, Stream, bool), PoolFrame> = BTreeMap::new();
    for segment in segments {
        let SegmentState { pool, stream, is_large, .. } = *segment;
        let line = pools.entry((pool, stream, is_large)).or_insert_with(|| PoolFrame {
            pool: if pool.is_default() { "default".to_owned() } else { pool.to_string() },
            stream: if stream == Stream(0) { "0".to_owned() } else { format!("{:#x}", stream.0) },
            kind: if is_large { "large" } else { "small" },
            ..PoolFrame::default()
        });
        line.segments += 1;
        line.reserved_bytes += segment.size_bytes;
        for block in &segment.blocks {
            match block.status {
                BlockStatus::Allocated => line.allocated_bytes += block.size_bytes,
                BlockStatus::PendingFree => line.pending_bytes += block.size_bytes,
                BlockStatus::Inactive => {
                    line.free_bytes += block.size_bytes;
                    line.largest_free_bytes = line.largest_free_bytes.max(block.size_bytes);
                }
            }
        }
    }
    pools.into_values().collect()
}

/// The call stacks that hold most, largest first.
pub(super) fn stacks(segments: &[SegmentState], reader: &mut RingReader) -> Vec<StackFrame> {
    let mut held: HashMap<StackId, (u64, u64)> = HashMap::new();
    for block in segments.iter().flat_map(|segment| &segment.blocks) {
        if block.status == BlockStatus::Allocated && block.stack != StackId::NONE {
            let (bytes, blocks) = held.entry(block.stack).or_default();
            *bytes += block.size_bytes;
            *blocks += 1;
        }
    }
    let mut held: Vec<_> = held.into_iter().collect();
    held.sort_by_key(|(stack, (bytes, _))| (Reverse(*bytes), *stack));
    held.truncate(STACKS);
    let lines = held.into_iter().map(|(stack, (live_bytes, blocks))| StackFrame {
        live_bytes,
        blocks,
        frames: frames(stack, reader),
    });
    lines.collect()
}

fn frames(stack: StackId, reader: &mut RingReader) -> Vec<String> {
    let frames = reader.stack(stack).unwrap_or_default();
    let frames: Vec<_> = frames.iter().take(FRAMES).copied().collect();
    let mut text = |id| reader.string(id).unwrap_or("?").to_owned();
    frames
        .into_iter()
        .map(|frame| format!("{} {}:{}", text(frame.name), text(frame.filename), frame.line))
        .collect()
}
