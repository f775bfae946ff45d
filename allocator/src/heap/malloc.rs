//! Requests, and the calls around the hot path: a request that misses goes on here.

use events::{Addr, PoolId, StackId, Stream};

use super::{AllocError, Heap};
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

/// A request that the cache cannot serve.
#[derive(Debug)]
pub struct Miss(pub(super) Request);

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

    /// Serves a missed request from the cache, for callers that freed something in between.
    ///
    /// # Errors
    /// The miss itself, when the cache still has nothing that fits.
    pub fn malloc_again(&mut self, miss: Miss) -> Result<Addr, Miss> {
        self.stack = miss.0.stack;
        let params = self.params(&miss.0, false);
        if params.stitched {
            return self.place_stitched(&params).ok_or(miss);
        }
        match self.search(&params) {
            Some(candidate) => Ok(self.serve(candidate, &params, None)),
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
        let mut params = self.params(&request, in_capture);
        self.collect_garbage()?;
        if params.stitched {
            let grown = self.grow_stitched(&mut params)?;
            return grown.map_or_else(|| Err(self.out_of_memory(&params)?), Ok);
        }
        match self.grow(&mut params)? {
            Some(candidate) => Ok(self.serve(candidate, &params, None)),
            None => Err(self.out_of_memory(&params)?),
        }
    }
}
