//! Runs whose tape begins in the middle: what was reserved before, whether a replay is the recording, and the same run
//! with all of its start requested anew.

use std::collections::HashMap;

use serde::Serialize;
use trace_format::{Addr, BaseOrder, BaseState, BlockStatus, Event, Record, StackId, ThreadId};

use crate::report::Report;
use crate::strategy::table::STITCH;

/// Memory at the start of a tape that begins in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Start {
    /// Bytes held from the device.
    pub reserved_bytes: u64,
    /// Bytes of live blocks.
    pub allocated_bytes: u64,
}

impl Start {
    /// `None` where the tape begins with an empty device.
    pub fn of(base: &BaseState) -> Option<Self> {
        let blocks = base.segments.iter().flat_map(|segment| &segment.blocks);
        let held = blocks.filter(|block| block.status == BlockStatus::Allocated);
        let reserved_bytes = base.segments.iter().map(|segment| segment.size_bytes).sum();
        let allocated_bytes = held.map(|block| block.size_bytes).sum();
        (reserved_bytes > 0).then_some(Self { reserved_bytes, allocated_bytes })
    }
}

/// The effects of a run on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effects {
    /// The most bytes held from the device at once.
    pub peak_reserved_bytes: u64,
    /// Calls that obtained or returned device memory: segments, and mappings of pages.
    pub segment_calls: u64,
}

impl Effects {
    /// The effects of a recording; `None` where its source has no segments, like other tools' logs.
    pub fn recorded(base: &BaseState, records: &[Record]) -> Option<Self> {
        let mut reserved_bytes: u64 = base.segments.iter().map(|segment| segment.size_bytes).sum();
        let mut effects = Self { peak_reserved_bytes: reserved_bytes, segment_calls: 0 };
        let mut allocates = false;
        for record in records {
            match record.event {
                Event::SegmentAlloc { size_bytes, .. } | Event::SegmentMap { size_bytes, .. } => {
                    reserved_bytes = reserved_bytes.saturating_add(size_bytes);
                }
                Event::SegmentFree { size_bytes, .. } | Event::SegmentUnmap { size_bytes, .. } => {
                    reserved_bytes = reserved_bytes.saturating_sub(size_bytes);
                }
                Event::Alloc { .. } => {
                    allocates = true;
                    continue;
                }
                _ => continue,
            }
            effects.segment_calls += 1;
            effects.peak_reserved_bytes = effects.peak_reserved_bytes.max(reserved_bytes);
        }
        let knows_segments = effects.peak_reserved_bytes > 0 || !allocates;
        knows_segments.then_some(effects)
    }

    /// The effects of a replay.
    pub fn replayed(report: &Report) -> Self {
        let segment_calls = report.device_allocs + report.device_frees;
        Self {
            peak_reserved_bytes: report.peak_reserved_bytes,
            segment_calls: segment_calls.unsigned_abs(),
        }
    }
}

/// A replay under the recorded settings that is not the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// The effects of the recording.
    pub recorded: Effects,
    /// The effects of the replay.
    pub replayed: Effects,
}

impl Departure {
    /// How a replay departs from a recording. Where `stitch` moves a page between its addresses, the tape has an
    /// unmapping and a mapping, and the driver no call: calls do not compare.
    pub fn of(recorded: Effects, report: &Report) -> Option<Self> {
        let replayed = Effects::replayed(report);
        let compares_calls = report.strategy != STITCH.name;
        let segment_calls = if compares_calls { recorded } else { replayed }.segment_calls;
        Self::between(Effects { segment_calls, ..recorded }, replayed)
    }

    /// `None` where both did the same.
    pub fn between(recorded: Effects, replayed: Effects) -> Option<Self> {
        (recorded != replayed).then_some(Self { recorded, replayed })
    }
}

/// The run from an empty device on: all that is live at the start is requested by records of its own, in order of
/// address, and the recorded segments are left out. Their free parts are not requested.
pub fn cold(base: &BaseState, records: &[Record]) -> (BaseState, Vec<Record>) {
    let mut cold = Vec::with_capacity(records.len());
    let mut push = |stack: StackId, event| {
        let (time_ns, thread) = (base.time_ns, ThreadId::default());
        cold.push(Record { time_ns, thread, stack, event });
    };
    let mut pending: HashMap<Addr, Event> = HashMap::new();
    for segment in &base.segments {
        let (stream, pool) = (segment.stream, segment.pool);
        for block in segment.blocks.iter().filter(|b| b.status != BlockStatus::Inactive) {
            let (addr, size_bytes) = (block.addr, block.size_bytes);
            let requested_bytes = block.requested_bytes.clamp(1, size_bytes.max(1));
            push(block.stack, Event::Alloc { addr, requested_bytes, size_bytes, stream, pool });
            if block.status == BlockStatus::PendingFree {
                let free = Event::Free { addr, requested_bytes, size_bytes, pending: true };
                pending.insert(addr, free);
            }
        }
    }
    // All that lived together is live before any of it is given back, in the recorded order of completion.
    for addr in &base.order.pending {
        if let Some(free) = pending.remove(addr) {
            push(StackId::NONE, free);
        }
    }
    let mut others: Vec<_> = pending.into_iter().collect();
    others.sort_by_key(|(addr, _)| *addr);
    for (_, free) in others {
        push(StackId::NONE, free);
    }
    cold.extend(records.iter().filter(|record| !is_segment_call(&record.event)));
    let BaseOrder { released_pools, lending_pools, unsplit_pools, .. } = base.order.clone();
    let order = BaseOrder { released_pools, lending_pools, unsplit_pools, ..BaseOrder::default() };
    (BaseState { segments: Vec::new(), order, ..base.clone() }, cold)
}

fn is_segment_call(event: &Event) -> bool {
    matches!(
        event,
        Event::SegmentAlloc { .. }
            | Event::SegmentFree { .. }
            | Event::SegmentMap { .. }
            | Event::SegmentUnmap { .. }
    )
}

#[cfg(test)]
mod tests {
    use trace_format::{BlockState, PoolId, SegmentState, Stream};

    use super::*;

    fn base() -> BaseState {
        let block = |addr, size_bytes, requested_bytes, status| BlockState {
            addr: Addr(addr),
            size_bytes,
            requested_bytes,
            status,
            stack: StackId::NONE,
        };
        let segment = SegmentState {
            addr: Addr(1 << 30),
            size_bytes: 4096,
            stream: Stream(7),
            pool: PoolId::DEFAULT,
            is_large: false,
            is_expandable: false,
            stack: StackId::NONE,
            blocks: vec![
                block(1 << 30, 1024, 1000, BlockStatus::PendingFree),
                block((1 << 30) + 1024, 1024, 600, BlockStatus::Allocated),
                block((1 << 30) + 2048, 2048, 3, BlockStatus::Inactive),
            ],
        };
        BaseState { time_ns: 9, segments: vec![segment], ..BaseState::default() }
    }

    fn record(event: Event) -> Record {
        Record { time_ns: 10, thread: ThreadId(1), stack: StackId::NONE, event }
    }

    fn segment_alloc(size_bytes: u64) -> Record {
        let (addr, stream, pool) = (Addr(1 << 40), Stream(7), PoolId::DEFAULT);
        record(Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: true })
    }

    #[test]
    fn a_start_is_what_was_reserved_before() {
        assert_eq!(Start::of(&BaseState::default()), None);
        let start = Start { reserved_bytes: 4096, allocated_bytes: 1024 };
        assert_eq!(Start::of(&base()), Some(start));
    }

    #[test]
    fn recorded_peaks_begin_at_the_start() {
        let effects = Effects::recorded(&base(), &[segment_alloc(8192)]);
        assert_eq!(effects, Some(Effects { peak_reserved_bytes: 12_288, segment_calls: 1 }));
    }

    #[test]
    fn a_cold_start_requests_what_is_live_and_nothing_else() {
        let (cold_base, records) = cold(&base(), &[segment_alloc(8192), record(Event::ResetPeak)]);
        assert!(cold_base.segments.is_empty());
        assert_eq!(cold_base.time_ns, 9);
        let names: Vec<_> = records.iter().map(|record| record.event.name()).collect();
        assert_eq!(names, ["alloc", "alloc", "free", "reset_peak"]);
        assert!(matches!(
            records[0].event,
            Event::Alloc { requested_bytes: 1000, stream: Stream(7), .. }
        ));
    }
}
