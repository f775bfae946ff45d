//! Why the heap refused.

use std::fmt;

use trace_format::{Addr, DeviceId, PoolId};

use crate::device::DeviceError;
use crate::stats::ByteSize;

/// A call the heap cannot follow; nothing changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The address is not that of a live allocation: never handed out, or given back already.
    #[error("{addr} is not an allocation of this heap: unknown pointer or double free")]
    UnknownPointer {
        /// The address.
        addr: Addr,
    },
    /// The allocation is part of an expandable segment and cannot be shared as one piece.
    #[error(
        "{addr} lies in an expandable segment, which cannot be shared between processes; switch expandable_segments \
         off where the tensor is made"
    )]
    Expandable {
        /// The address.
        addr: Addr,
    },
    /// A memory fraction outside `[0, 1]` (PyTorch's words).
    #[error("invalid fraction:{fraction}. Please set within [0, 1].")]
    InvalidFraction {
        /// The fraction.
        fraction: f64,
    },
    /// A pool that nobody created.
    #[error("pool {pool} does not exist")]
    UnknownPool {
        /// The pool.
        pool: PoolId,
    },
    /// The pool's scope is open already (PyTorch's words).
    #[error("beginAllocateToPool: already recording to mempool_id {pool}")]
    AlreadyOpen {
        /// The pool.
        pool: PoolId,
    },
    /// The pool's scope is not open (PyTorch's words).
    #[error("endAllocatePool: not currently recording to mempool_id {pool}")]
    NotOpen {
        /// The pool.
        pool: PoolId,
    },
    /// The pool has no users left to release, or none to share with.
    #[error("pool {pool} was released already")]
    Released {
        /// The pool.
        pool: PoolId,
    },
    /// A second segment source for a pool that exists.
    #[error("pool {pool} exists already; its segment source is set when it is created")]
    SourceTooLate {
        /// The pool.
        pool: PoolId,
    },
}

/// Why a request got no memory.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// Memory is out, after everything that could be released was.
    #[error(transparent)]
    OutOfMemory(Box<OomReport>),
    /// More than any address space holds (PyTorch's words).
    #[error("CUDA out of memory. Tried to allocate more than 1EB memory.")]
    TooLarge {
        /// What was asked for.
        requested_bytes: u64,
    },
    /// The device failed in another way.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A bug: an earlier call broke off in the middle, and the heap cannot be trusted any more.
    #[error(
        "an earlier internal error left the heap unusable; please report it with the message printed then"
    )]
    Broken,
    /// The call makes no sense to this heap.
    #[error(transparent)]
    Heap(#[from] HeapError),
}

/// The heap at the moment memory was out. Displayed, it is PyTorch's sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomReport {
    /// Which device.
    pub device: DeviceId,
    /// Bytes asked for, not rounded.
    pub requested_bytes: u64,
    /// Bytes that the device was asked for: the segment.
    pub segment_bytes: u64,
    /// The device's memory.
    pub device_total_bytes: u64,
    /// What of it nobody uses.
    pub device_free_bytes: u64,
    /// The memory fraction's limit, if one is set.
    pub allowed_bytes: Option<u64>,
    /// Bytes handed out.
    pub allocated_bytes: u64,
    /// Bytes cached in private pools.
    pub private_cached_bytes: u64,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
}

impl std::error::Error for OomReport {}

impl fmt::Display for OomReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. ",
            ByteSize(self.segment_bytes),
            self.device,
            ByteSize(self.device_total_bytes),
            ByteSize(self.device_free_bytes),
        )?;
        if let Some(allowed) = self.allowed_bytes {
            write!(f, "{} allowed; ", ByteSize(allowed))?;
        }
        let used = self.allocated_bytes + self.private_cached_bytes;
        write!(f, "Of the allocated memory {} is allocated by PyTorch, ", ByteSize(used))?;
        if self.private_cached_bytes > 0 {
            let cached = ByteSize(self.private_cached_bytes);
            write!(f, "with {cached} allocated in private pools (e.g., CUDA Graphs), ")?;
        }
        write!(
            f,
            "and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
             Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-\
             pytorch-cuda-alloc-conf)",
            ByteSize(self.reserved_bytes.saturating_sub(used)),
        )
    }
}
