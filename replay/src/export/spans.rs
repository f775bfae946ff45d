//! Steps, phases, named ranges and module calls in a file for another tool: where they begin and end.

use trace_format::{MarkKind, StringId, ThreadId};

use crate::modules;
use crate::snapshot::Stacks;

/// A row of spans that lie within each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SpanRow {
    Steps,
    Phases,
    Ranges,
    Modules(ThreadId),
}

/// The effect of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanChange {
    Begin(SpanRow, StringId),
    /// Of the innermost span of the row, if one is open: a tape may begin within spans.
    End(SpanRow),
    Instant(StringId),
}

impl SpanChange {
    /// The effects of a mark, in their order.
    pub(super) fn of(
        kind: MarkKind,
        name: StringId,
        thread: ThreadId,
    ) -> impl Iterator<Item = Self> {
        use SpanChange::{Begin, End, Instant};
        use SpanRow::{Modules, Phases, Ranges, Steps};
        let changes = match kind {
            // A phase belongs to the step in which it began.
            MarkKind::Step => [Some(End(Phases)), Some(End(Steps)), Some(Begin(Steps, name))],
            MarkKind::Phase => [Some(End(Phases)), Some(Begin(Phases, name)), None],
            MarkKind::RangeBegin => [Some(Begin(Ranges, name)), None, None],
            MarkKind::RangeEnd => [Some(End(Ranges)), None, None],
            MarkKind::ModuleBegin => [Some(Begin(Modules(thread), name)), None, None],
            MarkKind::ModuleEnd => [Some(End(Modules(thread))), None, None],
            MarkKind::Instant => [Some(Instant(name)), None, None],
            MarkKind::ModuleBackward | MarkKind::ModuleOwner => [None; 3],
        };
        changes.into_iter().flatten()
    }
}

impl SpanRow {
    /// The text of a span's name.
    pub(super) fn text(self, stacks: &Stacks, name: StringId) -> &str {
        match self {
            Self::Modules(_) => modules::label(stacks, name),
            _ => stacks.text(name),
        }
    }
}
