//! PyTorch's `DeviceCachingAllocator` once more, as naively as it can be written: one vector of blocks, every question
//! a scan over all of them. It shares types with the core, and no code.

mod blocks;
mod books;
mod expandable;
mod pools;
mod search;
mod segments;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use allocator::heap::{AllocError, HeapError, OomReport};
use device::{Device, EventId, GraphNode, PhysicalHandle};
use settings::{Compat, Config};
use sim_device::SimDevice;
use trace_format::{Addr, DeviceId, PoolId, ScopeFilter, Stream};

use crate::support::SharedSource;
use books::Books;

pub(crate) const MIB: u64 = 1 << 20;
const NO_LIMIT: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Block {
    addr: u64,
    size: u64,
    requested: u64,
    stream: Stream,
    pool: PoolId,
    small: bool,
    /// Blocks with the same number are of one segment.
    segment: usize,
    /// Index of the expandable segment's range.
    range: Option<usize>,
    allocated: bool,
    mapped: bool,
    uses: Vec<Stream>,
    captured_uses: Vec<Stream>,
    events: usize,
    /// The pool's search count when it became free.
    born: u64,
}

struct Range {
    base: u64,
    page: u64,
    stream: Stream,
    handles: Vec<Option<PhysicalHandle>>,
}

struct Pool {
    id: PoolId,
    users: u32,
    source: Option<Arc<SharedSource>>,
}

struct Scope {
    pool: PoolId,
    kind: ScopeFilter,
    streams: Vec<Stream>,
}

/// What is wanted (`AllocParams`).
#[derive(Clone, Copy)]
struct Want {
    requested: u64,
    size: u64,
    alloc_size: u64,
    stream: Stream,
    pool: PoolId,
    small: bool,
    expandable: bool,
}

pub(crate) struct Reference {
    pub(crate) device: SimDevice,
    pub(crate) config: Config,
    books: Books,
    blocks: Vec<Block>,
    segments: usize,
    ranges: Vec<Option<Range>>,
    pools: Vec<Pool>,
    scopes: Vec<Scope>,
    use_on_oom: Vec<PoolId>,
    no_split: Vec<PoolId>,
    searches: BTreeMap<(PoolId, bool), u64>,
    /// Events in the order in which they were recorded.
    events: Vec<(Stream, EventId, u64)>,
    /// Streams in the order of their first event: the order in which frees complete, where PyTorch's hash map has none.
    event_streams: Vec<Stream>,
    deferred: Vec<(u64, Vec<GraphNode>)>,
    peers: Vec<DeviceId>,
    total: u64,
    allowed: Option<u64>,
}

impl Reference {
    pub(crate) fn new(mut device: SimDevice, config: Config) -> Self {
        let total = device.memory_info().expect("the device answers").total_bytes;
        // It need not know when a call is unsafe during a capture.
        device.exchange_capture_mode(device::CaptureMode::Relaxed).expect("a mode");
        let mut reference = Self {
            device,
            books: Books::new(&config),
            config,
            blocks: Vec::new(),
            segments: 0,
            ranges: Vec::new(),
            pools: Vec::new(),
            scopes: Vec::new(),
            use_on_oom: Vec::new(),
            no_split: Vec::new(),
            searches: BTreeMap::new(),
            events: Vec::new(),
            event_streams: Vec::new(),
            deferred: Vec::new(),
            peers: Vec::new(),
            total,
            allowed: None,
        };
        reference.set_fraction(reference.config.per_process_memory_fraction);
        reference
    }

    pub(crate) fn set_fraction(&mut self, fraction: f64) {
        let share = fraction * self.total as f64;
        let share = if self.is_2_11() { share.floor() } else { share.round() };
        self.allowed = (fraction < 1.0).then_some(share as u64);
    }

    pub(crate) fn live(&self) -> usize {
        self.blocks.iter().filter(|block| block.allocated).count()
    }

    pub(crate) fn malloc(
        &mut self,
        requested: u64,
        stream: Stream,
        pool: Option<PoolId>,
    ) -> Result<Addr, AllocError> {
        let capturing = self.capturing(stream, pool)?;
        if !capturing {
            self.process_events()?;
        } else if self.config.graph_capture_record_stream_reuse {
            self.free_safe_blocks(stream)?;
        }
        let size = self.round(requested);
        let chosen = self.pool_for(stream, pool);
        let mut want = Want {
            requested,
            size,
            alloc_size: self.alloc_size(size),
            stream,
            pool: chosen,
            small: size <= MIB,
            expandable: self.config.expandable_segments && self.source_of(chosen).is_none(),
        };
        let mut found = self.free_block_for(&want);
        if found.is_none() {
            self.collect_garbage()?;
            found = self.alloc_block(&want, false)?;
        }
        if found.is_none() && want.pool == PoolId::DEFAULT {
            for lender in self.use_on_oom.clone() {
                let borrowed = Want { pool: lender, expandable: false, ..want };
                if found.is_none() && self.pools.iter().any(|pool| pool.id == lender) {
                    found = self.free_block_for(&borrowed);
                    want = if found.is_some() { borrowed } else { want };
                }
            }
        }
        if found.is_none() && self.release_available(&want)? {
            found = self.alloc_block(&want, false)?;
        }
        if found.is_none() && !capturing {
            self.release_cached(PoolId::DEFAULT, Some(want.pool))?;
            found = self.alloc_block(&want, true)?;
            if found.is_none() && self.config.search_after_flush {
                found = self.free_block_for(&want);
            }
        }
        // PyTorch keeps ranges that never got a page.
        self.give_up_empty_ranges()?;
        match found {
            Some(addr) => Ok(self.hand_out(addr, &want)),
            None => Err(self.out_of_memory(&want)?),
        }
    }

    pub(crate) fn free(&mut self, addr: Addr) -> Result<(), AllocError> {
        let at = self.allocated_at(addr)?;
        self.blocks[at].allocated = false;
        let Block { size, small, .. } = self.blocks[at];
        self.books.decrease("allocation", small, 1);
        self.books.decrease("allocated_bytes", small, size);
        if self.oversize(size) {
            self.books.decrease_plain("oversize_allocations", 1);
        }
        if self.blocks[at].uses.is_empty() {
            self.free_completed(addr.0);
            return Ok(());
        }
        self.wait_for_uses(addr.0)?;
        Ok(())
    }

    fn allocated_at(&self, addr: Addr) -> Result<usize, HeapError> {
        let at = self.blocks.iter().position(|block| block.addr == addr.0 && block.allocated);
        at.ok_or(HeapError::UnknownPointer { addr })
    }

    fn searches_of(&self, pool: PoolId, small: bool) -> u64 {
        self.searches.get(&(pool, small)).copied().unwrap_or(0)
    }

    fn out_of_memory(&mut self, want: &Want) -> Result<AllocError, AllocError> {
        let memory = self.device.memory_info()?;
        self.books.count("num_ooms");
        let allocated_bytes = self.books.current("allocated_bytes");
        let cached = (0..self.blocks.len()).filter(|&at| {
            !self.blocks[at].pool.is_default() && self.blocks[at].mapped && self.idle(at)
        });
        Ok(AllocError::OutOfMemory(Box::new(OomReport {
            device: self.device.id(),
            requested_bytes: want.requested,
            stream: want.stream,
            pool: want.pool,
            segment_bytes: want.alloc_size,
            device_total_bytes: memory.total_bytes,
            device_free_bytes: memory.free_bytes,
            processes: Vec::new(),
            allowed_bytes: self.allowed,
            allocated_bytes,
            private_cached_bytes: cached.map(|at| self.blocks[at].size).sum(),
            reserved_bytes: self.reserved(),
            exceeded_reserve_bytes: None,
        })))
    }

    fn reserved(&self) -> u64 {
        self.blocks.iter().filter(|block| block.mapped).map(|block| block.size).sum()
    }

    fn is_2_11(&self) -> bool {
        self.config.compat == Compat::V2_11
    }
}
