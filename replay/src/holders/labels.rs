//! The code of every stack of a tape, under the names that rows of holders have.

use hashbrown::HashMap;
use trace_format::StackId;

use super::group::{UNATTRIBUTED, known_stacks, label, short_names};
use super::{HolderKind, sampled_every_bytes};
use crate::tape::Tape;

/// Which code each stack belongs to: the innermost line of the user's own, as in the rows of holders.
#[derive(Clone, Debug)]
pub struct CodeLabels {
    /// The place in `labels` of each stack.
    of_stack: Vec<Option<u32>>,
    /// Code in a few words, each once: `model.py:41 attention`.
    pub labels: Vec<String>,
    /// The label of recorded allocations without a stack.
    pub without_stack: u32,
    /// The label of allocations without a stack from before the tape begins.
    pub before_tape: u32,
}

impl CodeLabels {
    /// Resolves the stacks of a tape.
    pub fn of(tape: &Tape) -> Self {
        let known = known_stacks(&tape.stacks);
        let names = short_names(&known);
        let (mut labels, mut of_row) = (Vec::new(), HashMap::new());
        let of_stack = known.iter().map(|stack| {
            let is_known = !stack.frames.is_empty();
            is_known.then(|| {
                *of_row.entry(&stack.key).or_insert_with(|| {
                    labels.push(label(stack, &names));
                    labels.len() as u32 - 1
                })
            })
        });
        let of_stack = of_stack.collect();
        let mut unattributed = |wanted: HolderKind| {
            let row = UNATTRIBUTED.iter().find(|(kind, _)| *kind == wanted);
            labels.extend(row.map(|(_, label)| (*label).to_owned()));
            labels.len() as u32 - 1
        };
        let is_sampled = sampled_every_bytes(tape).is_some();
        let without_stack =
            unattributed(if is_sampled { HolderKind::NotSampled } else { HolderKind::NoStack });
        let before_tape = unattributed(HolderKind::BeforeTape);
        Self { of_stack, labels, without_stack, before_tape }
    }

    /// The place of a stack's code in `labels`; `None` where the stack has no frame.
    pub fn of_stack(&self, stack: StackId) -> Option<u32> {
        self.of_stack.get(stack.0 as usize).copied().flatten()
    }
}
