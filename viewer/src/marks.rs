//! Steps, phases, named ranges, patterns, and moments of interest.

use trace_format::{Event, MarkKind, Record, StringId};

use crate::chunk::{Arrays, Chunk};
use crate::kinds::Numbered;
use crate::patterns::Pattern;

struct Mark {
    moment: u64,
    kind: u64,
    name: u64,
    requested_bytes: u64,
    time_ns: u64,
}

/// The marks as a chunk, and the texts that they name.
pub(crate) fn chunk<'t>(
    id: String,
    records: &[Record],
    patterns: &'t [Pattern],
    start_ns: u64,
    text: impl Fn(StringId) -> &'t str,
) -> (Chunk, Vec<&'t str>) {
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
    let mut texts: Vec<&str> = names.keys.into_iter().map(text).collect();
    add_patterns(&mut marks, &mut texts, patterns, records, start_ns);
    let mut arrays = Arrays::default();
    arrays.rising(marks.iter().map(|mark| mark.moment));
    arrays.plain(marks.iter().map(|mark| mark.kind));
    arrays.plain(marks.iter().map(|mark| mark.name));
    arrays.plain(marks.iter().map(|mark| mark.requested_bytes));
    arrays.rising(marks.iter().map(|mark| mark.time_ns));
    (Chunk::of(id, &arrays), texts)
}

/// Patterns begin and end as ranges do, in marks of their own kinds.
fn add_patterns<'t>(
    marks: &mut Vec<Mark>,
    texts: &mut Vec<&'t str>,
    patterns: &'t [Pattern],
    records: &[Record],
    start_ns: u64,
) {
    if patterns.iter().all(|pattern| pattern.is_phase) {
        return;
    }
    let mut latest = 0;
    let time = records.iter().map(|record| {
        latest = record.time_ns.saturating_sub(start_ns).max(latest);
        latest
    });
    let times: Vec<u64> = time.collect();
    let first = texts.len();
    for pattern in patterns.iter().filter(|pattern| !pattern.is_phase) {
        let known = texts[first..].iter().position(|text| *text == pattern.name);
        let name = known.map_or(texts.len(), |place| first + place);
        if known.is_none() {
            texts.push(pattern.name);
        }
        for (moment, kind) in [(pattern.start, 8), (pattern.end, 9)] {
            let record = (moment as usize).saturating_sub(1).min(times.len() - 1);
            let (moment, name, time_ns) = (u64::from(moment), name as u64, times[record]);
            marks.push(Mark { moment, kind, name, requested_bytes: 0, time_ns });
        }
    }
    // An end before a begin at the same moment, so that parts that touch are not nested.
    marks.sort_by_key(|mark| (mark.moment, mark.kind != 9));
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
