//! The state of memory at one moment, as a snapshot shows it and as a tape carries it to start from.

use alloc::vec::Vec;

use crate::ids::{Addr, PoolId, StackId, Stream};

/// Whether a block is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockStatus {
    /// Handed out (`active_allocated`).
    Allocated,
    /// Given back, still in use by another stream (`active_pending_free`).
    PendingFree,
    /// Free and cached (`inactive`).
    Inactive,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockState {
    /// Where it starts.
    pub addr: Addr,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes requested when it was last allocated; stale while inactive, as in PyTorch.
    pub requested_bytes: u64,
    /// Whether it is in use.
    pub status: BlockStatus,
    /// Stack of the allocation.
    pub stack: StackId,
}

/// One contiguous mapped run of memory: a segment, or a mapped part of an expandable segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Where it starts.
    pub addr: Addr,
    /// Its size; the blocks tile it.
    pub size_bytes: u64,
    /// The stream it serves.
    pub stream: Stream,
    /// The pool it serves.
    pub pool: PoolId,
    /// Whether it serves large requests (over 1 MiB).
    pub is_large: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// Stack of the allocation that made it.
    pub stack: StackId,
    /// Its blocks in ascending order, without gaps.
    pub blocks: Vec<BlockState>,
}
