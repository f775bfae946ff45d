//! A run as the steps that both runs must share.

use std::cmp::Reverse;
use std::iter::Peekable;

use recorder::TraceAction as Kind;
use trace_format::{Addr, Event, SegmentState};

/// One step: what happened, where, and to how many bytes (blocks: as asked for; segments: of the segment).
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Never a snapshot or a mark, which move no memory.
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

/// Segment and offset in it.
pub(super) type SegmentOffset = (u64, u64);

/// A run's steps, those frees that complete together in order of place.
pub(super) struct Ordered<I: Iterator<Item = Step>> {
    steps: Peekable<I>,
    /// Frees that completed together, the last in order first.
    together: Vec<Step>,
}

impl Ordered<std::iter::Empty<Step>> {
    /// The steps of these events.
    pub(super) fn of(
        events: impl IntoIterator<Item = Event>,
    ) -> Ordered<impl Iterator<Item = Step>> {
        Ordered { steps: steps(events).peekable(), together: Vec::new() }
    }
}

impl<I: Iterator<Item = Step>> Ordered<I> {
    /// The next step; `place` returns a step's place, which does not change while frees complete.
    pub(super) fn next(&mut self, place: impl Fn(&Step) -> Option<SegmentOffset>) -> Option<Step> {
        if let Some(step) = self.together.pop() {
            return Some(step);
        }
        let is_completed = |step: &Step| step.kind == Kind::FreeCompleted;
        let first = self.steps.next()?;
        if !is_completed(&first) {
            return Some(first);
        }
        self.together.push(first);
        while let Some(next) = self.steps.next_if(is_completed) {
            self.together.push(next);
        }
        if self.together.len() > 1 {
            self.together.sort_by_cached_key(|step| Reverse(place(step)));
        }
        self.together.pop()
    }
}

/// The steps of a run. Inputs that move no memory by themselves are left out.
fn steps(events: impl IntoIterator<Item = Event>) -> impl Iterator<Item = Step> {
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
