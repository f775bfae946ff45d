//! Facts about a recorded run from outside its snapshot.

use observer::cause::allowed_bytes;
use settings::Compat;

/// The limits a run had. Without them, the trace alone decides the causes of flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLimits {
    /// Bytes the process could have on the device.
    pub capacity_bytes: Option<u64>,
    /// `torch.cuda.set_per_process_memory_fraction`.
    pub memory_fraction: Option<f64>,
    /// The PyTorch version whose behaviour was recorded; without it, the snapshot's own marks decide.
    pub compat: Option<Compat>,
    /// How many times the usual limits a file may hold for its size; 0 and 1 are the usual ones.
    pub trust_factor: u64,
}

impl RunLimits {
    /// The most bytes the allocator could reserve.
    pub(super) fn limit_bytes(&self) -> Option<u64> {
        let capacity = self.capacity_bytes?;
        Some(self.allowed_bytes().map_or(capacity, |allowed| allowed.min(capacity)))
    }

    /// The fraction's limit; `None` where there is none.
    pub(super) fn allowed_bytes(&self) -> Option<u64> {
        allowed_bytes(self.memory_fraction, self.capacity_bytes)
    }
}
