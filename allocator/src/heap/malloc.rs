//! One allocation, from the request to the address.

use trace_format::{Addr, Event, PoolId, StackId, Stream};

use super::{AllocError, Heap};
use crate::block::{Block, BlockId};
use crate::device::Device;
use crate::pool::{PoolIndex, Pools};
use crate::record::Recorder;
use crate::size;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes, not rounded; more than zero.
    pub requested_bytes: u64,
    /// The stream that may use the memory without further ado.
    pub stream: Stream,
    /// How the pool is found.
    pub pool: PoolChoice,
    /// The caller's stack.
    pub stack: StackId,
}

/// How the pool of a request is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolChoice {
    /// The newest open scope whose filter takes the stream, else the default pool: a live allocator's way.
    ByScope,
    /// This pool, as a tape recorded it; the default pool where it does not exist.
    Exactly(PoolId),
}

/// A request that the cache cannot serve.
#[derive(Debug)]
pub struct Miss(Request);

/// A request after rounding (`AllocParams`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) requested_bytes: u64,
    pub(super) size_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) stream: Stream,
    pub(super) pool: PoolIndex,
    /// Whether this request may be served from, and grow, expandable segments.
    pub(super) expandable: bool,
    /// Whether a real graph capture holds back whatever waits or frees.
    pub(super) in_capture: bool,
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Memory of at least the requested size, or why not.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] after everything that could be released was; [`AllocError::Device`] when the device
    /// failed in another way. The heap stays consistent in both.
    pub fn malloc(&mut self, request: &Request) -> Result<Addr, AllocError> {
        match self.malloc_cached(request)? {
            Ok(addr) => Ok(addr),
            Err(miss) => self.malloc_growing(miss),
        }
    }

    /// Serves the request from the cache. A miss goes on with [`malloc_growing`](Self::malloc_growing); a caller that
    /// has free-memory callbacks runs them in between, without the lock.
    ///
    /// # Errors
    /// When the device fails.
    pub fn malloc_cached(&mut self, request: &Request) -> Result<Result<Addr, Miss>, AllocError> {
        assert!(request.requested_bytes > 0, "an allocation has a size");
        self.stack = request.stack;
        if request.requested_bytes >= size::MAX_REQUEST_BYTES {
            return Err(AllocError::TooLarge { requested_bytes: request.requested_bytes });
        }
        let in_capture = self.in_capture(request.pool, request.stream)?;
        if !in_capture {
            self.process_events()?;
        } else if self.config.graph_capture_record_stream_reuse {
            self.free_safe_blocks_in_capture(request.stream)?;
        }
        let want = self.want(request, in_capture);
        Ok(match self.take_best_fit(&want) {
            Some(block) => Ok(self.hand_out(block, &want)),
            None => Err(Miss(*request)),
        })
    }

    /// Serves a missed request from the cache, for callers that freed something in between.
    ///
    /// # Errors
    /// The miss itself, when the cache still has nothing that fits.
    pub fn malloc_again(&mut self, miss: Miss) -> Result<Addr, Miss> {
        self.stack = miss.0.stack;
        let want = self.want(&miss.0, false);
        match self.take_best_fit(&want) {
            Some(block) => Ok(self.hand_out(block, &want)),
            None => Err(miss),
        }
    }

    /// Serves a missed request by growing the heap, releasing cached memory where that is needed.
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc).
    #[allow(clippy::needless_pass_by_value, reason = "a miss is served once")]
    pub fn malloc_growing(&mut self, miss: Miss) -> Result<Addr, AllocError> {
        let request = miss.0;
        self.stack = request.stack;
        let in_capture = self.in_capture(request.pool, request.stream)?;
        let mut want = self.want(&request, in_capture);
        self.collect_garbage()?;
        match self.grow(&mut want)? {
            Some(block) => Ok(self.hand_out(block, &want)),
            None => Err(self.out_of_memory(&want)?),
        }
    }

    pub(super) fn want(&self, request: &Request, in_capture: bool) -> Want {
        let size_bytes = size::round(request.requested_bytes, &self.config);
        let private = self.private_pool_for(request.pool, request.stream);
        let own_source = private.is_some_and(|slot| self.pools.get(slot).source.is_some());
        Want {
            requested_bytes: request.requested_bytes,
            size_bytes,
            segment_bytes: size::segment_bytes(size_bytes, &self.config),
            stream: request.stream,
            pool: Pools::index(private, size::is_small(size_bytes)),
            expandable: self.config.expandable_segments && !own_source,
            in_capture,
        }
    }

    /// Makes a free block, out of its pool's list, the caller's: splits, counts, records (`alloc_found_block`).
    pub(super) fn hand_out(&mut self, found: BlockId, want: &Want) -> Addr {
        let is_small = want.pool.is_small();
        let was_split = self.blocks[found].is_split();
        let counts_inactive = self.blocks[found].range.is_none();
        let id = if self.should_split(found, want) {
            let (front, rest_bytes) = self.split_front(found, want);
            if was_split && counts_inactive {
                self.stats.inactive_split_bytes.decrease(is_small, want.size_bytes as i64);
            } else if counts_inactive {
                self.stats.inactive_split_bytes.increase(is_small, rest_bytes as i64);
                self.stats.inactive_split.increase(is_small, 1);
            }
            front
        } else {
            if was_split && counts_inactive {
                let size_bytes = self.blocks[found].size_bytes as i64;
                self.stats.inactive_split_bytes.decrease(is_small, size_bytes);
                self.stats.inactive_split.decrease(is_small, 1);
            }
            found
        };

        let block = &mut self.blocks[id];
        block.allocated = true;
        block.requested_bytes = want.requested_bytes;
        block.stack = self.stack;
        let (addr, size_bytes) = (block.addr, block.size_bytes);
        let previous = self.allocated.insert(addr.0, id);
        assert!(previous.is_none(), "an address is handed out once");

        self.stats.on_alloc(is_small, size_bytes, want.requested_bytes);
        if self.is_oversize(size_bytes) {
            self.stats.oversize_allocations.increase(1);
        }
        let event = Event::Alloc {
            addr,
            requested_bytes: want.requested_bytes,
            size_bytes,
            stream: want.stream,
            pool: self.pools.id_of(want.pool),
        };
        self.record_block(id, event);
        addr
    }

    /// Cuts the wanted size off the front of a block; the rest stays a free block. Returns the front and the rest's
    /// size.
    fn split_front(&mut self, rest: BlockId, want: &Want) -> (BlockId, u64) {
        let front = Block {
            prev: self.blocks[rest].prev,
            next: Some(rest),
            range: self.blocks[rest].range,
            segment_rank: self.blocks[rest].segment_rank,
            segment_stack: self.blocks[rest].segment_stack,
            ..Block::new(self.blocks[rest].addr, want.size_bytes, want.stream, want.pool)
        };
        let front = self.blocks.insert_linked(front);
        let block = &mut self.blocks[rest];
        block.addr.0 += want.size_bytes;
        block.size_bytes -= want.size_bytes;
        let rest_bytes = block.size_bytes;
        self.put_free(rest);
        (front, rest_bytes)
    }

    /// Enters a block into its pool's free list, its age starting anew.
    pub(super) fn put_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool];
        block.search_count_at_free = pool.search_count;
        pool.free.insert(block.stream, block.entry(id));
    }

    /// Takes a block out of its pool's free list.
    pub(super) fn take_free(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        self.pools[block.pool].free.remove(block.stream, block.entry(id));
    }
}
