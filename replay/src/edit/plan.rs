//! Edits against a run: which of its stacks each means, and whether it means anything there.

use trace_format::{Event, Record, StackId, Stream};

use super::{Delay, Edit, EditError};
use crate::snapshot::Stacks;
use crate::tape::Tape;

/// The edits of a run, with the stacks that they mean by their numbers.
#[derive(Default)]
pub(super) struct Plan {
    dropped: Vec<Vec<bool>>,
    scales: Vec<(f64, Vec<bool>)>,
    merges: Vec<(Stream, Stream)>,
    delays: Vec<(Delay, Vec<bool>)>,
}

impl Plan {
    /// The plan of `edits` for this run.
    pub(super) fn new(tape: &Tape, edits: &[Edit]) -> Result<Self, EditError> {
        if edits.is_empty() {
            return Err(EditError::Nothing);
        }
        let stacks = &tape.stacks;
        let mut plan = Self::default();
        for edit in edits {
            match edit {
                Edit::Drop { pattern } => plan.dropped.push(stacks_with(stacks, pattern)?),
                Edit::Scale { factor, pattern } => {
                    if !(*factor > 0.0 && *factor <= 1000.0) {
                        return Err(EditError::Factor { factor: *factor });
                    }
                    let means = match pattern {
                        Some(pattern) => stacks_with(stacks, pattern)?,
                        None => vec![true; stacks.stacks.len().max(1)],
                    };
                    plan.scales.push((*factor, means));
                }
                Edit::MergeStream { from, to } => {
                    find_stream(tape, *from)?;
                    plan.merges.push((*from, *to));
                }
                // Repeats come first, on the whole list of records.
                Edit::Repeat { .. } => {}
                Edit::FreeAfter { delay, pattern } => {
                    if matches!(delay, Delay::Time { .. }) && !has_clock(tape) {
                        return Err(EditError::NoClock);
                    }
                    plan.delays.push((*delay, stacks_with(stacks, pattern)?));
                }
            }
        }
        Ok(plan)
    }

    /// A plan that drops the requests of these stacks.
    pub(super) fn without(stacks: Vec<bool>) -> Self {
        Self { dropped: vec![stacks], ..Self::default() }
    }

    /// A plan that frees the blocks of these stacks after their last recorded use.
    pub(super) fn freeing_early(stacks: Vec<bool>) -> Self {
        Self { delays: vec![(Delay::Requests(0), stacks)], ..Self::default() }
    }

    /// Whether this stack's requests are dropped.
    pub(super) fn drops(&self, stack: StackId) -> bool {
        self.dropped.iter().any(|means| has(means, stack))
    }

    /// The factors of its sizes, one after the other.
    pub(super) fn factors(&self, stack: StackId) -> impl Iterator<Item = f64> {
        let meant = self.scales.iter().filter(move |(_, means)| has(means, stack));
        meant.map(|(factor, _)| *factor)
    }

    /// Where a stream's work is done.
    pub(super) fn stream(&self, stream: Stream) -> Stream {
        let moved = self.merges.iter().find(|(from, _)| *from == stream);
        moved.map_or(stream, |(_, to)| *to)
    }

    /// Whether any block is freed earlier.
    pub(super) fn has_delays(&self) -> bool {
        !self.delays.is_empty()
    }

    /// The delay between the last recorded use and the free of this stack's blocks; the first of several edits counts.
    pub(super) fn delay(&self, stack: StackId) -> Option<Delay> {
        let meant = self.delays.iter().find(|(_, means)| has(means, stack));
        meant.map(|(delay, _)| *delay)
    }
}

fn has(means: &[bool], stack: StackId) -> bool {
    means.get(stack.0 as usize).copied().unwrap_or_default()
}

/// Which stacks have a frame with the pattern.
fn stacks_with(stacks: &Stacks, pattern: &str) -> Result<Vec<bool>, EditError> {
    let has = |stack: usize| stacks.has_frame(StackId(stack as u32), pattern);
    let list: Vec<_> = (0..stacks.stacks.len()).map(has).collect();
    if list.contains(&true) {
        return Ok(list);
    }
    let advice = if stacks.stacks.len() <= 1 {
        ": the run was recorded without stacks; stacks:alloc in VRAMTAPE_CONF records them"
    } else {
        "; `vramtape top`, or the run in PyTorch's viewer, shows its stacks"
    };
    Err(EditError::NoStack { pattern: pattern.to_owned(), advice })
}

fn find_stream(tape: &Tape, stream: Stream) -> Result<(), EditError> {
    let records = tape.devices.iter().flat_map(|device| &device.records);
    let mut known: Vec<_> = records.filter_map(stream_of).collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&stream) {
        return Ok(());
    }
    let known: Vec<_> = known.iter().map(ToString::to_string).collect();
    Err(EditError::NoStream { stream, known: known.join(", ") })
}

fn has_clock(tape: &Tape) -> bool {
    tape.devices.iter().flat_map(|device| &device.records).any(|record| record.time_ns > 0)
}

fn stream_of(record: &Record) -> Option<Stream> {
    match record.event {
        Event::Alloc { stream, .. }
        | Event::Oom { stream, .. }
        | Event::RecordStream { stream, .. } => Some(stream),
        _ => None,
    }
}
