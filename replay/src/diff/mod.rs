//! What grew between two runs: memory at the peak and over a median step, by code, module, category and phase.
//!
//! Code is matched by its functions and files, not by lines, so that edits elsewhere in a file are no difference.

mod align;
mod profile;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::holders::OwnCode;
use crate::tape::{Device, Tape};
use align::align;
use profile::{Profile, Sums};

/// A number of both runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Of the first run, in bytes.
    pub before_bytes: u64,
    /// Of the second run, in bytes.
    pub after_bytes: u64,
}

impl Pair {
    /// Bytes that the second run has more; negative where it has less.
    pub fn grown_bytes(self) -> i128 {
        i128::from(self.after_bytes) - i128::from(self.before_bytes)
    }
}

/// A group of blocks whose bytes differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The code, the module, the category or the phase, as the second run has it if it has it.
    pub name: String,
    /// Its bytes.
    #[serde(flatten)]
    pub bytes: Pair,
}

/// The groups that differ, each kind by the size of the difference, growth first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// By the user's own code.
    pub code: Vec<Change>,
    /// By module; empty where neither run has marks of modules.
    pub modules: Vec<Change>,
    /// By category; empty where neither run has categories.
    pub categories: Vec<Change>,
    /// By the phase of the allocation; empty where neither run has phases.
    pub phases: Vec<Change>,
}

/// The difference between two runs on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunDiff {
    /// The most that was allocated at once.
    pub peak: Pair,
    /// The most that was held from the device; `None` where a source has no segments.
    pub reserved: Option<Pair>,
    /// Bytes allocated in a median step; `None` where a run has no two marks of steps.
    pub step: Option<Pair>,
    /// Steps of both runs that the medians are of.
    pub steps: [usize; 2],
    /// Live bytes at the peak.
    pub at_peak: Changes,
    /// Bytes allocated in a median step.
    pub over_step: Changes,
}

/// Compares two runs on a device of each.
pub fn diff(before: (&Tape, &Device), after: (&Tape, &Device), step: Option<&str>) -> RunDiff {
    let codes = [OwnCode::of(before.0), OwnCode::of(after.0)];
    let [one, other] = [
        Profile::of(before.0, before.1, &codes[0], step),
        Profile::of(after.0, after.1, &codes[1], step),
    ];
    let pair = |of: fn(&Profile) -> Option<u64>| {
        let (before_bytes, after_bytes) = of(&one).zip(of(&other))?;
        Some(Pair { before_bytes, after_bytes })
    };
    let pairs = align(&codes[0].codes, &codes[1].codes);
    let code = |of: fn(&Sums) -> u64| {
        let bytes =
            |profile: &Profile, at: Option<usize>| at.map_or(0, |at| of(&profile.codes[at]));
        let change = |(before, after): &(Option<usize>, Option<usize>)| {
            let name = after.map(|at| codes[1].codes[at].line());
            let name = name.or_else(|| before.map(|at| codes[0].codes[at].line()));
            let (before_bytes, after_bytes) = (bytes(&one, *before), bytes(&other, *after));
            Change { name: name.unwrap_or_default(), bytes: Pair { before_bytes, after_bytes } }
        };
        ordered(pairs.iter().map(change).collect())
    };
    let changes = |of: fn(&Sums) -> u64| Changes {
        code: code(of),
        modules: named(&one.modules, &other.modules, of),
        categories: named(&one.categories, &other.categories, of),
        phases: named(&one.phases, &other.phases, of),
    };
    let has_steps = one.step_bytes.is_some() && other.step_bytes.is_some();
    RunDiff {
        peak: pair(|run| Some(run.peak_bytes)).unwrap_or_default(),
        reserved: pair(|run| run.reserved_bytes),
        step: pair(|run| run.step_bytes),
        steps: [one.steps, other.steps],
        at_peak: changes(|sums| sums.peak_bytes),
        over_step: if has_steps { changes(|sums| sums.step_bytes) } else { Changes::default() },
    }
}

type Named = BTreeMap<String, Sums>;

/// The groups of one name in both runs.
fn named(before: &Named, after: &Named, of: fn(&Sums) -> u64) -> Vec<Change> {
    let mut pairs: BTreeMap<&str, Pair> = BTreeMap::new();
    for (name, sums) in before {
        pairs.entry(name).or_default().before_bytes = of(sums);
    }
    for (name, sums) in after {
        pairs.entry(name).or_default().after_bytes = of(sums);
    }
    let change = |(name, bytes): (&str, Pair)| Change { name: name.to_owned(), bytes };
    ordered(pairs.into_iter().map(change).collect())
}

/// Those that differ, growth first.
fn ordered(mut changes: Vec<Change>) -> Vec<Change> {
    changes.retain(|change| change.bytes.grown_bytes() != 0);
    changes.sort_by_cached_key(|change| (Reverse(change.bytes.grown_bytes()), change.name.clone()));
    changes
}

#[cfg(test)]
mod tests;
