//! Out of memory: PyTorch's sentence.

use alloc::vec::Vec;

use core::fmt;

use events::{DeviceId, PoolId, Stream};

use crate::stats::ByteSize;
use device::ProcessMemory;

/// The heap at the moment memory was out. Displayed, it is PyTorch's sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomReport {
    /// Which device.
    pub device: DeviceId,
    /// Bytes asked for, not rounded.
    pub requested_bytes: u64,
    /// The stream of the request.
    pub stream: Stream,
    /// Its pool.
    pub pool: PoolId,
    /// Bytes that the device was asked for: the segment.
    pub segment_bytes: u64,
    /// The device's memory.
    pub device_total_bytes: u64,
    /// The free part of it.
    pub device_free_bytes: u64,
    /// What each process uses of the device, where that is known.
    pub processes: Vec<ProcessMemory>,
    /// The memory fraction's limit, if one is set.
    pub allowed_bytes: Option<u64>,
    /// Bytes handed out.
    pub allocated_bytes: u64,
    /// Bytes cached in private pools.
    pub private_cached_bytes: u64,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// The addresses of an expandable segment, where the request exceeds them (since 2.15).
    pub exceeded_reserve_bytes: Option<u64>,
}

impl OomReport {
    /// What this process uses of the device in all, where that is known.
    pub fn own_used_bytes(&self) -> Option<u64> {
        self.processes.iter().find(|process| process.is_own).map(|process| process.used_bytes)
    }
}

impl core::error::Error for OomReport {}

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
        for ProcessMemory { pid, used_bytes, is_own } in &self.processes {
            if *is_own {
                write!(f, "Including non-PyTorch memory, this process")?;
            } else {
                write!(f, "Process {pid}")?;
            }
            write!(f, " has {} memory in use. ", ByteSize(*used_bytes))?;
        }
        if let Some(allowed) = self.allowed_bytes {
            write!(f, "{} allowed; ", ByteSize(allowed))?;
        }
        let used = self.allocated_bytes + self.private_cached_bytes;
        write!(f, "Of the allocated memory {} is allocated by PyTorch, ", ByteSize(used))?;
        if self.private_cached_bytes > 0 {
            let cached = ByteSize(self.private_cached_bytes);
            write!(f, "with {cached} allocated in private pools (e.g., CUDA Graphs), ")?;
        }
        let unallocated = ByteSize(self.reserved_bytes.saturating_sub(used));
        write!(f, "and {unallocated} is reserved by PyTorch but unallocated. ")?;
        if let Some(reserve_bytes) = self.exceeded_reserve_bytes {
            return write!(
                f,
                "This allocation exceeds the expandable-segment reserve of {} for this stream, and a single allocation \
                 cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or \
                 expandable_segments_reserve_by_class (or unset it) so that a segment is at least {}.",
                ByteSize(reserve_bytes),
                ByteSize(self.segment_bytes),
            );
        }
        f.write_str(
            "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
             to avoid fragmentation.  See documentation for Memory Management  \
             (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-\
             pytorch-cuda-alloc-conf)",
        )
    }
}
