//! `throw_on_cudamalloc_oom`: what would pass the settings' share of the device is refused before the device is asked.

use alloc::format;
use alloc::string::String;

use core::fmt;

use events::{DeviceId, Event};

use super::hot_path::AllocParams;
use super::{AllocError, Heap};
use crate::stats::ByteSize;
use device::Device;
use events::Recorder;

/// The heap at the moment it refused. Displayed, it is PyTorch's sentence; [`explanation`](Self::explanation) is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which device.
    pub device: DeviceId,
    /// Bytes asked for, not rounded.
    pub requested_bytes: u64,
    /// Bytes that the device would have been asked for: the segment.
    pub segment_bytes: u64,
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// What `per_process_memory_fraction` allows of the device's memory.
    pub allowed_bytes: u64,
    /// The device's memory.
    pub device_total_bytes: u64,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CUDA out of memory. Allocation was preemptively rejected because it would exceed \
             per_process_memory_fraction limit. Requested size: {}",
            ByteSize(self.requested_bytes)
        )
    }
}

impl Rejection {
    /// Why, in the heap's own numbers, and what to do about it.
    pub fn explanation(&self) -> String {
        format!(
            "{} is reserved, and a segment of {} more would pass the {} that per_process_memory_fraction allows of the \
             device's {}. With throw_on_cudamalloc_oom:True nothing cached is returned first: call \
             torch.cuda.empty_cache(), ask for less, or set throw_on_cudamalloc_oom:False.",
            ByteSize(self.reserved_bytes),
            ByteSize(self.segment_bytes),
            ByteSize(self.allowed_bytes),
            ByteSize(self.device_total_bytes),
        )
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Whether a segment, or new pages, are to be refused, as they exceed the fraction that the *settings* name.
    pub(super) fn exceeds_settings(&self, segment_bytes: u64) -> bool {
        let allowed_bytes = || self.share_bytes(self.config.per_process_memory_fraction);
        self.config.throw_on_cudamalloc_oom && self.reserved_bytes + segment_bytes > allowed_bytes()
    }

    /// Refuses a segment, or new pages, beyond the fraction that the *settings* name, whatever limit was set since, if
    /// they say so.
    ///
    /// # Errors
    /// [`AllocError::Rejected`], which ends the request: nothing is released for it.
    pub(super) fn reject_beyond_settings(
        &mut self,
        params: &AllocParams,
        segment_bytes: u64,
    ) -> Result<(), AllocError> {
        if !self.exceeds_settings(segment_bytes) {
            return Ok(());
        }
        let allowed_bytes = self.share_bytes(self.config.per_process_memory_fraction);
        // PyTorch's history has no entry of it. Ours is an input: another policy may serve it.
        let refused = Event::Oom {
            requested_bytes: params.requested_bytes,
            size_bytes: params.size_bytes,
            device_free_bytes: self.device.memory_info()?.free_bytes,
            stream: params.stream,
            pool: self.pools.id_of(params.pool),
        };
        self.recorder.record_unobserved(self.stack, refused);
        self.stats.rare.num_oom_rejections += 1;
        self.recorder.copy_statistics(&self.stats);
        let rejection = Rejection {
            device: self.device.id(),
            requested_bytes: params.requested_bytes,
            segment_bytes,
            reserved_bytes: self.reserved_bytes,
            allowed_bytes,
            device_total_bytes: self.device_total_bytes,
        };
        tracing::info!(%rejection, "rejected");
        Err(AllocError::Rejected(rejection))
    }
}
