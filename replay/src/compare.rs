//! One tape under several strategies and settings: the table that decides.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::driver::{DriveError, Follow, Result};
use crate::report::Report;
use crate::run::{Addresses, DeviceTape, Options, run, run_over_time};
use crate::series::Point;
use crate::strategy::Choice;

/// The settings of PyTorch that people reach for first, beside the recorded ones.
pub const USUAL_SETTINGS: [&str; 6] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:4,max_split_size_mb:256",
];

/// A strategy with its settings, and what a replay under it found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StrategyRow {
    /// The whole tape was replayed.
    Replayed {
        /// Its figures.
        #[serde(flatten)]
        report: Report,
        /// What it held over time; empty where no points were asked for.
        #[serde(skip)]
        points: Vec<Point>,
    },
    /// The replay was stopped at the [bound of driver calls](trace_format::Bound::DRIVER_CALLS).
    Refused {
        /// Its name in the [table](crate::strategy::TABLE).
        strategy: String,
        /// Its settings.
        config: String,
        /// Where it was stopped, and the bound.
        error: String,
    },
}

impl StrategyRow {
    /// The figures of a whole replay.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Replayed { report, .. } => Some(report),
            Self::Refused { .. } => None,
        }
    }

    /// The strategy's name and its settings.
    pub fn name_and_config(&self) -> (&str, &str) {
        match self {
            Self::Replayed { report: Report { strategy, config, .. }, .. }
            | Self::Refused { strategy, config, .. } => (strategy, config),
        }
    }

    /// What it held over time.
    pub fn points(&self) -> &[Point] {
        match self {
            Self::Replayed { points, .. } => points,
            Self::Refused { .. } => &[],
        }
    }

    /// Why there are no figures.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Replayed { .. } => None,
            Self::Refused { error, .. } => Some(error),
        }
    }
}

/// Replays a tape under each strategy, on a device of the given capacity, from the state the tape starts with; several
/// at once, as many as the machine has cores. The rows come in the order of `choices`, each with what it held over time
/// at no more than `points` points. The first choice is the recorded settings if `follow.is_as_recorded`. `progress`
/// receives the number of records done in all, from any thread.
///
/// # Errors
/// When the tape contradicts itself, its start does not fit the capacity, or a strategy cannot start.
pub fn compare(
    tape: DeviceTape<'_>,
    choices: &[Choice],
    capacity_bytes: Option<u64>,
    follow: Follow,
    points: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<StrategyRow>> {
    let done = AtomicU64::new(0);
    let replay = |(at, choice): (usize, &Choice)| {
        let options = Options {
            strategy: choice.clone(),
            capacity_bytes,
            memory_fraction: None,
            addresses: Addresses::Lowest,
            // The tape's own changes of settings would undo the ones in question.
            follow: Follow { is_as_recorded: follow.is_as_recorded && at == 0, ..follow },
        };
        let mut reported = 0;
        let mut at = |records| {
            let before = done.fetch_add(records - reported, Ordering::Relaxed);
            progress(before + records - reported);
            reported = records;
        };
        let replayed = match points {
            0 => run(tape, &options, &mut at).map(|report| (report, Vec::new())),
            _ => run_over_time(tape, &options, points, &mut at),
        };
        match replayed {
            Ok((report, points)) => Ok(StrategyRow::Replayed { report, points }),
            Err(error @ DriveError::TooMuch { .. }) => Ok(StrategyRow::Refused {
                strategy: choice.name().to_owned(),
                config: choice.text().to_owned(),
                error: error.to_string(),
            }),
            Err(error) => Err(error),
        }
    };
    choices.par_iter().enumerate().map(replay).collect()
}
