//! One allocation, from the request to the address.

use events::{Addr, Event, PoolId, StackId, Stream};

use super::{AllocError, Heap};
use crate::block::BlockId;
use crate::lane::Place;
use crate::pool::{PoolIndex, Pools};
use crate::size;
use device::Device;
use events::Recorder;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes, not rounded; more than zero.
    pub requested_bytes: u64,
    /// The stream that may use the memory without synchronization.
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

/// Functions of the hot path that others call too exist twice, so that the hot copy has one caller: the compiler then
/// inlines it, however it divides the crate.
pub(super) const HOT: bool = true;
/// The copy of all other callers.
pub(super) const COLD: bool = false;

/// A request that the cache cannot serve.
#[derive(Debug)]
pub struct Miss(Request);

/// A free block that serves a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) id: BlockId,
    pub(super) size_bytes: u64,
    /// Its place in the free list of the wanted pool; `None` for a new segment, which is in no list.
    pub(super) place: Option<Place>,
}

/// A request after rounding (`AllocParams`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) requested_bytes: u64,
    pub(super) size_bytes: u64,
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
    #[inline]
    pub fn malloc_cached(&mut self, request: &Request) -> Result<Result<Addr, Miss>, AllocError> {
        assert!(request.requested_bytes > 0, "an allocation has a size");
        self.stack = request.stack;
        if request.requested_bytes >= size::MAX_REQUEST_BYTES {
            return Err(AllocError::TooLarge { requested_bytes: request.requested_bytes });
        }
        let in_capture = self.in_capture(request.pool, request.stream)?;
        if in_capture {
            if self.config.graph_capture_record_stream_reuse {
                self.free_safe_blocks_in_capture(request.stream)?;
            }
        } else if self.pending.awaits_streams() {
            self.process_events()?;
        }
        let want = self.want::<HOT>(request, in_capture);
        Ok(match self.best_fit::<HOT>(&want) {
            Some(block) => Ok(self.hand_out::<HOT>(block, &want)),
            None => Err(Miss(*request)),
        })
    }

    /// Serves a missed request from the cache, for callers that freed something in between.
    ///
    /// # Errors
    /// The miss itself, when the cache still has nothing that fits.
    pub fn malloc_again(&mut self, miss: Miss) -> Result<Addr, Miss> {
        self.stack = miss.0.stack;
        let want = self.want::<COLD>(&miss.0, false);
        match self.best_fit::<COLD>(&want) {
            Some(block) => Ok(self.hand_out::<COLD>(block, &want)),
            None => Err(miss),
        }
    }

    /// Serves a missed request by growing the heap, releasing cached memory where that is needed.
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc).
    #[cold]
    #[allow(clippy::needless_pass_by_value, reason = "a miss is served once")]
    pub fn malloc_growing(&mut self, miss: Miss) -> Result<Addr, AllocError> {
        let request = miss.0;
        self.stack = request.stack;
        let in_capture = self.in_capture(request.pool, request.stream)?;
        let mut want = self.want::<COLD>(&request, in_capture);
        self.collect_garbage()?;
        match self.grow(&mut want)? {
            Some(block) => Ok(self.hand_out::<COLD>(block, &want)),
            None => Err(self.out_of_memory(&want)?),
        }
    }

    #[inline]
    pub(super) fn want<const COPY: bool>(&self, request: &Request, in_capture: bool) -> Want {
        let size_bytes = size::round(request.requested_bytes, &self.config);
        let private = self.private_pool_for(request.pool, request.stream);
        let own_source = private.is_some_and(|slot| self.pools.get(slot).source.is_some());
        Want {
            requested_bytes: request.requested_bytes,
            size_bytes,
            stream: request.stream,
            pool: Pools::index(private, size::is_small(size_bytes)),
            expandable: self.config.expandable_segments && !own_source,
            in_capture,
        }
    }

    /// Makes a free block the caller's: splits, counts, records (`alloc_found_block`).
    #[inline]
    pub(super) fn hand_out<const COPY: bool>(&mut self, found: Found, want: &Want) -> Addr {
        let rest_bytes = found.size_bytes - want.size_bytes;
        self.hand_out_part::<COPY>(found, want, self.should_split(rest_bytes, want))
    }

    /// The same with the split decided: the block's front, or all of it.
    #[inline]
    pub(super) fn hand_out_part<const COPY: bool>(
        &mut self,
        found: Found,
        want: &Want,
        splits: bool,
    ) -> Addr {
        let is_small = want.pool.is_small();
        let block = &self.blocks[found.id];
        let (was_split, counts_inactive) = (block.is_split(), block.range.is_none());
        let addr = block.addr;
        let rest_bytes = found.size_bytes - want.size_bytes;
        let (id, size_bytes) = if splits {
            if counts_inactive && was_split {
                self.stats.on_inactive_split(is_small, (0, 0), (0, want.size_bytes));
            } else if counts_inactive {
                self.stats.on_inactive_split(is_small, (1, 0), (rest_bytes, 0));
            }
            (self.split_front::<COPY>(found, want), want.size_bytes)
        } else {
            if counts_inactive && was_split {
                self.stats.on_inactive_split(is_small, (0, 1), (0, found.size_bytes));
            }
            let block = &mut self.blocks[found.id];
            block.allocated = true;
            block.requested_bytes = want.requested_bytes;
            block.stack = self.stack;
            if let Some(place) = found.place {
                self.pools[block.lane].take(place);
            }
            (found.id, found.size_bytes)
        };
        self.allocated.insert(&self.blocks, addr, id);

        self.stats.on_alloc(is_small, size_bytes, want.requested_bytes);
        if self.is_oversize(size_bytes) {
            self.stats.rare.oversize_allocations.increase(1);
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

    /// Cuts the wanted size off the front of a block; the rest keeps its place as a free block, if the order allows.
    #[inline]
    fn split_front<const COPY: bool>(&mut self, found: Found, want: &Want) -> BlockId {
        let handed = (want.requested_bytes, self.stack);
        let search_count = self.pools[want.pool].search_count as u32;
        let front = self.blocks.split(found.id, want.size_bytes, handed, search_count);
        let lane = &mut self.pools[self.blocks[found.id].lane];
        match found.place {
            Some(place) => lane.settle(&self.blocks, place, found.id),
            None => lane.insert(&self.blocks, found.id),
        }
        front
    }

    /// Enters a block into its pool's free list, its age starting anew.
    #[inline]
    pub(super) fn put_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let pool = self.pools[block.lane].pool;
        block.search_count_at_free = self.pools[pool].search_count as u32;
        self.pools[block.lane].insert(&self.blocks, id);
    }

    /// Takes a block out of its pool's free list.
    pub(super) fn take_free(&mut self, id: BlockId) {
        self.pools[self.blocks[id].lane].remove(&self.blocks, id);
    }
}
