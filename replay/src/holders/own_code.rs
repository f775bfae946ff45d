//! The user's own code of every stack of a tape: the frames that are neither a library's nor ours.

use hashbrown::HashMap;
use serde::Serialize;
use trace_format::StackId;

use super::frame::HolderFrame;
use super::group::{RowKey, UNATTRIBUTED, known_stacks, label, short_names};
use super::names::callers;
use super::{HolderKind, sampled_every_bytes};
use crate::tape::Tape;

/// The own code of a tape's stacks. Stacks that differ in frames of libraries only have the same.
#[derive(Clone, Debug)]
pub struct OwnCode {
    /// The place in `codes` of each stack.
    of_stack: Vec<Option<u32>>,
    /// Each code once. The last two are of blocks without a stack: recorded, and from before the tape.
    pub codes: Vec<Code>,
}

/// The own code of one or more stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Code {
    /// How the code is known.
    pub kind: HolderKind,
    /// Its innermost frame in a few words: `model.py:41 attention`.
    pub label: String,
    /// Its callers in a line, innermost first, frames of libraries folded.
    pub callers: String,
    /// The frame that names it and its own callers, innermost first.
    pub frames: Vec<HolderFrame>,
}

impl Code {
    /// Label and callers in one line.
    pub fn line(&self) -> String {
        let arrow = if self.callers.is_empty() { "" } else { " < " };
        format!("{}{arrow}{}", self.label, self.callers)
    }
}

impl OwnCode {
    /// Resolves the stacks of a tape.
    pub fn of(tape: &Tape) -> Self {
        let known = known_stacks(&tape.stacks);
        let names = short_names(&known);
        let mut codes = Vec::new();
        let mut of_key: HashMap<(&RowKey, Vec<&HolderFrame>), u32> = HashMap::new();
        let of_stack = known.iter().map(|stack| {
            if stack.frames.is_empty() {
                return None;
            }
            let key = (&stack.key, stack.own_frames());
            Some(*of_key.entry(key).or_insert_with_key(|(_, frames)| {
                codes.push(Code {
                    kind: stack.kind(),
                    label: label(stack, &names),
                    callers: callers(&stack.frames, stack.at(), &names),
                    frames: frames.iter().copied().cloned().collect(),
                });
                codes.len() as u32 - 1
            }))
        });
        let of_stack = of_stack.collect();
        let is_sampled = sampled_every_bytes(tape).is_some();
        let without = if is_sampled { HolderKind::NotSampled } else { HolderKind::NoStack };
        for wanted in [without, HolderKind::BeforeTape] {
            let row = UNATTRIBUTED.iter().find(|(kind, _)| *kind == wanted);
            let label = row.map_or("", |(_, label)| *label).to_owned();
            codes.push(Code { kind: wanted, label, callers: String::new(), frames: Vec::new() });
        }
        Self { of_stack, codes }
    }

    /// The place in `codes` of a recorded allocation's stack.
    pub fn of_alloc(&self, stack: StackId) -> usize {
        self.of_stack(stack).unwrap_or(self.codes.len() - 2)
    }

    /// The same of a block that was live before the first record.
    pub fn of_base(&self, stack: StackId) -> usize {
        self.of_stack(stack).unwrap_or(self.codes.len() - 1)
    }

    fn of_stack(&self, stack: StackId) -> Option<usize> {
        self.of_stack.get(stack.0 as usize).copied().flatten().map(|at| at as usize)
    }
}

#[cfg(test)]
mod tests {
    use trace_format::{Frame, FrameId};

    use super::*;

    const MODULE: &str = "/v/lib/python3.12/site-packages/torch/nn/modules/module.py";

    #[test]
    fn stacks_that_differ_in_library_frames_only_are_the_same_code() {
        let mut tape = Tape::default();
        let mut stack = |frames: &[(&str, &str, u32)]| {
            let mut ids = Vec::new();
            for (function, file, line) in frames {
                let name = tape.stacks.add_string(function);
                let filename = tape.stacks.add_string(file);
                tape.stacks.frames.push(Frame { name, filename, line: *line });
                ids.push(FrameId(tape.stacks.frames.len() as u32 - 1));
            }
            tape.stacks.stacks.push(ids.into());
            StackId(tape.stacks.stacks.len() as u32 - 1)
        };
        let (forward, main) = (("forward", "/d/model.py", 4), ("main", "/d/train.py", 9));
        let one = stack(&[forward, ("_call_impl", MODULE, 1), main]);
        let other = stack(&[("linear", MODULE, 3), forward, ("_call_impl", MODULE, 2), main]);
        let elsewhere = stack(&[forward, ("_call_impl", MODULE, 1), ("main", "/d/train.py", 10)]);
        let code = OwnCode::of(&tape);
        assert_eq!(code.of_alloc(one), code.of_alloc(other));
        assert_ne!(code.of_alloc(one), code.of_alloc(elsewhere), "another caller");
        let found = &code.codes[code.of_alloc(one)];
        assert_eq!(found.line(), "model.py:4 forward < ... 1 frame of torch < train.py:9 main");
        assert_eq!(found.frames.len(), 2);
        let without = [code.of_alloc(StackId::NONE), code.of_base(StackId::NONE)];
        let kinds = without.map(|at| code.codes[at].kind);
        assert_eq!(kinds, [HolderKind::NoStack, HolderKind::BeforeTape]);
    }
}
