//! The pools of captured CUDA graphs: what they would reserve together if they shared one, or if each began with a
//! segment of its size.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use allocator::stats::ByteSize;
use serde::Serialize;
use trace_format::{Addr, Event, PoolId, Record, ScopeFilter};

use crate::driver::Result;

/// The least gain that is printed, as a share of the reserved bytes.
const GAIN_SHARE_MIN: f64 = 0.01;
/// A segment for a pool's first request is a multiple of this.
const SEGMENT_BYTES: u64 = 2 << 20;

/// What a run with captured graphs reserves, as it was and changed, by replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GraphPools {
    /// Pools of graphs that were captured in the run.
    pub pools: u64,
    /// The most bytes held from the device at once, as recorded.
    pub peak_reserved_bytes: u64,
    /// The same if all graphs share one pool; `None` where there is one.
    pub shared_peak_reserved_bytes: Option<u64>,
    /// The same if each pool begins with a segment of the most that it holds.
    pub primed_peak_reserved_bytes: u64,
}

impl GraphPools {
    /// Replays the records, and those with a change. `None` where no graph was captured.
    pub(crate) fn of(
        records: &[Record],
        peak_reserved_bytes: u64,
        replay: impl Fn(&[Record]) -> Result<u64>,
    ) -> Result<Option<Self>> {
        let pools = captured(records);
        if pools.is_empty() {
            return Ok(None);
        }
        let shared = SharedPool::of(records);
        let shared = shared.map(|shared| {
            let applied = records.iter().filter_map(|record| shared.applied(record));
            replay(&applied.collect::<Vec<_>>())
        });
        Ok(Some(Self {
            pools: pools.len() as u64,
            peak_reserved_bytes,
            shared_peak_reserved_bytes: shared.transpose()?,
            primed_peak_reserved_bytes: replay(&primed(records, &pools))?,
        }))
    }

    /// Whether so much is a gain.
    fn is_gain(&self, bytes: u64) -> bool {
        let most = (1.0 - GAIN_SHARE_MIN) * self.peak_reserved_bytes as f64;
        (bytes as f64) < most
    }
}

/// The changes that gain something, a line each; empty where none does.
impl fmt::Display for GraphPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = ByteSize(self.peak_reserved_bytes);
        if let Some(bytes) = self.shared_peak_reserved_bytes.filter(|bytes| self.is_gain(*bytes)) {
            writeln!(
                f,
                "Graphs: one pool instead of {}, {} instead of {before}, replayed: torch.cuda.graph(graph, \
                 pool=first.pool()), if the graphs are replayed in the order of their capture, one at a time.",
                self.pools,
                ByteSize(bytes)
            )?;
        }
        if self.is_gain(self.primed_peak_reserved_bytes) {
            writeln!(
                f,
                "Graphs: pools that begin with one segment of their size, {} instead of {before}, replayed: allocate \
                 and free that much first in the capture (torch.compile: cudagraph_initial_mempool_allocation_gb).",
                ByteSize(self.primed_peak_reserved_bytes)
            )?;
        }
        Ok(())
    }
}

/// The pools of graphs that are captured in these records, with the most bytes of large blocks that each holds.
fn captured(records: &[Record]) -> BTreeMap<PoolId, u64> {
    let mut pools = BTreeMap::new();
    let mut live: HashMap<PoolId, (u64, u64)> = HashMap::new();
    let mut blocks: HashMap<Addr, PoolId> = HashMap::new();
    for record in records {
        match record.event {
            Event::PoolBegin { pool, filter: ScopeFilter::Capture }
            | Event::CaptureBegin { pool } => {
                pools.insert(pool, 0);
            }
            Event::Alloc { addr, size_bytes, pool, .. }
                if pool != PoolId::DEFAULT && !allocator::size::is_small(size_bytes) =>
            {
                let (now, most) = live.entry(pool).or_default();
                *now += size_bytes;
                *most = (*most).max(*now);
                blocks.insert(addr, pool);
            }
            Event::Free { addr, size_bytes, pending: false, .. }
            | Event::FreeCompleted { addr, size_bytes, .. } => {
                if let Some(pool) = blocks.remove(&addr) {
                    live.entry(pool).or_default().0 -= size_bytes;
                }
            }
            _ => {}
        }
    }
    for (pool, bytes) in &mut pools {
        *bytes = live.get(pool).map_or(0, |(_, most)| most.next_multiple_of(SEGMENT_BYTES));
    }
    pools
}

/// The records with a block of each pool's size that is allocated and freed before its first large one.
fn primed(records: &[Record], pools: &BTreeMap<PoolId, u64>) -> Vec<Record> {
    // A name that no other block has: addresses of blocks are aligned.
    const NAME: Addr = Addr(1);
    let mut waiting = pools.clone();
    let mut primed = Vec::with_capacity(records.len() + 2 * pools.len());
    for record in records {
        if let Event::Alloc { size_bytes, stream, pool, .. } = record.event
            && !allocator::size::is_small(size_bytes)
            && let Some(bytes) = waiting.remove(&pool)
        {
            let (addr, requested_bytes, size_bytes) = (NAME, bytes, bytes);
            let alloc = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
            let free = Event::Free { addr, requested_bytes, size_bytes, pending: false };
            primed.extend([alloc, free].map(|event| Record { event, ..*record }));
        }
        primed.push(*record);
    }
    primed
}

/// The pools of graphs that are captured within a run, and the one that all of them share. A pool with a source of
/// segments of its own is not among them.
pub(crate) struct SharedPool {
    shared: PoolId,
    others: HashSet<PoolId>,
}

impl SharedPool {
    /// The pools of graphs that are captured in these records; `None` where there are not at least two.
    pub(crate) fn of(records: &[Record]) -> Option<Self> {
        let mut with_source = HashSet::new();
        let (mut shared, mut others) = (None, HashSet::new());
        for record in records {
            match record.event {
                Event::PoolCreate { pool, own_source: true } => {
                    with_source.insert(pool);
                }
                Event::PoolBegin { pool, filter: ScopeFilter::Capture }
                | Event::CaptureBegin { pool }
                    if !with_source.contains(&pool) =>
                {
                    let shared = *shared.get_or_insert(pool);
                    if pool != shared {
                        others.insert(pool);
                    }
                }
                _ => {}
            }
        }
        shared.filter(|_| !others.is_empty()).map(|shared| Self { shared, others })
    }

    /// How many pools are one.
    pub(crate) fn pools(&self) -> usize {
        self.others.len() + 1
    }

    /// A record in which every graph uses the shared pool; `None` where it creates another.
    pub(crate) fn applied(&self, record: &Record) -> Option<Record> {
        let mut event = record.event;
        let (Event::Alloc { pool, .. }
        | Event::Oom { pool, .. }
        | Event::EmptyCache { pool, .. }
        | Event::PoolCreate { pool, .. }
        | Event::PoolBegin { pool, .. }
        | Event::PoolEnd { pool }
        | Event::PoolRelease { pool }
        | Event::PoolUseOnOom { pool, .. }
        | Event::PoolNoSplit { pool }
        | Event::CaptureBegin { pool }
        | Event::CaptureEnd { pool }) = &mut event
        else {
            return Some(*record);
        };
        if self.others.contains(pool) {
            *pool = self.shared;
            if matches!(event, Event::PoolCreate { .. }) {
                return None;
            }
        }
        Some(Record { event, ..*record })
    }
}
