//! The state a tape starts from: everything that later events presuppose.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{
    event::ScopeFilter,
    ids::{Addr, PageNumber, PoolId},
    order::BaseOrder,
    segment::SegmentState,
};

/// All that one device's allocator holds at one moment. Events after it apply to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaseState {
    /// Nanoseconds since the Unix epoch; 0 where the source had no clock.
    pub time_ns: u64,
    /// Segments in ascending order of address.
    pub segments: Vec<SegmentState>,
    /// Where the pages of `stitch` are mapped, ascending by address, in a chunk of their own. The bytes of a page in a
    /// segment have their home there, any other address is a ghost.
    pub pages: Vec<(Addr, PageNumber)>,
    /// Private pools that exist; the default pool is not listed.
    pub pools: Vec<PoolState>,
    /// Open scopes, oldest first; the newest that takes a stream wins.
    pub scopes: Vec<ScopeState>,
    /// Pools on whose streams a graph capture is under way.
    pub captures: Vec<PoolId>,
    /// The settings in force (the text of `PYTORCH_CUDA_ALLOC_CONF`).
    pub settings: String,
    /// Per-process memory fraction; `None` where no limit was set.
    pub memory_fraction: Option<f64>,
    /// Statistics under the keys of `torch.cuda.memory_stats()`, as JSON; empty where the source had none.
    pub stats: String,
    /// Orders and ages, in a chunk of their own.
    pub order: BaseOrder,
}

/// A private pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// The pool.
    pub pool: PoolId,
    /// How many hold it (`PrivatePool::use_count`); at zero its cached segments may be returned.
    pub use_count: u32,
    /// Whether it brings its own segment source (`MemPool(allocator=...)`).
    pub own_source: bool,
    /// Whether its free blocks may serve others as a last resort before out of memory.
    pub use_on_oom: bool,
    /// Whether it never splits a segment.
    pub no_split: bool,
}

impl PoolState {
    /// A pool without options.
    pub const fn new(pool: PoolId, use_count: u32) -> Self {
        Self { pool, use_count, own_source: false, use_on_oom: false, no_split: false }
    }

    /// The private pools of these segments, ascending, with a user each.
    pub fn of_segments(segments: &[SegmentState]) -> Vec<Self> {
        let pools: BTreeSet<_> = segments.iter().map(|segment| segment.pool).collect();
        let private = pools.into_iter().filter(|pool| !pool.is_default());
        private.map(|pool| Self::new(pool, 1)).collect()
    }
}

/// An open scope (`beginAllocateToPool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeState {
    /// The pool that allocations go to.
    pub pool: PoolId,
    /// Which allocations.
    pub filter: ScopeFilter,
}
