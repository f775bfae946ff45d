//! Texts of the page: streams, pools, groups, and the stacks with their frames.

use replay::holders::CodeLabels;
use replay::tape::Tape;
use serde::Serialize;
use trace_format::StackId;

/// The code that made an allocation, by its stack: a place in [`CodeLabels::labels`].
#[derive(Debug)]
pub(crate) struct CodeOf {
    pub(crate) labels: CodeLabels,
}

impl CodeOf {
    pub(crate) fn new(tape: &Tape) -> Self {
        Self { labels: CodeLabels::of(tape) }
    }

    /// Of an allocation before the first record.
    pub(crate) fn before(&self, stack: StackId) -> u32 {
        self.labels.of_stack(stack).unwrap_or(self.labels.before_tape)
    }

    /// Of an allocation on the tape.
    #[inline]
    pub(crate) fn recorded(&self, stack: StackId) -> u32 {
        self.labels.of_stack(stack).unwrap_or(self.labels.without_stack)
    }
}

/// The texts of one device.
#[derive(Debug, Serialize)]
pub(crate) struct Names<'t> {
    pub(crate) streams: Vec<String>,
    pub(crate) pools: Vec<String>,
    pub(crate) marks: Vec<&'t str>,
    /// The labels of the groups of each grouping.
    pub(crate) groups: Vec<Vec<String>>,
    pub(crate) strings: &'t [String],
    pub(crate) frames: Frames,
    pub(crate) stacks: Vec<Vec<u32>>,
}

/// The frames, column by column.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Frames {
    name: Vec<u32>,
    file: Vec<u32>,
    line: Vec<u32>,
}

impl Frames {
    pub(crate) fn of(tape: &Tape) -> Self {
        let frames = &tape.stacks.frames;
        Self {
            name: frames.iter().map(|frame| frame.name.0).collect(),
            file: frames.iter().map(|frame| frame.filename.0).collect(),
            line: frames.iter().map(|frame| frame.line).collect(),
        }
    }
}

/// The frames of each stack, innermost first.
pub(crate) fn stacks(tape: &Tape) -> Vec<Vec<u32>> {
    let stacks = tape.stacks.stacks.iter();
    stacks.map(|stack| stack.iter().map(|frame| frame.0).collect()).collect()
}
