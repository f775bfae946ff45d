//! A heap that threads share: one lock, and nothing process-wide.
#![forbid(unsafe_code)]

mod lock;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator::heap::{AllocError, Heap, Miss, Request};
use crossbeam_utils::CachePadded;
use device::Device;
use events::{Addr, BaseState, BlockState, Recorder, StackId};
pub use lock::Guard;
use lock::{Lock, Poisoned};
use recorder::{AnyRecorder, StateView};
use spin::mutex::SpinMutexGuard;

/// Frees memory that others hold on to when the pool has none; true if it freed any (`FreeMemoryCallback`).
pub type FreeMemoryCallback = Box<dyn Fn() -> bool + Send + Sync>;

/// A [`Heap`] behind a lock. Padded, so that two devices' heaps never meet on a cache line, nor on the pair of lines
/// that a processor fetches together.
pub struct SharedHeap<D, R> {
    heap: CachePadded<Lock<Heap<D, R>>>,
    callbacks: Mutex<Vec<Arc<FreeMemoryCallback>>>,
    has_callbacks: AtomicBool,
}

impl<D: Device, R: Recorder> SharedHeap<D, R> {
    /// Shares a heap.
    pub fn new(heap: Heap<D, R>) -> Self {
        Self {
            heap: CachePadded::new(Lock::new(heap)),
            callbacks: Mutex::new(Vec::new()),
            has_callbacks: AtomicBool::new(false),
        }
    }

    /// The heap, locked.
    ///
    /// # Errors
    /// When an earlier call panicked in the middle of a change.
    pub fn lock(&self) -> Result<Guard<'_, Heap<D, R>>, AllocError> {
        Ok(self.heap.lock()?)
    }

    /// As [`Heap::malloc`]; on a pool miss the free-memory callbacks run first, without the lock, since they may free.
    ///
    /// # Errors
    /// As [`Heap::malloc`].
    #[inline]
    pub fn malloc(&self, request: &Request) -> Result<Addr, AllocError> {
        let served = self.heap.with(|heap| match heap.malloc_cached(request)? {
            Err(miss) if !self.has_callbacks.load(Ordering::Acquire) => {
                heap.malloc_growing(miss).map(Ok)
            }
            served => Ok(served),
        });
        served?.or_else(|miss| self.malloc_after_callbacks(miss))
    }

    #[cold]
    fn malloc_after_callbacks(&self, mut miss: Miss) -> Result<Addr, AllocError> {
        let freed = self.run_callbacks();
        let mut heap = self.lock()?;
        if freed {
            miss = match heap.malloc_again(miss) {
                Ok(addr) => return Ok(addr),
                Err(miss) => miss,
            };
        }
        heap.malloc_growing(miss)
    }

    /// As [`Heap::free`].
    ///
    /// # Errors
    /// As [`Heap::free`].
    #[allow(clippy::inline_always, reason = "it has two callers, and would be called")]
    #[inline(always)]
    pub fn free(&self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        self.heap.with(|heap| heap.free(addr, stack))
    }

    /// Holds the heap and its callbacks still, so that a fork in between finds both whole.
    pub fn freeze(&self) -> Frozen<'_, D, R> {
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock stays poisoned where a panic left the heap in the middle of a change.
        let heap = self.heap.lock_ignoring_poison();
        Frozen { heap, _callbacks: callbacks }
    }

    /// Adds a callback that every later pool miss runs. It may call this heap.
    pub fn on_miss(&self, callback: FreeMemoryCallback) {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(callback));
        self.has_callbacks.store(true, Ordering::Release);
    }

    fn run_callbacks(&self) -> bool {
        // A callback may allocate, miss and come here again: the list is not locked while they run.
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        callbacks.iter().fold(false, |freed, callback| callback() | freed)
    }
}

/// Exclusive access to a heap while this lives ([`SharedHeap::freeze`]).
pub struct Frozen<'a, D, R> {
    heap: SpinMutexGuard<'a, Heap<D, R>>,
    _callbacks: MutexGuard<'a, Vec<Arc<FreeMemoryCallback>>>,
}

impl<D: Device, R: Recorder> Frozen<'_, D, R> {
    /// The heap's recorder.
    pub fn recorder_mut(&mut self) -> &mut R {
        self.heap.recorder_mut()
    }
}

impl From<Poisoned> for AllocError {
    fn from(_: Poisoned) -> Self {
        Self::Broken
    }
}

impl<D: Device> StateView for Guard<'_, Heap<D, AnyRecorder>> {
    fn live_blocks_from(&self, place: u64, max: usize, into: &mut Vec<BlockState>) -> Option<u64> {
        Heap::live_blocks_from(self, place as usize, max, into).map(|place| place as u64)
    }

    fn base_without_memory(&self) -> BaseState {
        Heap::base_without_memory(self)
    }

    fn recorder(&self) -> &AnyRecorder {
        Heap::recorder(self)
    }
}
