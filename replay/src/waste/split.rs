//! Splits what is reserved at one moment into its parts.

use std::collections::BTreeMap;

use allocator::heap::MappedRun;
use allocator::size::{self, RunShape};
use serde::Serialize;
use settings::{Config, UNLIMITED};
use trace_format::{BlockState, BlockStatus, PoolId, Stream};

use super::misses::References;
use super::parts::Parts;

/// The rules that classify free memory.
pub(super) struct Rules<'a> {
    pub(super) config: &'a Config,
    /// Whether the settings let every request be rounded to 512 bytes.
    pub(super) rounds_plainly: bool,
    pub(super) references: References,
    /// Whether a flush returns what this pool holds unused: the default pool, and pools that are no longer in use.
    pub(super) is_flushed: &'a dyn Fn(PoolId) -> bool,
}

impl Rules<'_> {
    /// The bytes of a block that serves a request.
    #[inline]
    fn round(&self, requested_bytes: u64) -> u64 {
        if self.rounds_plainly {
            size::round_plain(requested_bytes)
        } else {
            size::round(requested_bytes, self.config)
        }
    }
}

/// The parts, and their details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) parts: Parts,
    /// Of the free parts, what a flush would return to the device.
    pub(super) returnable_bytes: u64,
    /// Of what fragmentation strands, pieces that are large enough, but that the settings keep from the request.
    pub(super) withheld_bytes: u64,
    pub(super) largest_free: LargestFree,
    /// Stranded bytes by stream and by pool.
    pub(super) by_stream: BTreeMap<Stream, u64>,
    pub(super) by_pool: BTreeMap<PoolId, u64>,
}

/// The largest free piece of the stream and pool of each half's reference request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LargestFree {
    /// Of the half for requests up to 1 MiB.
    pub small_bytes: u64,
    /// Of the half for larger requests.
    pub large_bytes: u64,
}

impl LargestFree {
    fn of_half(&mut self, is_large: bool) -> &mut u64 {
        if is_large { &mut self.large_bytes } else { &mut self.small_bytes }
    }
}

/// Splits the memory of a heap.
pub(super) fn split<'h>(runs: impl Iterator<Item = MappedRun<'h>>, rules: &Rules<'_>) -> Split {
    let mut split = Split::default();
    for run in runs {
        let shape = run.shape();
        let grows = run.is_expandable && rules.config.expandable_segments;
        let mut blocks = run.blocks().peekable();
        while let Some(block) = blocks.next() {
            match block.status {
                BlockStatus::Allocated => split.add_held(shape, &block, rules),
                BlockStatus::PendingFree => split.parts.pending_free_bytes += block.size_bytes,
                BlockStatus::Inactive => {
                    let is_last = blocks.peek().is_none();
                    let room_bytes = if grows && is_last { room_behind(&run) } else { 0 };
                    split.add_free(&run, &block, room_bytes, rules);
                }
            }
        }
    }
    split
}

impl Split {
    fn add_held(&mut self, shape: RunShape, block: &BlockState, rules: &Rules<'_>) {
        let requested_bytes = block.requested_bytes.min(block.size_bytes);
        let rounded_bytes = rules.round(requested_bytes).min(block.size_bytes);
        let rest_bytes = block.size_bytes - rounded_bytes;
        self.parts.requested_bytes += requested_bytes;
        self.parts.rounding_bytes += rounded_bytes - requested_bytes;
        let made_for_it = !shape.is_expandable
            && shape.is_one_block
            && rounded_bytes >= size::MIN_LARGE_BYTES
            && rest_bytes < size::ROUND_LARGE_BYTES;
        if made_for_it {
            self.parts.driver_granularity_bytes += rest_bytes;
        } else {
            self.parts.unsplit_remainder_bytes += rest_bytes;
        }
    }

    fn add_free(
        &mut self,
        run: &MappedRun<'_>,
        block: &BlockState,
        room_bytes: u64,
        rules: &Rules<'_>,
    ) {
        let size_bytes = block.size_bytes;
        let whole_bytes = size::whole_bytes(run.shape(), block, rules.config);
        if (rules.is_flushed)(run.pool) {
            self.returnable_bytes += whole_bytes;
        }
        let Some(reference) = rules.references.of_half(run.is_large) else {
            // Nothing was ever refused to anybody.
            self.parts.cached_reusable_bytes += size_bytes;
            return;
        };
        let want_bytes = rules.round(reference.requested_bytes);
        let serves = size::serves(rules.config, run.is_expandable, size_bytes, want_bytes);
        let is_own_pool = run.pool == reference.pool;
        if is_own_pool && run.stream == reference.stream {
            let largest_bytes = self.largest_free.of_half(run.is_large);
            *largest_bytes = size_bytes.max(*largest_bytes);
            if serves || (room_bytes > 0 && size_bytes + room_bytes >= want_bytes) {
                self.parts.cached_reusable_bytes += size_bytes;
            } else {
                self.parts.stranded_by_fragmentation_bytes += size_bytes;
                self.withheld_bytes += if size_bytes >= want_bytes { size_bytes } else { 0 };
            }
            return;
        }
        let stranded_bytes = if serves { size_bytes } else { whole_bytes };
        self.parts.stranded_by_fragmentation_bytes += size_bytes - stranded_bytes;
        if is_own_pool {
            self.parts.stranded_by_stream_bytes += stranded_bytes;
            *self.by_stream.entry(run.stream).or_default() += stranded_bytes;
        } else {
            self.parts.stranded_by_pool_bytes += stranded_bytes;
            *self.by_pool.entry(run.pool).or_default() += stranded_bytes;
        }
    }
}

/// The addresses behind a mapped run into which it can grow. They end with the segment, which reaches further than any
/// request that the device could serve, or where more of the same segment is mapped.
fn room_behind(run: &MappedRun<'_>) -> u64 {
    run.room_behind_bytes().unwrap_or(UNLIMITED / 2)
}

#[cfg(test)]
mod tests {
    use allocator::heap::{Heap, PoolChoice, Request};
    use events::Off;
    use proptest::prelude::*;
    use settings::Compat;
    use sim_device::{SimConfig, SimDevice};
    use trace_format::{SegmentState, StackId};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn request(requested_bytes: u64) -> Request {
        let pool = PoolChoice::Exactly(PoolId::DEFAULT);
        Request { requested_bytes, stream: Stream(0), pool, stack: StackId::NONE }
    }

    proptest! {
        /// Blocks classified as reusable are those that the heap takes.
        #[test]
        fn a_free_block_serves_where_the_heap_would_take_it(
            sizes in prop::collection::vec(1..(60 * MIB), 1..20),
            kept in prop::collection::vec(any::<bool>(), 20),
            asked_bytes in 1..(60 * MIB),
            text in prop::sample::select(vec![
                "",
                "max_split_size_mb:20",
                "max_split_size_mb:32,max_non_split_rounding_mb:21",
                "roundup_power2_divisions:2",
            ]),
        ) {
            let config = Config::parse(text, Compat::V2_15).unwrap().config;
            let device = SimDevice::new(SimConfig::with_capacity(1 << 40));
            let mut heap = Heap::new(device, config.clone(), Off).unwrap();
            let blocks: Vec<_> =
                sizes.iter().map(|bytes| heap.malloc(&request(*bytes)).unwrap()).collect();
            for (addr, _) in blocks.iter().zip(&kept).filter(|(_, kept)| !**kept) {
                heap.free(*addr, StackId::NONE).unwrap();
            }
            let want_bytes = size::round(asked_bytes, &config);
            let free = |segment: &SegmentState| {
                let free = segment.blocks.iter().filter(|b| b.status == BlockStatus::Inactive);
                let sizes = free.map(|block| block.size_bytes).collect::<Vec<_>>();
                let is_half = segment.is_large != size::is_small(want_bytes);
                sizes.into_iter().filter(move |_| is_half)
            };
            let segments = heap.segments(PoolId::DEFAULT);
            let serves =
                segments.iter().flat_map(free).any(|b| size::serves(&config, false, b, want_bytes));
            let cached = heap.malloc_cached(&request(asked_bytes)).unwrap();
            prop_assert_eq!(serves, cached.is_ok());
        }
    }
}
