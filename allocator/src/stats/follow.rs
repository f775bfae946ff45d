//! The statistics after an event, for readers of records: what another process recorded since it copied its own.
//!
//! Free parts of segments, oversize blocks, retries and synchronizations follow from no event alone; they stay as they
//! are.

use events::Event;

use super::{StatArray, Stats};
use crate::size::is_small;

impl Stats {
    /// Counts one event. A block's pool is small where its request is, as in PyTorch.
    pub fn follow(&mut self, event: &Event) {
        match *event {
            Event::Alloc { requested_bytes, size_bytes, .. } => {
                let is_small = is_small(requested_bytes);
                let add = |array: &mut StatArray, amount: u64| {
                    array.increase(is_small, amount.cast_signed());
                };
                add(&mut self.allocation, 1);
                add(&mut self.active, 1);
                add(&mut self.allocated_bytes, size_bytes);
                add(&mut self.active_bytes, size_bytes);
                add(&mut self.requested_bytes, requested_bytes);
            }
            Event::Free { requested_bytes, size_bytes, pending, .. } => {
                let is_small = is_small(requested_bytes);
                self.allocation.decrease(is_small, 1);
                self.allocated_bytes.decrease(is_small, size_bytes.cast_signed());
                if !pending {
                    self.complete_free(requested_bytes, size_bytes);
                }
            }
            Event::FreeCompleted { requested_bytes, size_bytes, .. } => {
                self.complete_free(requested_bytes, size_bytes);
            }
            Event::SegmentAlloc { size_bytes, is_large, .. } => {
                self.segment.increase(!is_large, 1);
                self.reserve(size_bytes, is_large);
            }
            Event::SegmentMap { size_bytes, is_large, .. } => self.reserve(size_bytes, is_large),
            Event::SegmentFree { size_bytes, is_large, .. } => {
                self.segment.decrease(!is_large, 1);
                self.unreserve(size_bytes, is_large);
            }
            Event::SegmentUnmap { size_bytes, is_large, .. } => {
                self.unreserve(size_bytes, is_large);
            }
            Event::ResetPeak => self.reset_peak(),
            Event::ResetAccumulated => self.reset_accumulated(),
            _ => {}
        }
    }

    fn complete_free(&mut self, requested_bytes: u64, size_bytes: u64) {
        let is_small = is_small(requested_bytes);
        self.active.decrease(is_small, 1);
        self.active_bytes.decrease(is_small, size_bytes.cast_signed());
        self.requested_bytes.decrease(is_small, requested_bytes.cast_signed());
    }

    fn reserve(&mut self, size_bytes: u64, is_large: bool) {
        self.num_device_alloc += 1;
        self.reserved_bytes.increase(!is_large, size_bytes.cast_signed());
    }

    fn unreserve(&mut self, size_bytes: u64, is_large: bool) {
        self.num_device_free += 1;
        self.reserved_bytes.decrease(!is_large, size_bytes.cast_signed());
    }
}
