//! The part of a base state besides memory: the orders and ages that decide where later requests are placed.

use alloc::vec::Vec;

use crate::ids::{Addr, PoolId, Stream};

/// The allocator's orders and ages at a base state. A replay needs them to make the recorded placements again. Each
/// list is empty where the source did not know it; a replay then infers an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseOrder {
    /// First addresses of segments and of the address ranges of expandable segments, oldest first. Decides between free
    /// blocks of one size since PyTorch 2.15, so that the order under 2.11 is left out.
    pub begun: Vec<Addr>,
    /// Address ranges of expandable segments, ascending, those without a mapped page included.
    pub ranges: Vec<RangeState>,
    /// Free blocks and their ages: searches of their pool since they became free. Ages of 0 are left out. Decides what
    /// garbage collection returns.
    pub ages: Vec<(Addr, u32)>,
    /// Pending frees in the order in which a flush completes them.
    pub pending: Vec<Addr>,
    /// Private pools without users, in the order in which they lost the last one. A flush releases them in this order.
    pub released_pools: Vec<PoolId>,
    /// Pools that serve others before out of memory, in the order in which they are tried.
    pub lending_pools: Vec<PoolId>,
    /// Pools that never split a segment, those that do not exist now included.
    pub unsplit_pools: Vec<PoolId>,
}

/// The address range that an expandable segment reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeState {
    /// Where it starts; its first pages may be unmapped.
    pub addr: Addr,
    /// Size of its pages.
    pub page_bytes: u64,
    /// The stream it serves.
    pub stream: Stream,
    /// The pool it serves.
    pub pool: PoolId,
    /// Whether it serves large requests (over 1 MiB).
    pub is_large: bool,
}

impl BaseOrder {
    /// Whether the source knew nothing of it, or there was nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
