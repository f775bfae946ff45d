//! Which settings to set: the line of `PYTORCH_CUDA_ALLOC_CONF` under which several runs together reserve the least.
//!
//! The search is coordinate descent over a grid: one knob at a time, all its values side by side, the best kept, until
//! no knob helps any more. It begins at the recorded settings, at none and at expandable segments alone, so it is
//! deterministic and bounded, and not exhaustive. Whatever it names was replayed on every run.
//!
//! A line is better with fewer times out of memory, and for no run more than before; then with a lower reserved peak of
//! the worst run; then fewer device calls; then the simpler line. At the end, a knob is removed if the line is about as
//! good without it.

mod search;

use std::collections::HashMap;

use serde::Serialize;
use settings::Compat;

use crate::advice::{Advice, choose, measure};
use crate::candidate::line::Line;
use crate::candidate::score::Score;
pub use crate::candidate::{Member, TuneError};
use search::Tuner;

/// The figures of one run under one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The most it held from the device at once.
    pub peak_reserved_bytes: u64,
    /// Calls that obtain or return device memory.
    pub device_calls: i64,
    /// Times the cache was flushed because the device had no memory.
    pub num_alloc_retries: i64,
    /// Times memory was out.
    pub num_ooms: i64,
    /// The smallest device that is enough, as a bisection finds it; `None` where none is.
    pub fits_from_bytes: Option<u64>,
    /// Memory that the run's own device has beyond that; negative if it is too small, `None` if either is unknown.
    pub margin_bytes: Option<i64>,
}

/// A line, and the figures of every run under it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// The text for `PYTORCH_CUDA_ALLOC_CONF`.
    pub settings: String,
    /// Whether it needs `search_after_flush:True` in `VRAMTAPE_CONF`, which PyTorch's own allocator does not have.
    pub search_after_flush: bool,
    /// A run each, in the order in which they were given.
    pub runs: Vec<Outcome>,
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuning {
    /// As recorded, each run with its own settings and their changes; the text is the first run's.
    pub before: Proof,
    /// The advice that every verb prints for these runs.
    pub advice: Advice,
    /// The advised line, or the search's best where none is advised; `None` where there is nothing to gain.
    pub best: Option<Proof>,
    /// The search's best line, where it is a gain over the advised one.
    pub further: Option<Proof>,
    /// The best line that makes no more device calls than before, where the best one does and this is a gain too.
    pub best_without_more_calls: Option<Proof>,
    /// The runs under `stitch`, for comparison: it ran on one GPU so far. `None` where it cannot be replayed.
    pub stitch: Option<Proof>,
    /// Lines that were replayed.
    pub lines: usize,
    /// Whether the search stopped at its limit rather than where nothing helped any more.
    pub stopped_early: bool,
}

/// Searches with at most about `lines_max` lines; the one it is at is replayed to the end. `progress` is called
/// after each replay.
///
/// # Errors
/// When a run cannot be replayed, or the runs' settings cannot be tuned together.
pub fn tune(
    members: &[Member<'_>],
    compat: Compat,
    lines_max: usize,
    progress: &(dyn Fn() + Sync),
) -> Result<Tuning, TuneError> {
    let first = members.first().ok_or(TuneError::Empty)?;
    let recorded = Line::read(&first.settings);
    for member in members {
        if Line::read(&member.settings).rest != recorded.rest {
            let (one, other) = (first.settings.clone(), member.settings.clone());
            return Err(TuneError::Different { one, other });
        }
    }
    let mut tuner =
        Tuner { members, compat, lines_max, progress, before: Score::NONE, seen: HashMap::new() };
    let (configs, reports) = tuner.before()?;
    tuner.before = Score::of(&reports, None);
    let measured = members
        .iter()
        .map(|member| measure(member, compat, &[], progress))
        .collect::<Result<Vec<_>, _>>()?;
    let advice = choose(&measured).ok_or(TuneError::Empty)?;
    let advised = advice
        .settings
        .as_deref()
        .map(|text| Line { search_after_flush: advice.search_after_flush, ..Line::read(text) });
    if let Some(line) = &advised {
        tuner.replay_now(line)?;
    }
    tuner.descend(&recorded)?;
    let found = tuner.best(i64::MAX)?.filter(|line| tuner.gain(line));
    let (best, further) = match advised {
        Some(advised) => {
            let further = found.filter(|line| tuner.is_gain_over(line, &advised));
            (Some(advised), further)
        }
        None => (found, None),
    };
    let frugal = tuner.best(tuner.before.device_calls)?.filter(|line| tuner.gain(line));
    let frugal = frugal.filter(|line| {
        best.as_ref().is_some_and(|best| tuner.calls_more(best))
            && ![best.as_ref(), further.as_ref()].contains(&Some(line))
    });
    let mut before = tuner.proof(&recorded, &configs, &reports)?;
    before.settings.clone_from(&first.settings);
    Ok(Tuning {
        before,
        advice,
        best: best.map(|line| tuner.replayed_proof(&line)).transpose()?,
        further: further.map(|line| tuner.replayed_proof(&line)).transpose()?,
        best_without_more_calls: frugal.map(|line| tuner.replayed_proof(&line)).transpose()?,
        stitch: tuner.stitched_proof(&recorded)?,
        lines: tuner.seen.values().flatten().count(),
        stopped_early: tuner.is_full(),
    })
}
