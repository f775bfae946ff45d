//! The parts of training steps, for labels over the picture of memory.
//!
//! Forward pass, backward pass and optimizer step come from the marks of phases or, in a snapshot, from the stacks of
//! allocations ([`passes`]): shape alone confuses gradients with activations, as both are freed in the reverse order of
//! their allocations. Within them, shape identifies logits and activations that are computed again ([`mod@waves`]). A
//! run without a backward pass has no patterns. `docs/view.md` states the rules for readers.

mod passes;
mod waves;

use replay::tape::Tape;
use serde::Serialize;
use trace_format::Record;

use crate::follow::{Followed, Life, NO_END};
use passes::{Pass, Run};
use waves::waves;

/// A life with its size.
type Sized = (Life, u64);

/// The lives that begin at moments `from..to`, in the order of their starts.
fn starting(
    followed: &Followed,
    from: u32,
    to: u32,
) -> impl DoubleEndedIterator<Item = Sized> + Clone + '_ {
    let place = |moment| followed.lives.partition_point(|life| life.start < moment);
    let lives = &followed.lives[place(from)..place(to.max(from))];
    lives.iter().map(|life| (*life, followed.kinds[life.kind as usize].size_bytes))
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pattern {
    /// `forward`, `backward`, `logits`, `recomputation`, `optimizer step`, `parameters`, `optimizer state` or
    /// `tallest spike`.
    pub name: &'static str,
    /// Its first moment.
    pub start: u32,
    /// The moment behind its last.
    pub end: u32,
    /// Whether it is a phase by the program's marks, which a page shows already.
    #[serde(skip)]
    pub is_phase: bool,
}

impl Pattern {
    fn new(name: &'static str, start: u32, end: u32) -> Self {
        Self { name, start, end, is_phase: false }
    }
}

const PHASES: [&str; 3] = ["forward", "backward", "optimizer step"];
/// Waves of recomputation in a backward pass, by shape; fewer are chance.
const WAVES_MIN: usize = 4;
/// Logits are so many times as large as the next smaller block, and at most one of so many blocks.
const LOGITS_TIMES: u64 = 3;
const LOGITS_OF: usize = 4;
/// Logits begin in this last part of the forward pass.
const LOGITS_PART: f64 = 0.3;
/// Memory that stays has a name from this part of the peak on.
const BYTES_PART: f64 = 0.02;
/// Memory that stays is there when this part of its bytes is: workspaces of libraries come later.
const MOST_PART: f64 = 0.95;
/// Blocks that live for this part of the run stay.
const STAYING_PART: f64 = 0.5;

/// The parts of the steps of a device, ordered by their starts, longer ones first where they start together.
pub(crate) fn patterns(followed: &Followed, records: &[Record], tape: &Tape) -> Vec<Pattern> {
    let mut runs = passes::by_marks(followed, records, tape);
    let is_marked = has_steps(&runs);
    if !is_marked {
        runs = passes::by_stacks(followed, tape);
    }
    if !has_steps(&runs) {
        return Vec::new();
    }
    let last_moment = records.len() as u32;
    let mut found = steps(&runs, followed);
    for pattern in &mut found {
        pattern.is_phase = is_marked && PHASES.contains(&pattern.name);
    }
    found.extend(staying(&runs, followed, last_moment));
    found.extend(spike(followed, last_moment));
    found.sort_by_key(|it| (it.start, u32::MAX - it.end, it.name));
    found
}

fn has_steps(runs: &[Run]) -> bool {
    runs.iter().any(|run| run.pass == Pass::Backward)
}

/// The passes that end in a backward pass or follow one, with logits and recomputation.
fn steps(runs: &[Run], followed: &Followed) -> Vec<Pattern> {
    let mut found = Vec::new();
    let (mut forward, mut at) = (None, 0);
    while let Some(run) = runs.get(at) {
        at += 1;
        match run.pass {
            Pass::Forward => forward = Some(*run),
            Pass::Optimizer => {
                found.push(Pattern::new("optimizer step", run.start, run.end));
            }
            Pass::Backward | Pass::Recomputation => {
                let mut backward = *run;
                let mut again = (run.pass == Pass::Recomputation)
                    .then_some(*run)
                    .into_iter()
                    .collect::<Vec<_>>();
                while let Some(next) = runs.get(at) {
                    match next.pass {
                        Pass::Recomputation => again.push(*next),
                        Pass::Backward => {}
                        Pass::Forward | Pass::Optimizer => break,
                    }
                    backward.end = next.end;
                    at += 1;
                }
                if let Some(forward) = forward.take() {
                    let logits = logits(forward, backward, followed);
                    found.push(Pattern::new("forward", forward.start, forward.end));
                    found.extend(logits);
                }
                found.push(Pattern::new("backward", backward.start, backward.end));
                found.extend(recomputation(backward, &again, followed));
            }
        }
    }
    found
}

/// By stacks, or by shape without them.
fn recomputation(backward: Run, again: &[Run], followed: &Followed) -> Vec<Pattern> {
    let named = |(start, end)| Pattern::new("recomputation", start, end);
    if !again.is_empty() {
        return again.iter().map(|run| named((run.start, run.end))).collect();
    }
    let inside: Vec<Sized> = starting(followed, backward.start, backward.end).collect();
    let found = waves(&inside, backward.start, backward.end);
    if found.len() < WAVES_MIN {
        return Vec::new();
    }
    found.into_iter().map(named).collect()
}

/// The blocks of the end of the forward pass that are far larger than the others.
fn logits(forward: Run, backward: Run, followed: &Followed) -> Option<Pattern> {
    let made = starting(followed, forward.start, backward.start);
    // Blocks that stay beyond the backward pass are no activations.
    let is_kept = |life: &Life| life.end > backward.start && life.end <= backward.end + 1;
    let kept: Vec<Sized> = made.filter(|(life, _)| is_kept(life)).collect();
    let least = large_from(kept.iter().map(|(_, bytes)| *bytes).collect())?;
    let large = || kept.iter().filter(|(_, bytes)| *bytes >= least).map(|(life, _)| life);
    let (start, end) = (large().map(|life| life.start).min()?, large().map(|life| life.end).max()?);
    let late = backward.start - (f64::from(backward.start - forward.start) * LOGITS_PART) as u32;
    (start >= late).then_some(Pattern::new("logits", start, end))
}

/// The least of a few sizes that are far larger than all others.
fn large_from(mut sizes: Vec<u64>) -> Option<u64> {
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let few = (sizes.len() / LOGITS_OF).max(1);
    let gap = sizes.windows(2).take(few).find(|pair| pair[0] >= LOGITS_TIMES * pair[1]);
    gap.map(|pair| pair[0])
}

/// Where parameters and the optimizer's state are allocated.
fn staying(runs: &[Run], followed: &Followed, last_moment: u32) -> Vec<Pattern> {
    let least = (f64::from(last_moment) * STAYING_PART) as u32;
    let stays = |life: &Life| life.end == NO_END || life.end - life.start > least;
    let first = runs.first().map_or(0, |run| run.start);
    let named = |name, from: u32, to: u32| {
        let made = starting(followed, from.max(1), to);
        let inside = || made.clone().filter(|(life, _)| stays(life));
        let all_bytes: u64 = inside().map(|(_, bytes)| bytes).sum();
        let mut sum = 0;
        let most = inside().find(|(_, bytes)| {
            sum += bytes;
            sum as f64 >= MOST_PART * all_bytes as f64
        });
        let (start, end) = (inside().next()?.0.start, most?.0.start + 1);
        (all_bytes as f64 >= BYTES_PART * followed.peak.allocated_bytes as f64)
            .then_some(Pattern::new(name, start, end))
    };
    let state = runs.iter().filter(|run| run.pass == Pass::Optimizer);
    let state = state.filter_map(|run| named("optimizer state", run.start, run.end));
    named("parameters", 0, first).into_iter().chain(state).collect()
}

/// The block whose allocation made the highest peak.
fn spike(followed: &Followed, last_moment: u32) -> Option<Pattern> {
    let peak = followed.peak_allocated_moment;
    let (life, _) = starting(followed, peak, peak + 1).next()?;
    Some(Pattern::new("tallest spike", peak, life.end.min(last_moment + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_sizes_above_a_gap_are_large() {
        let with = |large: &[u64]| [&[4, 4, 4, 5, 5, 6, 6, 8, 8, 8, 9, 9][..], large].concat();
        assert_eq!(large_from(with(&[30, 60])), Some(30));
        assert_eq!(large_from(with(&[30, 200])), Some(200), "the highest gap");
        assert_eq!(large_from(with(&[20])), None, "not far larger");
        assert_eq!(large_from(with(&[30; 9])), None, "not few");
        assert_eq!(large_from(Vec::new()), None);
    }
}
