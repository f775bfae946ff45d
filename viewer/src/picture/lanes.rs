//! Marks, arranged in lanes above the stack as the page has them (`page/engine/lanes.ts`).

use crate::marks::{
    Mark, OUT_OF_MEMORY, PATTERN_BEGINS, PATTERN_ENDS, PHASE, RANGE_BEGINS, RANGE_ENDS,
    RECORDS_LOST, STEP,
};

/// Lanes of nested ranges.
const DEPTH_MAX: usize = 3;

/// Moments `start..end` with a name: a place in the list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: usize,
}

/// Spans that do not overlap, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Empty for further lanes of nested ranges.
    pub(crate) title: &'static str,
    pub(crate) spans: Vec<Span>,
}

/// A vertical line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alarm {
    pub(crate) moment: u64,
    /// Bytes that were requested at an out of memory; `None` where records were lost.
    pub(crate) requested_bytes: Option<u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lanes {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) alarms: Vec<Alarm>,
}

impl Lane {
    fn begin(&mut self, moment: u64, name: usize) {
        self.end(moment);
        self.spans.push(Span { start: moment, end: u64::MAX, name });
    }

    fn end(&mut self, moment: u64) {
        if let Some(last) = self.spans.last_mut()
            && last.end == u64::MAX
        {
            last.end = moment;
        }
    }
}

/// Nested ranges by depth: a range takes the first lane that has none open.
#[derive(Default)]
struct Nested {
    lanes: Vec<Lane>,
    open: Vec<Option<usize>>,
}

impl Nested {
    fn begin(&mut self, moment: u64, name: usize, title: &'static str) {
        let free = self.open.iter().position(Option::is_none);
        let depth = free.unwrap_or(self.open.len());
        if free.is_none() {
            self.open.push(None);
        }
        self.open[depth] = Some(name);
        if depth < DEPTH_MAX {
            if depth == self.lanes.len() {
                let title = if depth == 0 { title } else { "" };
                self.lanes.push(Lane { title, spans: Vec::new() });
            }
            self.lanes[depth].begin(moment, name);
        }
    }

    fn end(&mut self, moment: u64, name: usize) {
        let same = self.open.iter().rposition(|open| *open == Some(name));
        let Some(depth) = same.or_else(|| self.open.iter().rposition(Option::is_some)) else {
            return;
        };
        self.open[depth] = None;
        if let Some(lane) = self.lanes.get_mut(depth) {
            lane.end(moment);
        }
    }
}

/// Arranges marks; spans that do not end go on to the last moment.
pub(crate) fn arrange(marks: &[Mark], moments: u64) -> Lanes {
    let mut steps = Lane { title: "steps", ..Lane::default() };
    let mut phases = Lane { title: "phases", ..Lane::default() };
    let (mut ranges, mut patterns) = (Nested::default(), Nested::default());
    let mut alarms = Vec::new();
    for mark in marks {
        let (moment, name) = (mark.moment, mark.name as usize);
        match mark.kind {
            STEP => {
                // A phase belongs to the step in which it began.
                phases.end(moment);
                steps.begin(moment, name);
            }
            PHASE => phases.begin(moment, name),
            RANGE_BEGINS => ranges.begin(moment, name, "ranges"),
            RANGE_ENDS => ranges.end(moment, name),
            PATTERN_BEGINS => patterns.begin(moment, name, "pattern"),
            PATTERN_ENDS => patterns.end(moment, name),
            OUT_OF_MEMORY => {
                alarms.push(Alarm { moment, requested_bytes: Some(mark.requested_bytes) });
            }
            RECORDS_LOST => alarms.push(Alarm { moment, requested_bytes: None }),
            _ => {}
        }
    }
    let nested = ranges.lanes.into_iter().chain(patterns.lanes);
    let mut lanes: Vec<Lane> = [steps, phases].into_iter().chain(nested).collect();
    lanes.retain(|lane| !lane.spans.is_empty());
    for lane in &mut lanes {
        lane.end(moments);
    }
    Lanes { lanes, alarms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_where_the_next_begins_and_ranges_nest() {
        let mark = |moment, kind, name| Mark { moment, kind, name, ..Mark::default() };
        let marks = [
            mark(1, STEP, 1),
            mark(2, PHASE, 2),
            mark(3, PATTERN_BEGINS, 3),
            mark(4, PATTERN_BEGINS, 4),
            mark(5, PATTERN_ENDS, 4),
            mark(6, STEP, 5),
            mark(7, RECORDS_LOST, 0),
        ];
        let Lanes { lanes, alarms } = arrange(&marks, 9);
        let span = |start, end, name| Span { start, end, name };
        let lane = |title, spans: &[Span]| Lane { title, spans: spans.to_vec() };
        assert_eq!(
            lanes,
            [
                lane("steps", &[span(1, 6, 1), span(6, 9, 5)]),
                lane("phases", &[span(2, 6, 2)]),
                lane("pattern", &[span(3, 9, 3)]),
                lane("", &[span(4, 5, 4)]),
            ]
        );
        assert_eq!(alarms, [Alarm { moment: 7, requested_bytes: None }]);
    }
}
