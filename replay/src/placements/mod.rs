//! Whether two runs put everything in the same places.
//!
//! Both are walked in step. Addresses may differ, as two processes get their segments elsewhere, so every segment
//! event also says which of the one run's memory is which of the other's; an allocation is the same when it lies at
//! the same offset of the same segment. Both halves of every free are compared too: a block that becomes reusable at
//! another moment is a difference, though it may not show in the placements of this run. Frees that complete together
//! may do so in any order: PyTorch goes through streams in the order of a hash table.

mod pieces;
mod steps;

use std::fmt;

use recorder::TraceAction as Kind;
use serde::Serialize;
use trace_format::{Event, SegmentState};

use pieces::Pieces;
use steps::{Ordered, Step};

/// Counts of the compared steps, and the differences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Allocations at the same offset of the same segment.
    pub allocations: u64,
    /// Halves of frees (given back, reusable) of the same block.
    pub frees: u64,
    /// Segments allocated, freed, mapped or unmapped with the same size.
    pub segment_events: u64,
    /// Refused requests.
    pub ooms: u64,
    /// The first step in which they differ; nothing after it was compared.
    pub difference: Option<Difference>,
}

/// The first step in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How many steps were the same before it.
    pub after_steps: u64,
    /// The first run's step.
    pub expected: String,
    /// The second run's step.
    pub actual: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "after {} equal steps the runs part: expected {}, got {}",
            self.after_steps, self.expected, self.actual
        )
    }
}

impl Report {
    /// Steps that were the same.
    pub const fn steps(&self) -> u64 {
        self.allocations + self.frees + self.segment_events + self.ooms
    }

    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Alloc => self.allocations += 1,
            Kind::FreeRequested | Kind::FreeCompleted => self.frees += 1,
            Kind::Oom => self.ooms += 1,
            _ => self.segment_events += 1,
        }
    }
}

/// One device's events of one run, and the memory it had before the first of them.
#[derive(Clone, Debug)]
pub struct Run<'a, E> {
    /// The segments at the start, in the order in which they correspond to the other run's.
    pub base: &'a [SegmentState],
    /// The events.
    pub events: E,
}

/// Compares `actual` with `expected`, up to the first difference.
pub fn compare(
    expected: Run<'_, impl IntoIterator<Item = Event>>,
    actual: Run<'_, impl IntoIterator<Item = Event>>,
) -> Report {
    let mut report = Report::default();
    let mut pieces = Pieces::default();
    if let Err((expected, actual)) = pair_bases(&mut pieces, expected.base, actual.base) {
        report.difference = Some(Difference { after_steps: 0, expected, actual });
        return report;
    }
    let mut expected = Ordered::of(expected.events);
    let mut actual = Ordered::of(actual.events);
    loop {
        let one = expected.next(|step| pieces.place_of_expected(step));
        let other = actual.next(|step| pieces.place_of_actual(step));
        if one.is_none() && other.is_none() {
            return report;
        }
        let same = match (one, other) {
            (Some(one), Some(other)) => one.is_like(&other) && pieces.accept(&one, &other),
            _ => false,
        };
        match one {
            Some(one) if same => report.count(one.kind),
            _ => {
                report.difference = Some(Difference {
                    after_steps: report.steps(),
                    expected: describe(one, |step| pieces.place_of_expected(step)),
                    actual: describe(other, |step| pieces.place_of_actual(step)),
                });
                return report;
            }
        }
    }
}

fn pair_bases(
    pieces: &mut Pieces,
    expected: &[SegmentState],
    actual: &[SegmentState],
) -> Result<(), (String, String)> {
    let many = |n: usize| format!("{n} segments at the start");
    if expected.len() != actual.len() {
        return Err((many(expected.len()), many(actual.len())));
    }
    for (one, other) in expected.iter().zip(actual) {
        let (one, other) = (Step::segment_at_start(one), Step::segment_at_start(other));
        if !one.is_like(&other) || !pieces.accept(&one, &other) {
            return Err((describe(Some(one), |_| None), describe(Some(other), |_| None)));
        }
    }
    Ok(())
}

fn describe(step: Option<Step>, place: impl Fn(&Step) -> Option<(u64, u64)>) -> String {
    let Some(step) = step else { return "the end".to_owned() };
    let what = format!("{} of {} bytes at {}", step.kind.name(), step.bytes, step.addr);
    match place(&step) {
        Some((ordinal, offset)) => format!("{what} (segment {ordinal}, offset {offset})"),
        None => what,
    }
}

#[cfg(test)]
mod tests;
