//! Short traces for the tests of this module.

use trace_format::{Addr, PoolId, StackId, Stream};

use crate::snapshot::{TraceAction, TraceEntry};

/// A MiB.
pub(super) const MIB: u64 = 1 << 20;

/// An entry of the default pool; its address does not matter.
pub(super) fn entry(action: TraceAction, size: u64) -> TraceEntry {
    TraceEntry {
        action,
        addr: Addr(0x1000),
        size_bytes: size,
        stream: Stream(0),
        time_us: 0,
        pool: Some(PoolId::DEFAULT),
        cuts_segment: false,
        stack: StackId::NONE,
    }
}

/// The same in another pool.
pub(super) fn in_pool(pool: PoolId, entry: TraceEntry) -> TraceEntry {
    TraceEntry { pool: Some(pool), ..entry }
}
