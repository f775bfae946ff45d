//! A run as the steps that both runs must share.

use trace_format::{Addr, Event, SegmentState};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Oom,
}

impl Kind {
    /// PyTorch's action name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Oom => "oom",
        }
    }
}

/// One step: what happened, where, and to how many bytes (blocks: as asked for; segments: of the segment).
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) addr: Addr,
    pub(super) bytes: u64,
}

impl Step {
    /// Whether the other run's step is the same, places aside.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && self.bytes == other.bytes
    }

    /// A segment that was there before the first event, as if it had just been made.
    pub(super) fn segment_at_start(segment: &SegmentState) -> Self {
        let kind = if segment.is_expandable { Kind::SegmentMap } else { Kind::SegmentAlloc };
        Self { kind, addr: segment.addr, bytes: segment.size_bytes }
    }
}

/// The steps of a run. Inputs that move no memory by themselves are left out.
pub(super) fn steps(events: impl IntoIterator<Item = Event>) -> impl Iterator<Item = Step> {
    events.into_iter().flat_map(|event| {
        let [first, second] = of_event(&event);
        first.into_iter().chain(second)
    })
}

fn of_event(event: &Event) -> [Option<Step>; 2] {
    let one = |kind, addr, bytes| [Some(Step { kind, addr, bytes }), None];
    match *event {
        Event::Alloc { addr, requested_bytes, .. } => one(Kind::Alloc, addr, requested_bytes),
        Event::Free { addr, requested_bytes: bytes, pending, .. } => [
            Some(Step { kind: Kind::FreeRequested, addr, bytes }),
            (!pending).then_some(Step { kind: Kind::FreeCompleted, addr, bytes }),
        ],
        Event::FreeCompleted { addr, requested_bytes, .. } => {
            one(Kind::FreeCompleted, addr, requested_bytes)
        }
        Event::SegmentAlloc { addr, size_bytes, .. } => one(Kind::SegmentAlloc, addr, size_bytes),
        Event::SegmentFree { addr, size_bytes, .. } => one(Kind::SegmentFree, addr, size_bytes),
        Event::SegmentMap { addr, size_bytes, .. } => one(Kind::SegmentMap, addr, size_bytes),
        Event::SegmentUnmap { addr, size_bytes, .. } => one(Kind::SegmentUnmap, addr, size_bytes),
        // A snapshot gives one size only, and versions differ in which; that it was refused is the step.
        Event::Oom { .. } => one(Kind::Oom, Addr(0), 0),
        _ => [None, None],
    }
}
