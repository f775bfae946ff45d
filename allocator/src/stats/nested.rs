//! Statistics for serde, nested as PyTorch nests them.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::keys::{BY_PRIVATE_POOLS, pool_key};
use super::{StatArray, Stats};
use events::PoolId;
use settings::Compat;

/// As `torch.cuda.memory_stats_as_nested_dict()`; the pools' keys are written `a_b`, as the flat form has them.
impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.counters() {
            map.serialize_entry(name, &value)?;
        }
        for (name, array) in self.arrays() {
            map.serialize_entry(name, array)?;
        }
        for (name, stat) in self.stats() {
            map.serialize_entry(name, stat)?;
        }
        if self.compat == Compat::V2_15 {
            map.serialize_entry(BY_PRIVATE_POOLS, &ByPool(self.private_pools()))?;
        }
        map.end()
    }
}

struct ByPool<'a>(&'a [(PoolId, StatArray)]);

impl Serialize for ByPool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(pool, array)| (pool_key(*pool), array)))
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;
    use settings::UNLIMITED;

    /// The flat and the nested form come from two functions; this keeps them one set of keys.
    #[test]
    fn the_nested_form_flattens_to_the_flat_form() {
        for compat in [Compat::V2_11, Compat::V2_15] {
            let mut stats = Stats::new(compat, UNLIMITED);
            stats.allocation.increase(true, 3);
            stats.private_pool_reserved_bytes(PoolId(2, 0)).increase(false, 20 << 20);
            let mut flat = Vec::new();
            walk(&serde_json::to_value(&stats).unwrap(), "", &mut flat);
            flat.sort_unstable();
            assert_eq!(flat, stats.flat());
        }
    }

    fn walk(value: &serde_json::Value, prefix: &str, flat: &mut Vec<(String, i64)>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                let dot = if prefix.is_empty() { "" } else { "." };
                walk(value, &format!("{prefix}{dot}{key}"), flat);
            }),
            leaf => flat.push((prefix.to_owned(), leaf.as_i64().unwrap())),
        }
    }
}
