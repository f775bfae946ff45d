//! The filter of a pool's scope: which streams allocate from it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use trace_format::{ScopeFilter, Stream};

use crate::error::{self, Error};

unsafe extern "C" {
    fn vramtape_filter_clone(filter: *const c_void) -> *mut c_void;
    fn vramtape_filter_takes(filter: *const c_void, stream: *mut c_void) -> c_int;
    fn vramtape_filter_type(filter: *const c_void) -> *const c_char;
    fn vramtape_filter_drop(filter: *mut c_void);
}

/// Our copy of PyTorch's `std::function<bool(cudaStream_t)>`.
#[derive(Debug)]
pub(crate) struct Filter(NonNull<c_void>);

// SAFETY: PyTorch's own allocator calls such a filter on whichever thread allocates.
unsafe impl Send for Filter {}
// SAFETY: calling it does not change it, and the heap calls it under its lock.
unsafe impl Sync for Filter {}

impl Filter {
    /// Copies the filter.
    ///
    /// # Safety
    ///
    /// `filter` points to a live `std::function<bool(cudaStream_t)>`.
    pub(crate) unsafe fn clone_of(filter: NonNull<c_void>) -> Result<Self, Error> {
        // SAFETY: the caller vouches for a live `std::function` of this type.
        let copy = unsafe { vramtape_filter_clone(filter.as_ptr()) };
        NonNull::new(copy).map(Self).ok_or_else(|| {
            Error::runtime("the pool's stream filter could not be copied: out of host memory")
        })
    }

    /// Whether the stream's allocations go to the pool.
    pub(crate) fn takes(&self, stream: Stream) -> bool {
        let stream = std::ptr::with_exposed_provenance_mut(stream.0 as usize);
        // SAFETY: the copy is ours and alive; the stream is passed on, not looked into.
        match unsafe { vramtape_filter_takes(self.0.as_ptr(), stream) } {
            1 => true,
            0 => false,
            _ => {
                error::record(&Error::runtime("PyTorch's pool filter failed; taken as no"));
                false
            }
        }
    }

    /// The criterion of the filter, inferred from the name of its type: a graph's filters are lambdas of
    /// `at::cuda::CUDAGraph`, in 2.11 and in 2.15.
    pub(crate) fn kind(&self) -> ScopeFilter {
        // SAFETY: the copy is ours and alive.
        let name = unsafe { vramtape_filter_type(self.0.as_ptr()) };
        // SAFETY: the name of a type is a constant of the library that the filter comes from.
        let name = unsafe { CStr::from_ptr(name) };
        let is_graphs = name.to_bytes().windows(9).any(|part| part == b"CUDAGraph");
        if is_graphs { ScopeFilter::Capture } else { ScopeFilter::Unknown }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: the copy is ours, and dropped once.
        unsafe { vramtape_filter_drop(self.0.as_ptr()) };
    }
}
