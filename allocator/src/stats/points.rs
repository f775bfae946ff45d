//! PyTorch's update points: which counters move together, and when.

use trace_format::PoolId;

use super::{StatArray, Stats};
use crate::config::UNLIMITED;

impl Stats {
    /// A block was handed out.
    #[inline]
    pub fn on_alloc(&mut self, pool_is_small: bool, size_bytes: u64, requested_bytes: u64) {
        self.allocation.increase(pool_is_small, 1);
        self.allocated_bytes.increase(pool_is_small, size_bytes as i64);
        self.active.increase(pool_is_small, 1);
        self.active_bytes.increase(pool_is_small, size_bytes as i64);
        self.requested_bytes.increase(pool_is_small, requested_bytes as i64);
    }

    /// A block was given back; other streams may still use it.
    #[inline]
    pub fn on_free_requested(&mut self, pool_is_small: bool, size_bytes: u64) {
        self.allocation.decrease(pool_is_small, 1);
        self.allocated_bytes.decrease(pool_is_small, size_bytes as i64);
    }

    /// A block became reusable.
    #[inline]
    pub fn on_free_completed(
        &mut self,
        pool_is_small: bool,
        size_bytes: u64,
        requested_bytes: u64,
    ) {
        self.active.decrease(pool_is_small, 1);
        self.active_bytes.decrease(pool_is_small, size_bytes as i64);
        self.requested_bytes.decrease(pool_is_small, requested_bytes as i64);
    }

    /// Memory was obtained from the device: a segment, or pages mapped into one.
    pub fn on_reserve(&mut self, pool: PoolId, pool_is_small: bool, size_bytes: u64) {
        self.num_device_alloc += 1;
        self.reserved_bytes.increase(pool_is_small, size_bytes as i64);
        if !pool.is_default() {
            self.private_pool_reserved_bytes(pool).increase(pool_is_small, size_bytes as i64);
        }
    }

    /// Memory was returned to the device.
    pub fn on_unreserve(&mut self, pool: PoolId, pool_is_small: bool, size_bytes: u64) {
        self.num_device_free += 1;
        self.reserved_bytes.decrease(pool_is_small, size_bytes as i64);
        if !pool.is_default() {
            self.private_pool_reserved_bytes(pool).decrease(pool_is_small, size_bytes as i64);
        }
    }

    /// Whether a size counts as oversize under this limit; nothing does under no limit.
    pub const fn is_oversize(size_bytes: u64, max_split_size_bytes: u64) -> bool {
        max_split_size_bytes != UNLIMITED && size_bytes >= max_split_size_bytes
    }
}

impl StatArray {
    /// Adds and takes away in one step: only the difference moves the counters, as PyTorch nets a free's merges.
    #[inline]
    pub fn change(&mut self, pool_is_small: bool, added: i64, removed: i64) {
        match added - removed {
            0 => {}
            net if net > 0 => self.increase(pool_is_small, net),
            net => self.decrease(pool_is_small, -net),
        }
    }
}
