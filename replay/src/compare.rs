//! One tape under several strategies and settings: the table that decides.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::driver::{DriveError, Follow};
use crate::report::Report;
use crate::run::{DeviceTape, Options, run, run_over_time};
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

/// Replays a tape under each strategy, on a device of the given capacity, from the state the tape starts with; several
/// at once, as many as the machine has cores. The reports come in the order of `choices`. `progress` receives the
/// number of records done in all, from any thread.
///
/// # Errors
/// When the tape contradicts itself, its start does not fit the capacity, or a strategy cannot start.
pub fn compare(
    tape: DeviceTape<'_>,
    choices: &[Choice],
    capacity_bytes: Option<u64>,
    follow: Follow,
    progress: impl Fn(u64) + Sync,
) -> Result<Vec<Report>, DriveError> {
    each(choices, capacity_bytes, follow, progress, |options, reported| {
        run(tape, options, reported)
    })
}

/// The same, with what each held over time at no more than `points` points.
///
/// # Errors
/// As [`compare`].
pub fn compare_over_time(
    tape: DeviceTape<'_>,
    choices: &[Choice],
    capacity_bytes: Option<u64>,
    follow: Follow,
    points: usize,
    progress: impl Fn(u64) + Sync,
) -> Result<Vec<(Report, Vec<Point>)>, DriveError> {
    each(choices, capacity_bytes, follow, progress, |options, reported| {
        run_over_time(tape, options, points, reported)
    })
}

fn each<T: Send>(
    choices: &[Choice],
    capacity_bytes: Option<u64>,
    follow: Follow,
    progress: impl Fn(u64) + Sync,
    replayed: impl Fn(&Options, &mut dyn FnMut(u64)) -> Result<T, DriveError> + Sync,
) -> Result<Vec<T>, DriveError> {
    let done = AtomicU64::new(0);
    let replay = |choice: &Choice| {
        let options = Options {
            strategy: choice.clone(),
            capacity_bytes,
            memory_fraction: None,
            recorded_addresses: false,
            // The tape's own changes of settings would undo the ones in question.
            follow: Follow { settings: false, ..follow },
        };
        let mut reported = 0;
        replayed(&options, &mut |records| {
            let before = done.fetch_add(records - reported, Ordering::Relaxed);
            progress(before + records - reported);
            reported = records;
        })
    };
    choices.par_iter().map(replay).collect()
}
