//! Out of memory: PyTorch's sentence, and what the heap knows besides.

use alloc::vec::Vec;

use core::fmt;

use events::DeviceId;

use crate::stats::ByteSize;
use device::ProcessMemory;

/// The heap at the moment memory was out. Displayed, it is PyTorch's sentence; [`explanation`](Self::explanation) is
/// ours.
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
    /// Bytes of them that are free, in all pools.
    pub free_bytes: u64,
    /// The largest free block that the request could have had: of its stream and its pool.
    pub largest_free_bytes: u64,
    /// Whether the request may be served from expandable segments.
    pub is_expandable: bool,
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

impl OomReport {
    /// Why, in the heap's own numbers, and what to try next.
    pub fn explanation(&self) -> Explanation<'_> {
        Explanation(self)
    }

    /// What the process may have of the device.
    fn limit_bytes(&self) -> u64 {
        self.allowed_bytes.unwrap_or(self.device_total_bytes).min(self.device_total_bytes)
    }

    /// What is left for segments without giving anything back.
    fn room_bytes(&self) -> u64 {
        let allowed = self.allowed_bytes.unwrap_or(u64::MAX).saturating_sub(self.reserved_bytes);
        self.device_free_bytes.min(allowed)
    }
}

/// From this share of the reserved bytes on that are live, no setting is worth a hint. `replay::advice` has the same.
const LIVE_SHARE_MIN: f64 = 0.99;

/// [`OomReport::explanation`].
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a>(&'a OomReport);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OomReport { segment_bytes, free_bytes, largest_free_bytes, .. } = *self.0;
        let asked = ByteSize(segment_bytes);
        let limit_bytes = self.0.limit_bytes();
        if segment_bytes > limit_bytes {
            let limit = ByteSize(limit_bytes);
            let whose = if self.0.allowed_bytes.is_some() {
                "the memory fraction allows"
            } else {
                "the device has"
            };
            return write!(
                f,
                "{asked} is more than the {limit} that {whose}: no setting helps, the request has to be smaller."
            );
        }
        let OomReport { allocated_bytes, reserved_bytes, .. } = *self.0;
        if reserved_bytes > 0 && allocated_bytes as f64 >= LIVE_SHARE_MIN * reserved_bytes as f64 {
            return write!(
                f,
                "nothing in the allocator helps: {} of the {} reserved are live. Use a smaller batch or activation \
                 checkpointing, or hold fewer tensors.",
                ByteSize(allocated_bytes),
                ByteSize(reserved_bytes)
            );
        }
        let (free, largest) = (ByteSize(free_bytes), ByteSize(largest_free_bytes));
        let room_bytes = self.0.room_bytes();
        write!(
            f,
            "{free} of what is reserved is free, and the largest block of it that this request can have is {largest}; "
        )?;
        match segment_bytes.checked_sub(free_bytes + room_bytes).filter(|missing| *missing > 0) {
            Some(missing_bytes) => write!(
                f,
                "without any fragmentation {} would still be missing. Use a smaller batch or activation checkpointing, \
                 or hold fewer tensors.",
                ByteSize(missing_bytes)
            ),
            None if self.0.is_expandable => write!(
                f,
                "with the {} that the device has left that is enough for {asked}, but in pieces, or held by other \
                 streams and pools. Expandable segments are on already: `vramtape waste` shows what lies between.",
                ByteSize(room_bytes)
            ),
            None => write!(
                f,
                "with the {} that the device has left that is enough for {asked}, but in pieces, or held by other \
                 streams and pools. `vramtape tune RUN` replays this run's tape under the settings that may help.",
                ByteSize(room_bytes)
            ),
        }
    }
}
