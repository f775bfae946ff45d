//! Short traces for the tests of this module.

use trace_format::{PoolId, StackId, Stream};

use crate::snapshot::{Action, Entry};

/// A MiB.
pub(super) const MIB: u64 = 1 << 20;

/// An entry of the default pool; its address does not matter.
pub(super) fn entry(action: Action, size: u64) -> Entry {
    Entry {
        action,
        addr: 0x1000,
        size,
        stream: Stream(0),
        time_us: 0,
        pool: Some(PoolId::DEFAULT),
        stack: StackId::NONE,
    }
}

/// The same in another pool.
pub(super) fn in_pool(pool: PoolId, entry: Entry) -> Entry {
    Entry { pool: Some(pool), ..entry }
}
