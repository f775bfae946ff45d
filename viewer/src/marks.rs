//! Steps, phases, named ranges, and moments of interest.

use trace_format::{Event, MarkKind, Record, StringId};

use crate::chunk::{Arrays, Chunk};
use crate::kinds::Numbered;

struct Mark {
    moment: u64,
    kind: u64,
    name: u64,
    requested_bytes: u64,
    time_ns: u64,
}

/// The marks as a chunk, and the strings that they name.
pub(crate) fn chunk(id: String, records: &[Record], start_ns: u64) -> (Chunk, Vec<StringId>) {
    let mut names = Numbered::default();
    names.number(StringId::default());
    let (mut marks, mut latest) = (Vec::new(), 0);
    for (at, record) in records.iter().enumerate() {
        let (kind, name, requested_bytes) = match record.event {
            Event::Mark { kind, name } => match code(kind) {
                Some(code) => (code, name, 0),
                None => continue,
            },
            Event::Oom { requested_bytes, .. } => (5, StringId::default(), requested_bytes),
            Event::Snapshot { .. } => (6, StringId::default(), 0),
            Event::Lost { .. } => (7, StringId::default(), 0),
            _ => continue,
        };
        latest = record.time_ns.saturating_sub(start_ns).max(latest);
        marks.push(Mark {
            moment: at as u64 + 1,
            kind,
            name: u64::from(names.number(name)),
            requested_bytes,
            time_ns: latest,
        });
    }
    let mut arrays = Arrays::default();
    arrays.rising(marks.iter().map(|mark| mark.moment));
    arrays.plain(marks.iter().map(|mark| mark.kind));
    arrays.plain(marks.iter().map(|mark| mark.name));
    arrays.plain(marks.iter().map(|mark| mark.requested_bytes));
    arrays.rising(marks.iter().map(|mark| mark.time_ns));
    (Chunk::of(id, &arrays), names.keys)
}

/// `None` for marks of modules: the page has them as the grouping `module`.
fn code(kind: MarkKind) -> Option<u64> {
    Some(match kind {
        MarkKind::Step => 0,
        MarkKind::Phase => 1,
        MarkKind::RangeBegin => 2,
        MarkKind::RangeEnd => 3,
        MarkKind::Instant => 4,
        MarkKind::ModuleBegin
        | MarkKind::ModuleEnd
        | MarkKind::ModuleBackward
        | MarkKind::ModuleOwner => return None,
    })
}
