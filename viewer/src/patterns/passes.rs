//! Forward pass, backward pass and optimizer step: by the stacks of their allocations, or by the marks of phases.

use replay::tape::Tape;
use trace_format::{Event, FrameId, MarkKind, Record, Source};

use crate::follow::{Followed, Life};

/// The part of a program that an allocation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Forward,
    Backward,
    /// A part of the forward pass that the backward pass runs again (`torch.utils.checkpoint`).
    Recomputation,
    Optimizer,
}

/// A stretch of moments, `start..end`, of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) pass: Pass,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Fewer allocations than this are a part of what surrounds them.
const ALLOCS_MIN: usize = 8;
/// This part of the allocations has to be of a forward pass, or those without frames may be anything.
const FORWARD_PART: f64 = 0.02;

/// The pass of each stack of a snapshot. The threads of PyTorch's autograd engine have no Python frames, so stacks
/// without frames are the backward pass's.
fn of_stacks(tape: &Tape) -> Vec<Option<Pass>> {
    let text = |id| tape.text(id);
    let of_stack = |frames: &[FrameId]| {
        let frames = || frames.iter().map(|frame| &tape.stacks.frames[frame.0 as usize]);
        let in_file = |part: &str| frames().any(|frame| text(frame.filename).contains(part));
        let has_name = |is_it: fn(&str) -> bool| frames().any(|frame| is_it(text(frame.name)));
        let recomputes = |name: &str| matches!(name, "unpack_hook" | "recompute_fn" | "backward");
        if in_file("torch/utils/checkpoint.py") && has_name(recomputes) {
            Some(Pass::Recomputation)
        } else if in_file("torch/optim/") {
            Some(Pass::Optimizer)
        } else if frames().next().is_none() || in_file("torch/autograd/") {
            Some(Pass::Backward)
        } else {
            has_name(|name| name.ends_with("_call_impl")).then_some(Pass::Forward)
        }
    };
    tape.stacks.stacks.iter().map(|frames| of_stack(frames)).collect()
}

/// The passes by the stacks of a snapshot; empty without stacks. Tapes have marks instead, and their stacks of the
/// engine's threads are those of the forward pass.
pub(super) fn by_stacks(followed: &Followed, tape: &Tape) -> Vec<Run> {
    if tape.meta.source != Source::Imported || tape.stacks.frames.is_empty() {
        return Vec::new();
    }
    let of_stacks = of_stacks(tape);
    let lives = &followed.lives[followed.lives_before..];
    let pass = |life: &Life| {
        let stack = followed.kinds[life.kind as usize].stack as usize;
        of_stacks.get(stack).copied().unwrap_or(Some(Pass::Backward))
    };
    let forward = lives.iter().filter(|life| pass(life) == Some(Pass::Forward)).count();
    if (forward as f64) < FORWARD_PART * lives.len() as f64 {
        return Vec::new();
    }
    let mut runs: Vec<(Run, usize)> = Vec::new();
    for life in lives {
        let Some(pass) = pass(life) else { continue };
        match runs.last_mut() {
            Some((run, allocs)) if run.pass == pass => {
                run.end = life.start + 1;
                *allocs += 1;
            }
            _ => runs.push((Run { pass, start: life.start, end: life.start + 1 }, 1)),
        }
    }
    runs.retain(|(_, allocs)| *allocs >= ALLOCS_MIN);
    runs.into_iter().map(|(run, _)| run).collect()
}

/// The passes by the marks of phases.
pub(super) fn by_marks(followed: &Followed, records: &[Record], tape: &Tape) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut is_open = false;
    for (moment, record) in followed.others(records) {
        let Event::Mark { kind, name } = record.event else { continue };
        if !matches!(kind, MarkKind::Phase | MarkKind::Step) {
            continue;
        }
        if is_open && let Some(run) = runs.last_mut() {
            run.end = moment;
        }
        let pass = match tape.text(name) {
            "forward" => Some(Pass::Forward),
            "backward" => Some(Pass::Backward),
            "optimizer" => Some(Pass::Optimizer),
            _ => None,
        };
        is_open = kind == MarkKind::Phase && pass.is_some();
        if let Some(pass) = pass.filter(|_| is_open) {
            runs.push(Run { pass, start: moment, end: followed.moments });
        }
    }
    runs
}
