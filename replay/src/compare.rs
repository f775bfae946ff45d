//! One tape under several settings: the table that decides.

use allocator::config::Config;

use crate::driver::{DriveError, Follow};
use crate::report::Report;
use crate::run::{DeviceTape, Options, run};

/// The settings that people reach for first, beside the recorded ones.
pub const USUAL_SETTINGS: [&str; 6] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:4,max_split_size_mb:256",
];

/// Replays a tape under each configuration, on a device of the given capacity, from the state the tape starts with.
/// `progress` hears how many configurations are done.
///
/// # Errors
/// When the tape contradicts itself or its start does not fit the capacity.
pub fn compare(
    tape: DeviceTape<'_>,
    configs: &[Config],
    capacity_bytes: Option<u64>,
    follow: Follow,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Report>, DriveError> {
    let mut reports = Vec::with_capacity(configs.len());
    for (done, config) in configs.iter().enumerate() {
        progress(done);
        let options = Options {
            config: config.clone(),
            capacity_bytes,
            memory_fraction: None,
            recorded_addresses: false,
            // The tape's own changes of settings would undo the ones in question.
            follow: Follow { settings: false, ..follow },
        };
        reports.push(run(tape, &options, |_| {})?);
    }
    progress(configs.len());
    Ok(reports)
}
