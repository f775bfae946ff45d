//! The keys of `torch.cuda.memory_stats`, flattened.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use events::PoolId;

use super::{Stat, StatArray, Stats};
use settings::Compat;

/// Since 2.13; the pools' ids follow.
pub(super) const BY_PRIVATE_POOLS: &str = "reserved_bytes_by_private_pools";

impl Stats {
    /// The keys and values of `torch.cuda.memory_stats()`, dotted and in its order.
    pub fn flat(&self) -> Vec<(String, i64)> {
        let mut flat = Vec::with_capacity(128);
        for (name, array) in self.arrays() {
            flatten_array(&mut flat, name, array);
        }
        for (name, stat) in self.stats() {
            flatten_stat(&mut flat, name, stat);
        }
        flat.extend(self.counters().map(|(name, value)| (name.to_owned(), value)));
        for (pool, array) in self.private_pools() {
            flatten_array(&mut flat, &format!("{BY_PRIVATE_POOLS}.{}", pool_key(*pool)), array);
        }
        flat.sort_unstable();
        flat
    }

    pub(super) fn arrays(&self) -> [(&'static str, &StatArray); 9] {
        [
            ("allocation", &self.allocation),
            ("segment", &self.segment),
            ("active", &self.active),
            ("inactive_split", &self.inactive_split),
            ("allocated_bytes", &self.allocated_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("active_bytes", &self.active_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
        ]
    }

    pub(super) fn stats(&self) -> [(&'static str, &Stat); 2] {
        [
            ("oversize_allocations", &self.oversize_allocations),
            ("oversize_segments", &self.oversize_segments),
        ]
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let rejections = match self.compat {
            Compat::V2_11 => None,
            Compat::V2_15 => Some(("num_oom_rejections", self.num_oom_rejections)),
        };
        [
            ("num_alloc_retries", self.num_alloc_retries),
            ("num_ooms", self.num_ooms),
            ("max_split_size", self.max_split_size()),
            ("num_sync_all_streams", self.num_sync_all_streams),
            ("num_device_alloc", self.num_device_alloc),
            ("num_device_free", self.num_device_free),
        ]
        .into_iter()
        .chain(rejections)
    }

    pub(super) fn private_pools(&self) -> &[(PoolId, StatArray)] {
        match self.compat {
            Compat::V2_11 => &[],
            Compat::V2_15 => &self.reserved_bytes_by_private_pools,
        }
    }
}

pub(super) fn pool_key(pool: PoolId) -> String {
    format!("{}_{}", pool.0, pool.1)
}

fn flatten_array(flat: &mut Vec<(String, i64)>, name: &str, array: &StatArray) {
    flatten_stat(flat, &format!("{name}.all"), &array.all);
    flatten_stat(flat, &format!("{name}.small_pool"), &array.small_pool);
    flatten_stat(flat, &format!("{name}.large_pool"), &array.large_pool);
}

fn flatten_stat(flat: &mut Vec<(String, i64)>, name: &str, stat: &Stat) {
    flat.push((format!("{name}.current"), stat.current));
    flat.push((format!("{name}.peak"), stat.peak));
    flat.push((format!("{name}.allocated"), stat.allocated));
    flat.push((format!("{name}.freed"), stat.freed));
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;
    use settings::UNLIMITED;

    /// Keys recorded from each PyTorch, one per line, in the order of its dictionary.
    fn recorded(compat: Compat) -> Vec<&'static str> {
        match compat {
            Compat::V2_11 => include_str!("keys_2.11.txt"),
            Compat::V2_15 => include_str!("keys_2.15.txt"),
        }
        .lines()
        .collect()
    }

    #[test]
    fn the_keys_are_those_of_each_pytorch_in_its_order() {
        for compat in [Compat::V2_11, Compat::V2_15] {
            let flat = Stats::new(compat, UNLIMITED).flat();
            let keys: Vec<&str> = flat.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys, recorded(compat), "{compat:?}");
        }
    }

    #[test]
    pub(super) fn private_pools_have_keys_of_their_own_in_2_15_only() {
        for (compat, shown) in [(Compat::V2_11, false), (Compat::V2_15, true)] {
            let mut stats = Stats::new(compat, UNLIMITED);
            stats.private_pool_reserved_bytes(PoolId(0, 1)).increase(true, 2 << 20);
            let key = "reserved_bytes_by_private_pools.0_1.small_pool.peak";
            let value = stats.flat().into_iter().find(|(known, _)| known == key);
            assert_eq!(value, shown.then(|| (key.to_owned(), 2 << 20)), "{compat:?}");
        }
    }

    #[test]
    fn no_split_limit_reads_minus_one() {
        for (bytes, shown) in [(UNLIMITED, -1), (64 << 20, 64 << 20)] {
            let stats = Stats::new(Compat::V2_15, bytes);
            assert!(stats.flat().contains(&("max_split_size".to_owned(), shown)));
        }
    }
}
