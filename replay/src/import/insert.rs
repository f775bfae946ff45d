//! Records that a snapshot's trace does not hold, with their places in it.

use hashbrown::HashMap;
use trace_format::{Event, MarkKind};

use crate::snapshot::{Annotation, Stacks, TraceEntry};

/// An event to stand before an entry; `before == entries.len()` is the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Insert {
    pub(super) before: usize,
    /// When; `None` is the time of that entry.
    pub(super) time_us: Option<u64>,
    pub(super) event: Event,
}

impl Insert {
    /// An event at the time of the entry it stands before.
    pub(super) fn new(before: usize, event: Event) -> Self {
        Self { before, time_us: None, event }
    }
}

/// All inserts by place; at one place, earlier lists come first.
pub(super) fn merge(lists: [Vec<Insert>; 4]) -> Vec<Insert> {
    let mut all: Vec<_> = lists.into_iter().flatten().collect();
    all.sort_by_key(|insert| insert.before);
    all
}

/// The profiler's ranges as marks, placed by time.
pub(super) fn marks(
    entries: &[TraceEntry],
    annotations: &[Annotation],
    stacks: &mut Stacks,
) -> Vec<Insert> {
    let mut sorted: Vec<_> = annotations.iter().collect();
    sorted.sort_by_key(|annotation| annotation.time_us);
    let mut names = HashMap::new();
    let mut before = 0;
    sorted
        .into_iter()
        .map(|annotation| {
            while entries.get(before).is_some_and(|entry| entry.time_us <= annotation.time_us) {
                before += 1;
            }
            let kind = if annotation.is_start { MarkKind::RangeBegin } else { MarkKind::RangeEnd };
            let name = *names
                .entry(annotation.name.as_str())
                .or_insert_with(|| stacks.add_string(&annotation.name));
            let time_us = Some(annotation.time_us);
            Insert { before, time_us, event: Event::Mark { kind, name } }
        })
        .collect()
}
