//! Why the heap refused.

use alloc::boxed::Box;

use events::{Addr, PoolId};

use super::{OomReport, Rejection};
use device::DeviceError;

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
    /// The allocation is part of an expandable segment, and those are made without handles (PyTorch's words).
    #[error(
        "Cannot share an expandable_segments allocation: IPC handles are disabled. Set \
         TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1 or disable expandable_segments for cross-process tensors."
    )]
    NotShared,
    /// Nothing of another process is open there.
    #[error(
        "{addr} is no memory of another process that is open here: never opened, or closed already"
    )]
    NotOpened {
        /// The address.
        addr: Addr,
    },
    /// A memory fraction outside `[0, 1]` (PyTorch's words).
    #[error("invalid fraction:{fraction}. Please set within [0, 1].")]
    InvalidFraction {
        /// The fraction.
        fraction: f64,
    },
    /// A pool that was not created.
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
    /// A free of the pool waits for a stream (PyTorch's words).
    #[error("Events should have synchronized when checkpointing block: {addr}")]
    CheckpointPending {
        /// The block.
        addr: Addr,
    },
    /// What a checkpoint had is not the pool's any more.
    #[error(
        "pool {pool} cannot go back to its checkpoint: the block at {addr} is not there any more, or in use; was its \
         memory returned since?"
    )]
    CheckpointLost {
        /// The pool.
        pool: PoolId,
        /// Where the block was.
        addr: Addr,
    },
    /// A segment source for a pool that has one, or that holds memory from elsewhere.
    #[error(
        "pool {pool} has its memory from elsewhere already; give it a segment source before its first allocation"
    )]
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
    /// More than the settings' fraction of the device, with `throw_on_cudamalloc_oom`.
    #[error("{0}")]
    Rejected(Rejection),
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
