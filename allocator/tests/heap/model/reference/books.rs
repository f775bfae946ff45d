//! The reference's statistics and snapshot.

use std::collections::BTreeMap;

use settings::{Compat, Config};
use trace_format::{Addr, BlockState, BlockStatus, PoolId, SegmentState, StackId};

use super::{NO_LIMIT, Reference};

const FIELDS: [&str; 4] = ["current", "peak", "allocated", "freed"];
const COUNTERS: [&str; 5] = [
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
];
const ARRAYS: [&str; 9] = [
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
];

/// Statistics under PyTorch's flat keys.
pub(super) struct Books {
    values: BTreeMap<String, i64>,
    compat: Compat,
}

impl Books {
    pub(super) fn new(config: &Config) -> Self {
        let mut books = Self { values: BTreeMap::new(), compat: config.compat };
        for array in ARRAYS {
            books.open(array);
        }
        for name in ["oversize_allocations", "oversize_segments"] {
            books.open_plain(name);
        }
        for name in COUNTERS {
            books.values.insert(name.to_owned(), 0);
        }
        if books.compat == Compat::V2_15 {
            books.values.insert("num_oom_rejections".to_owned(), 0);
        }
        let limit = config.max_split_size_bytes;
        let shown = if limit == NO_LIMIT { -1 } else { limit as i64 };
        books.values.insert("max_split_size".to_owned(), shown);
        books
    }

    fn open(&mut self, array: &str) {
        for part in ["all", "small_pool", "large_pool"] {
            self.open_plain(&format!("{array}.{part}"));
        }
    }

    fn open_plain(&mut self, stat: &str) {
        for field in FIELDS {
            self.values.entry(format!("{stat}.{field}")).or_insert(0);
        }
    }

    fn value(&mut self, key: &str) -> &mut i64 {
        self.values.get_mut(key).unwrap_or_else(|| panic!("no statistic {key}"))
    }

    pub(super) fn current(&mut self, array: &str) -> u64 {
        *self.value(&format!("{array}.all.current")) as u64
    }

    pub(super) fn count(&mut self, counter: &str) {
        *self.value(counter) += 1;
    }

    pub(super) fn increase_plain(&mut self, stat: &str, amount: u64) {
        let current = self.value(&format!("{stat}.current"));
        *current += amount as i64;
        let current = *current;
        let peak = self.value(&format!("{stat}.peak"));
        *peak = current.max(*peak);
        *self.value(&format!("{stat}.allocated")) += amount as i64;
    }

    pub(super) fn decrease_plain(&mut self, stat: &str, amount: u64) {
        *self.value(&format!("{stat}.current")) -= amount as i64;
        *self.value(&format!("{stat}.freed")) += amount as i64;
    }

    pub(super) fn increase(&mut self, array: &str, small: bool, amount: u64) {
        self.increase_plain(&format!("{array}.all"), amount);
        self.increase_plain(&format!("{array}.{}", part(small)), amount);
    }

    pub(super) fn decrease(&mut self, array: &str, small: bool, amount: u64) {
        self.decrease_plain(&format!("{array}.all"), amount);
        self.decrease_plain(&format!("{array}.{}", part(small)), amount);
    }

    /// Moves a statistic to a new value in one step.
    fn move_to(&mut self, array: &str, small: bool, value: u64) {
        let old = *self.value(&format!("{array}.{}.current", part(small))) as u64;
        if value > old {
            self.increase(array, small, value - old);
        } else if value < old {
            self.decrease(array, small, old - value);
        }
    }

    /// Memory came from the device, or went back to it.
    pub(super) fn reserve(&mut self, pool: PoolId, small: bool, amount: u64, came: bool) {
        self.count(if came { "num_device_alloc" } else { "num_device_free" });
        let mut names = vec!["reserved_bytes".to_owned()];
        if !pool.is_default() && self.compat == Compat::V2_15 {
            let name = format!("reserved_bytes_by_private_pools.{}_{}", pool.0, pool.1);
            self.open(&name);
            names.push(name);
        }
        for name in names {
            if came {
                self.increase(&name, small, amount);
            } else {
                self.decrease(&name, small, amount);
            }
        }
    }
}

fn part(small: bool) -> &'static str {
    if small { "small_pool" } else { "large_pool" }
}

impl Reference {
    pub(crate) fn stats(&self) -> Vec<(String, i64)> {
        self.books.values.iter().map(|(key, value)| (key.clone(), *value)).collect()
    }

    pub(crate) fn reset_peaks(&mut self) {
        let values = &mut self.books.values;
        let stats: Vec<String> =
            values.keys().filter_map(|key| key.strip_suffix(".peak").map(str::to_owned)).collect();
        for stat in stats {
            let current = values[&format!("{stat}.current")];
            values.insert(format!("{stat}.peak"), current);
        }
    }

    pub(crate) fn reset_accumulated(&mut self) {
        for (key, value) in &mut self.books.values {
            let field = key.rsplit('.').next();
            if key.starts_with("num_") || matches!(field, Some("allocated" | "freed")) {
                *value = 0;
            }
        }
    }

    /// Counts the free parts of plain segments again, as PyTorch's net changes sum up to.
    pub(super) fn recount_inactive(&mut self) {
        for small in [true, false] {
            let parts: Vec<u64> = (0..self.blocks.len())
                .filter(|&at| {
                    let block = &self.blocks[at];
                    block.small == small && block.range.is_none() && self.idle(at) && self.split(at)
                })
                .map(|at| self.blocks[at].size)
                .collect();
            self.books.move_to("inactive_split", small, parts.len() as u64);
            self.books.move_to("inactive_split_bytes", small, parts.iter().sum());
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<SegmentState> {
        let mut order: Vec<usize> =
            (0..self.blocks.len()).filter(|&at| self.blocks[at].mapped).collect();
        order.sort_by_key(|&at| self.blocks[at].addr);
        let mut segments: Vec<(usize, SegmentState)> = Vec::new();
        for at in order {
            let block = &self.blocks[at];
            let state = BlockState {
                addr: Addr(block.addr),
                size_bytes: block.size,
                requested_bytes: block.requested,
                status: if block.allocated {
                    BlockStatus::Allocated
                } else if self.idle(at) {
                    BlockStatus::Inactive
                } else {
                    BlockStatus::PendingFree
                },
                stack: StackId::NONE,
            };
            match segments.last_mut() {
                Some((number, segment))
                    if *number == block.segment
                        && segment.addr.0 + segment.size_bytes == block.addr =>
                {
                    segment.size_bytes += block.size;
                    segment.blocks.push(state);
                }
                _ => segments.push((
                    block.segment,
                    SegmentState {
                        addr: Addr(block.addr),
                        size_bytes: block.size,
                        stream: block.stream,
                        pool: block.pool,
                        is_large: !block.small,
                        is_expandable: block.range.is_some(),
                        stack: StackId::NONE,
                        blocks: vec![state],
                    },
                )),
            }
        }
        segments.into_iter().map(|(_, segment)| segment).collect()
    }
}
