//! PyTorch's `DeviceCachingAllocator` once more, as naively as it can be written: one vector of blocks, every question
//! a scan over all of them. It shares types with the core, and no code.

mod books;
mod expandable;
mod pools;
mod segments;
mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use allocator::config::{Compat, Config};
use allocator::device::sim::SimDevice;
use allocator::device::{Device, EventId, GraphNode, PhysicalHandle};
use allocator::heap::{AllocError, HeapError, OomReport};
use trace_format::{Addr, DeviceId, PoolId, ScopeFilter, Stream};

use crate::support::Source;
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
    source: Option<Arc<Mutex<Source>>>,
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
        device.exchange_capture_mode(allocator::device::CaptureMode::Relaxed).expect("a mode");
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
        self.allowed = (fraction < 1.0).then_some((fraction * self.total as f64) as u64);
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
        if size >= self.config.max_split_size_bytes && self.config.max_split_size_bytes != NO_LIMIT
        {
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

    /// `round_size`, by trying.
    fn round(&self, requested: u64) -> u64 {
        let mut interval = 0;
        while interval < 15 && requested >= 2 << (20 + interval) {
            interval += 1;
        }
        let divisions = self.config.roundup_power2_divisions[interval];
        if requested >= 512 && divisions > 1 && requested > 512 * divisions {
            let mut floor = 1;
            while floor * 2 <= requested {
                floor *= 2;
            }
            let step = floor / divisions;
            return (0..=divisions)
                .map(|n| floor + n * step)
                .find(|size| *size >= requested)
                .unwrap();
        }
        requested.div_ceil(512).max(1) * 512
    }

    fn alloc_size(&self, size: u64) -> u64 {
        if size <= MIB {
            2 * MIB
        } else if size < 10 * MIB {
            self.config.large_segment_size_bytes
        } else {
            size.div_ceil(2 * MIB) * 2 * MIB
        }
    }

    fn idle(&self, at: usize) -> bool {
        let block = &self.blocks[at];
        !block.allocated && block.uses.is_empty() && block.events == 0
    }

    fn at(&self, addr: u64) -> usize {
        self.blocks.iter().position(|block| block.addr == addr).expect("a block")
    }

    fn prev(&self, at: usize) -> Option<usize> {
        let me = &self.blocks[at];
        self.blocks.iter().position(|b| b.segment == me.segment && b.addr + b.size == me.addr)
    }

    fn next(&self, at: usize) -> Option<usize> {
        let me = &self.blocks[at];
        self.blocks.iter().position(|b| b.segment == me.segment && b.addr == me.addr + me.size)
    }

    fn split(&self, at: usize) -> bool {
        self.prev(at).is_some() || self.next(at).is_some()
    }

    /// The free blocks of a pool and stream, smallest first; of equal ones 2.11 prefers the lower address, 2.15 the
    /// older segment.
    fn free_blocks(&self, pool: PoolId, small: bool, stream: Option<Stream>) -> Vec<usize> {
        let mut free: Vec<usize> = (0..self.blocks.len())
            .filter(|&at| {
                let block = &self.blocks[at];
                (block.pool, block.small) == (pool, small)
                    && block.mapped
                    && self.idle(at)
                    && stream.is_none_or(|stream| block.stream == stream)
            })
            .collect();
        free.sort_by_key(|&at| {
            let block = &self.blocks[at];
            let age = if self.is_2_11() { 0 } else { block.segment };
            (block.stream, block.size, age, block.addr)
        });
        free
    }

    /// `get_free_block`: the address of the chosen block.
    fn free_block_for(&mut self, want: &Want) -> Option<u64> {
        if self.allowed.is_some() && self.config.garbage_collection_threshold > 0.0 {
            *self.searches.entry((want.pool, want.small)).or_default() += 1;
        }
        let mut fits = self.free_blocks(want.pool, want.small, Some(want.stream));
        fits.retain(|&at| self.blocks[at].size >= want.size);
        if !want.expandable {
            fits.retain(|&at| self.blocks[at].range.is_none());
        }
        let growable = |at: usize| {
            let next = self.next(at).filter(|&next| !self.blocks[next].mapped);
            self.blocks[at].size + next.map_or(0, |next| self.blocks[next].size)
        };
        let mut chosen = *fits.first()?;
        for &other in &fits[1..] {
            if self.blocks[chosen].range.is_none() || growable(other) >= growable(chosen) {
                break;
            }
            chosen = other;
        }
        let limit = self.config.max_split_size_bytes;
        let found = self.blocks[chosen].size;
        if want.size < limit && found >= limit {
            return None;
        }
        if want.size >= limit && found >= want.size + self.config.max_non_split_rounding_bytes {
            return None;
        }
        Some(self.blocks[chosen].addr)
    }

    /// `should_split` and `alloc_found_block`.
    fn hand_out(&mut self, addr: u64, want: &Want) -> Addr {
        let at = self.at(addr);
        let rest = self.blocks[at].size - want.size;
        let splits = if self.no_split.contains(&want.pool) {
            false
        } else if want.small || want.expandable {
            rest >= 512
        } else {
            want.size < self.config.max_split_size_bytes && rest > MIB
        };
        if splits {
            let front = Block { size: want.size, ..self.blocks[at].clone() };
            self.blocks[at].addr += want.size;
            self.blocks[at].size = rest;
            self.blocks[at].born = self.searches_of(want.pool, want.small);
            self.blocks.push(front);
        }
        let at = self.at(addr);
        self.blocks[at].allocated = true;
        self.blocks[at].requested = want.requested;
        let size = self.blocks[at].size;
        self.recount_inactive();
        for (name, amount) in [
            ("allocation", 1),
            ("allocated_bytes", size),
            ("active", 1),
            ("active_bytes", size),
            ("requested_bytes", want.requested),
        ] {
            self.books.increase(name, want.small, amount);
        }
        if size >= self.config.max_split_size_bytes && self.config.max_split_size_bytes != NO_LIMIT
        {
            self.books.increase_plain("oversize_allocations", 1);
        }
        Addr(addr)
    }

    /// `free_block`.
    fn free_completed(&mut self, addr: u64) {
        let at = self.at(addr);
        let Block { size, requested, small, .. } = self.blocks[at];
        self.become_free(at);
        self.recount_inactive();
        self.books.decrease("active", small, 1);
        self.books.decrease("active_bytes", small, size);
        self.books.decrease("requested_bytes", small, requested);
    }

    /// Merges a block with its idle neighbours of the same kind; its age starts anew.
    fn become_free(&mut self, at: usize) {
        let mut me = self.blocks[at].clone();
        let neighbours: Vec<usize> = [self.prev(at), self.next(at)]
            .into_iter()
            .flatten()
            .filter(|&other| self.idle(other) && self.blocks[other].mapped == me.mapped)
            .collect();
        for &other in &neighbours {
            me.addr = me.addr.min(self.blocks[other].addr);
            me.size += self.blocks[other].size;
        }
        me.born = self.searches_of(me.pool, me.small);
        self.blocks[at] = me;
        let mut gone = neighbours;
        gone.sort_unstable();
        for other in gone.into_iter().rev() {
            self.blocks.remove(other);
        }
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
            segment_bytes: want.alloc_size,
            device_total_bytes: memory.total_bytes,
            device_free_bytes: memory.free_bytes,
            allowed_bytes: self.allowed,
            allocated_bytes,
            private_cached_bytes: cached.map(|at| self.blocks[at].size).sum(),
            reserved_bytes: self.reserved(),
        })))
    }

    fn reserved(&self) -> u64 {
        self.blocks.iter().filter(|block| block.mapped).map(|block| block.size).sum()
    }

    fn is_2_11(&self) -> bool {
        self.config.compat == Compat::V2_11
    }
}
