//! Steps, phases, named ranges, patterns, and moments of interest.

use replay::explain::process_of_mark;
use trace_format::{Event, HostReading, MarkKind, Record, StringId};

use crate::chunk::{Arrays, Chunk};
use crate::follow::Followed;
use crate::kinds::Numbered;
use crate::patterns::Pattern;

/// A mark at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) moment: u64,
    pub(crate) kind: u64,
    /// Place in the texts.
    pub(crate) name: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) time_ns: u64,
}

// The kinds of marks that pictures show; `docs/page-format.md` has all.
pub(crate) const STEP: u64 = 0;
pub(crate) const PHASE: u64 = 1;
pub(crate) const RANGE_BEGINS: u64 = 2;
pub(crate) const RANGE_ENDS: u64 = 3;
pub(crate) const OUT_OF_MEMORY: u64 = 5;
pub(crate) const RECORDS_LOST: u64 = 7;
pub(crate) const PATTERN_BEGINS: u64 = 8;
pub(crate) const PATTERN_ENDS: u64 = 9;

/// The marks as a chunk, and the texts that they name.
pub(crate) fn chunk<'t>(
    id: String,
    followed: &Followed,
    records: &[Record],
    patterns: &'t [Pattern],
    start_ns: u64,
    text: impl Fn(StringId) -> &'t str,
) -> (Chunk, Vec<&'t str>) {
    let (marks, texts) = marks(followed, records, patterns, start_ns, text);
    let mut arrays = Arrays::default();
    arrays.rising(marks.iter().map(|mark| mark.moment));
    arrays.plain(marks.iter().map(|mark| mark.kind));
    arrays.plain(marks.iter().map(|mark| mark.name));
    arrays.plain(marks.iter().map(|mark| mark.requested_bytes));
    arrays.rising(marks.iter().map(|mark| mark.time_ns));
    (Chunk::of(id, &arrays), texts)
}

/// The marks by moment, and the texts that they name.
pub(crate) fn marks<'t>(
    followed: &Followed,
    records: &[Record],
    patterns: &'t [Pattern],
    start_ns: u64,
    text: impl Fn(StringId) -> &'t str,
) -> (Vec<Mark>, Vec<&'t str>) {
    let mut names = Numbered::default();
    names.number(StringId::default());
    let mut marks = Vec::new();
    for (moment, record) in followed.others(records) {
        let (kind, name, requested_bytes) = match record.event {
            Event::Mark { kind: MarkKind::Instant, name } if is_reading(text(name)) => continue,
            Event::Mark { kind, name } => match code(kind) {
                Some(code) => (code, name, 0),
                None => continue,
            },
            Event::Oom { requested_bytes, .. } => {
                (OUT_OF_MEMORY, StringId::default(), requested_bytes)
            }
            Event::Snapshot { .. } => (6, StringId::default(), 0),
            Event::Lost { .. } => (RECORDS_LOST, StringId::default(), 0),
            _ => continue,
        };
        marks.push(Mark {
            moment: u64::from(moment),
            kind,
            name: u64::from(names.number(name)),
            requested_bytes,
            time_ns: record.time_ns.saturating_sub(start_ns),
        });
    }
    let mut texts: Vec<&str> = names.keys.into_iter().map(text).collect();
    add_patterns(&mut marks, &mut texts, patterns, records, start_ns);
    let mut latest = 0;
    for mark in &mut marks {
        // A clock that goes back stands still here.
        latest = mark.time_ns.max(latest);
        mark.time_ns = latest;
    }
    (marks, texts)
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
    let time_ns = |moment: u32| {
        let record = (moment as usize).saturating_sub(1).min(records.len() - 1);
        records[record].time_ns.saturating_sub(start_ns)
    };
    let first = texts.len();
    for pattern in patterns.iter().filter(|pattern| !pattern.is_phase) {
        let known = texts[first..].iter().position(|text| *text == pattern.name);
        let name = known.map_or(texts.len(), |place| first + place);
        if known.is_none() {
            texts.push(pattern.name);
        }
        for (moment, kind) in [(pattern.start, PATTERN_BEGINS), (pattern.end, PATTERN_ENDS)] {
            let (time_ns, moment, name) = (time_ns(moment), u64::from(moment), name as u64);
            marks.push(Mark { moment, kind, name, requested_bytes: 0, time_ns });
        }
    }
    // An end before a begin at the same moment, so that parts that touch are not nested.
    marks.sort_by_key(|mark| (mark.moment, mark.kind != PATTERN_ENDS));
}

/// Whether a moment has numbers that other verbs read, and no name to show: pinned host memory at each step, and the
/// memory of the process at an out of memory.
fn is_reading(name: &str) -> bool {
    HostReading::of_mark(name).is_some() || process_of_mark(name).is_some()
}

/// `None` for marks of modules: the page has them as the grouping `module`.
fn code(kind: MarkKind) -> Option<u64> {
    Some(match kind {
        MarkKind::Step => STEP,
        MarkKind::Phase => PHASE,
        MarkKind::RangeBegin => RANGE_BEGINS,
        MarkKind::RangeEnd => RANGE_ENDS,
        MarkKind::Instant => 4,
        MarkKind::ModuleBegin
        | MarkKind::ModuleEnd
        | MarkKind::ModuleBackward
        | MarkKind::ModuleOwner => return None,
    })
}
