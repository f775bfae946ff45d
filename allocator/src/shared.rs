//! A heap that threads share: one lock, and nothing process-wide.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use trace_format::{Addr, StackId};

use crate::device::Device;
use crate::heap::{AllocError, Heap, Miss, Request};
use crate::record::Recorder;

/// Frees memory that others hold on to when the pool has none; true if it freed any (`FreeMemoryCallback`).
pub type FreeMemoryCallback = Box<dyn Fn() -> bool + Send + Sync>;

/// A [`Heap`] behind a lock. Aligned, so that two devices' heaps never meet on a cache line, nor on the pair of lines
/// that a processor fetches together.
#[repr(align(128))]
pub struct SharedHeap<D, R> {
    heap: Mutex<Heap<D, R>>,
    callbacks: Mutex<Vec<Arc<FreeMemoryCallback>>>,
    has_callbacks: AtomicBool,
}

impl<D: Device, R: Recorder> SharedHeap<D, R> {
    /// Shares a heap.
    pub fn new(heap: Heap<D, R>) -> Self {
        Self {
            heap: Mutex::new(heap),
            callbacks: Mutex::new(Vec::new()),
            has_callbacks: AtomicBool::new(false),
        }
    }

    /// The heap, locked.
    ///
    /// # Errors
    /// When an earlier call panicked in the middle of a change.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, Heap<D, R>>, AllocError> {
        self.heap.try_lock().or_else(|error| self.lock_contended(error))
    }

    /// Waits for the lock. A heap that changes hands takes dozens of cache lines along, which costs more than a call:
    /// who comes second looks again after a while, longer each time, so that the first does several calls in a row.
    /// Whoever holds it for longer is asking the device, and is waited for asleep.
    #[cold]
    #[inline(never)]
    fn lock_contended<'a>(
        &'a self,
        mut error: TryLockError<MutexGuard<'a, Heap<D, R>>>,
    ) -> Result<MutexGuard<'a, Heap<D, R>>, AllocError> {
        for patience in 5..12 {
            if let TryLockError::Poisoned(_) = error {
                return Err(AllocError::Broken);
            }
            for _ in 0..1 << patience {
                std::hint::spin_loop();
            }
            match self.heap.try_lock() {
                Ok(heap) => return Ok(heap),
                Err(again) => error = again,
            }
        }
        self.heap.lock().map_err(|_| AllocError::Broken)
    }

    /// As [`Heap::malloc`]; on a pool miss the free-memory callbacks run first, without the lock, since they may free.
    ///
    /// # Errors
    /// As [`Heap::malloc`].
    #[inline]
    pub fn malloc(&self, request: &Request) -> Result<Addr, AllocError> {
        let mut heap = self.lock()?;
        match heap.malloc_cached(request)? {
            Ok(addr) => Ok(addr),
            Err(miss) => self.malloc_missed(heap, miss),
        }
    }

    #[cold]
    fn malloc_missed<'a>(
        &'a self,
        mut heap: MutexGuard<'a, Heap<D, R>>,
        mut miss: Miss,
    ) -> Result<Addr, AllocError> {
        if self.has_callbacks.load(Ordering::Acquire) {
            drop(heap);
            let freed = self.run_callbacks();
            heap = self.lock()?;
            if freed {
                miss = match heap.malloc_again(miss) {
                    Ok(addr) => return Ok(addr),
                    Err(miss) => miss,
                };
            }
        }
        heap.malloc_growing(miss)
    }

    /// As [`Heap::free`].
    ///
    /// # Errors
    /// As [`Heap::free`].
    #[inline]
    pub fn free(&self, addr: Addr, stack: StackId) -> Result<(), AllocError> {
        self.lock()?.free(addr, stack)
    }

    /// Holds the heap and its callbacks still, so that a fork in between finds both whole.
    pub fn freeze(&self) -> Frozen<'_, D, R> {
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
        // A heap that a panic broke stays so: the lock remembers it.
        let heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A heap that nobody else can touch while this lives ([`SharedHeap::freeze`]).
pub struct Frozen<'a, D, R> {
    heap: MutexGuard<'a, Heap<D, R>>,
    _callbacks: MutexGuard<'a, Vec<Arc<FreeMemoryCallback>>>,
}

impl<D: Device, R: Recorder> Frozen<'_, D, R> {
    /// The heap's recorder.
    pub fn recorder_mut(&mut self) -> &mut R {
        self.heap.recorder_mut()
    }
}
