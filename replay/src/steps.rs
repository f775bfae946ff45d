//! The steps of a run: the moments between which a program repeats itself.
//!
//! They are the marks of steps, or marks of a name that the caller chose. In a run without marks the caller can name
//! code instead: a step begins where that code allocates again after other code did.

use serde::Serialize;
use trace_format::{Event, MarkKind, Record, StackId, StringId};

use crate::tape::{Device, Tape};

/// How the steps of a run are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepSource {
    /// By marks of steps.
    Marks,
    /// By the marks of a chosen name.
    Named,
    /// By the allocations of chosen code.
    Code,
    /// The run has no steps.
    None,
}

/// The steps of a device's records, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// How they are known.
    pub source: StepSource,
    /// The record that begins each step, by its place.
    pub begins: Vec<usize>,
}

impl Steps {
    /// Finds the steps of a device. They begin at the marks that are called `name`, where `epoch` also means `epoch 7`;
    /// where there are none, at allocations with a frame that contains `name`, as edits name code. Without a name they
    /// are the marks of steps.
    pub fn of(tape: &Tape, device: &Device, name: Option<&str>) -> Self {
        let records = &device.records;
        let Some(name) = name else {
            let is_step =
                |record: &Record| matches!(record.event, Event::Mark { kind: MarkKind::Step, .. });
            return Self::found(StepSource::Marks, places(records, is_step));
        };
        let is_meant = meant(tape, name);
        let marks = places(records, |record| match record.event {
            Event::Mark { kind, name } if is_begin(kind) => {
                is_meant.get(name.0 as usize).copied().unwrap_or(false)
            }
            _ => false,
        });
        if !marks.is_empty() {
            return Self::found(StepSource::Named, marks);
        }
        Self::found(StepSource::Code, allocations(tape, records, name))
    }

    fn found(source: StepSource, begins: Vec<usize>) -> Self {
        Self { source: if begins.is_empty() { StepSource::None } else { source }, begins }
    }

    /// The name of step number `at`: its mark's, else its number from 1 on.
    pub fn name(&self, tape: &Tape, device: &Device, at: usize) -> String {
        let record = self.begins.get(at).and_then(|place| device.records.get(*place));
        match record.map(|record| record.event) {
            Some(Event::Mark { name, .. }) if name != StringId::default() => {
                tape.text(name).to_owned()
            }
            _ => format!("step {}", at + 1),
        }
    }
}

fn places(records: &[Record], is_begin: impl Fn(&Record) -> bool) -> Vec<usize> {
    let found = records.iter().enumerate().filter(|(_, record)| is_begin(record));
    found.map(|(at, _)| at).collect()
}

fn is_begin(kind: MarkKind) -> bool {
    use MarkKind::{Instant, Phase, RangeBegin, Step};
    matches!(kind, Step | Phase | RangeBegin | Instant)
}

/// Which strings are this name, with or without a number behind it.
fn meant(tape: &Tape, name: &str) -> Vec<bool> {
    let stem = |text: &str| text.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end().len();
    let is_meant = |text: &str| text == name || &text[..stem(text)] == name;
    tape.stacks.strings.iter().map(|text| is_meant(text)).collect()
}

/// Where code allocates after other code did. Allocations without a stack are in whatever surrounds them.
fn allocations(tape: &Tape, records: &[Record], pattern: &str) -> Vec<usize> {
    let stacks = &tape.stacks;
    let is_code = |stack: StackId| {
        let has_frames = !stacks.frame_ids_of(stack).is_empty();
        has_frames.then(|| stacks.has_frame(stack, pattern))
    };
    let ids = (0..stacks.stacks.len() as u32).map(StackId);
    let is_code: Vec<Option<bool>> = ids.map(is_code).collect();
    let (mut begins, mut was_code) = (Vec::new(), false);
    for (at, record) in records.iter().enumerate() {
        if !matches!(record.event, Event::Alloc { .. }) {
            continue;
        }
        let known = is_code.get(record.stack.0 as usize).copied().flatten();
        if let Some(is_code) = known {
            if is_code && !was_code {
                begins.push(at);
            }
            was_code = is_code;
        }
    }
    begins
}

#[cfg(test)]
mod tests {
    use trace_format::{Addr, Frame, FrameId, PoolId, Stream, ThreadId};

    use super::*;

    fn record(stack: u32, event: Event) -> Record {
        Record { time_ns: 0, thread: ThreadId(1), stack: StackId(stack), event }
    }

    fn alloc(stack: u32) -> Record {
        let (stream, pool) = (Stream(0), PoolId::DEFAULT);
        let (requested_bytes, size_bytes) = (512, 512);
        record(stack, Event::Alloc { addr: Addr(0), requested_bytes, size_bytes, stream, pool })
    }

    fn device(records: Vec<Record>) -> Device {
        Device { records, ..Device::default() }
    }

    #[test]
    fn steps_are_marks_of_steps_or_of_a_chosen_name() {
        let mut tape = Tape::default();
        let names = ["step 1", "epoch 1", "step 2", "epoch", "epochs"];
        let names = names.map(|name| tape.stacks.add_string(name));
        let kinds = [MarkKind::Step, MarkKind::RangeBegin, MarkKind::Step, MarkKind::Instant];
        let kinds = kinds.into_iter().chain([MarkKind::Instant]);
        let marks = names.into_iter().zip(kinds);
        let mut records: Vec<_> =
            marks.map(|(name, kind)| record(0, Event::Mark { kind, name })).collect();
        records.push(record(0, Event::Mark { kind: MarkKind::RangeEnd, name: names[1] }));
        let device = device(records);
        let steps = Steps::of(&tape, &device, None);
        assert_eq!((steps.source, &steps.begins[..]), (StepSource::Marks, &[0, 2][..]));
        assert_eq!(steps.name(&tape, &device, 1), "step 2");
        let steps = Steps::of(&tape, &device, Some("epoch"));
        assert_eq!((steps.source, &steps.begins[..]), (StepSource::Named, &[1, 3][..]));
        assert_eq!(Steps::of(&tape, &device, Some("batch")).begins, [0_usize; 0]);
    }

    #[test]
    fn steps_begin_where_named_code_allocates_again() {
        let mut tape = Tape::default();
        for (function, file) in [("load", "/d/train.py"), ("forward", "/d/model.py")] {
            let (name, filename) = (tape.stacks.add_string(function), tape.stacks.add_string(file));
            tape.stacks.frames.push(Frame { name, filename, line: 3 });
            let frame = FrameId(tape.stacks.frames.len() as u32 - 1);
            tape.stacks.stacks.push([frame].into());
        }
        let device = device([2, 0, 1, 0, 1, 2, 2, 1].map(alloc).into());
        let steps = Steps::of(&tape, &device, Some("train.py:3 load"));
        assert_eq!((steps.source, &steps.begins[..]), (StepSource::Code, &[2, 7][..]));
        assert_eq!(steps.name(&tape, &device, 1), "step 2");
        let none = Steps::of(&tape, &device, None);
        assert_eq!((none.source, none.begins.len()), (StepSource::None, 0));
    }
}
