//! Memory that a run could have, as its last refused request shows it.

use trace_format::Event;

use crate::tape::Device;

/// Bytes that were reserved and free on the device at the last recorded out of memory: what others held is not among
/// them. `None` where the run has none, or its source does not contain segments.
pub fn capacity_at_oom(device: &Device) -> Option<u64> {
    let start = device.base.segments.iter().map(|segment| segment.size_bytes);
    let mut reserved_bytes: u64 = start.sum();
    let mut found = None;
    let mut is_empty = device.base.segments.is_empty();
    for record in &device.records {
        match record.event {
            Event::SegmentAlloc { size_bytes, .. } | Event::SegmentMap { size_bytes, .. } => {
                reserved_bytes = reserved_bytes.saturating_add(size_bytes);
            }
            Event::SegmentFree { size_bytes, .. } | Event::SegmentUnmap { size_bytes, .. } => {
                reserved_bytes = reserved_bytes.saturating_sub(size_bytes);
            }
            Event::Alloc { .. } => is_empty = false,
            Event::Oom { device_free_bytes, .. } if reserved_bytes > 0 || is_empty => {
                found = Some(reserved_bytes.saturating_add(device_free_bytes));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use trace_format::{Addr, PoolId, Record, StackId, Stream, ThreadId};

    use super::*;

    #[test]
    fn the_capacity_is_what_was_reserved_and_free_at_the_last_refusal() {
        let (addr, stream, pool, is_large) = (Addr(1 << 30), Stream(0), PoolId::DEFAULT, true);
        let oom = |device_free_bytes| Event::Oom {
            requested_bytes: 50,
            size_bytes: 512,
            device_free_bytes,
            stream,
            pool,
        };
        let events = [
            Event::SegmentAlloc { addr, size_bytes: 700, stream, pool, is_large },
            oom(30),
            Event::SegmentFree { addr, size_bytes: 300, stream, pool, is_large },
            oom(20),
            Event::SegmentAlloc { addr, size_bytes: 10, stream, pool, is_large },
        ];
        let (thread, stack) = (ThreadId(1), StackId::NONE);
        let of = |event: &Event| Record { time_ns: 0, thread, stack, event: *event };
        let device = Device { records: events.iter().map(of).collect(), ..Device::default() };
        assert_eq!(capacity_at_oom(&device), Some(420));
        let at_once = Device { records: vec![of(&oom(30))], ..Device::default() };
        assert_eq!(capacity_at_oom(&at_once), Some(30), "nothing was allocated before");
        assert_eq!(capacity_at_oom(&Device::default()), None);
    }
}
