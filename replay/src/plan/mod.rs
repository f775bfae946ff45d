//! Plans for `stitch`: placements of the requests of runs, solved offline.
//!
//! The requests are those that `stitch` itself serves when it replays the run. The greatest is placed first, each as
//! low as it can be: that leaves room to spare, so that a run that departs from its plan seldom runs into it. Pages
//! decide what such a placement takes, not how high it ends, because `stitch` lends pages that are free for a while.
//! Where more than one page in 200 would be lost, denser packings are tried.

mod pages;
mod requests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packing::Buffer;
use serde::Serialize;
use settings::{Config, Plan, PlannedRequest, PlannedSequence};
use thiserror::Error;

use crate::drive_error::DriveError;
use crate::run::{DeviceTape, Options, run_recording};
use crate::strategy::Choice;
use pages::PAGE_BYTES;
use requests::{StreamRequests, large_requests};

/// Lost pages for which a denser packing is not tried: one in so many.
const LOST_PAGES: u64 = 200;

/// The file of a plan cannot be used.
#[derive(Debug, Error)]
#[error("the plan {}: {problem}", .path.display())]
pub struct PlanFileError {
    path: PathBuf,
    problem: String,
}

/// Reads a plan's file.
///
/// # Errors
/// When it cannot be read, or is no plan.
pub fn read(path: &Path) -> Result<Arc<Plan>, PlanFileError> {
    let wrong = |problem: String| PlanFileError { path: path.to_owned(), problem };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(Plan::parse(&text).map_err(|error| wrong(error.to_string()))?))
}

/// The plan of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStream {
    /// 0 is the default stream, n the n-th other stream that makes a large request.
    pub stream: u32,
    /// Requests with a place.
    pub requests: u64,
    /// Requests after those, which have none.
    pub left_out: u64,
    /// The most bytes that live at once.
    pub live_bytes: u64,
    /// The pages that the placements take at most.
    pub page_bytes: u64,
}

/// Plans a run: a sequence for each stream that makes a large request. `is_over` ends the search for better placements.
///
/// # Errors
/// When the replay under `stitch` fails.
pub fn plan(
    tape: DeviceTape<'_>,
    options: &Options,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<(Plan, Vec<PlannedStream>), DriveError> {
    let options = Options { strategy: Choice::Native(without_plan(options)?), ..options.clone() };
    let records = run_recording(tape, &options, &mut |_| {})?.records;
    let (mut plan, mut streams) = (Plan::default(), Vec::new());
    for (stream, mut requests) in (0..).zip(large_requests(&records)) {
        let all = requests.buffers.len();
        requests.truncate(Plan::REQUESTS_MAX);
        if all == 0 {
            continue;
        }
        let offsets = place(&requests.buffers, is_over);
        let checked = packing::check::check(&requests.buffers, &offsets);
        assert_eq!(checked, Ok(()), "blocks of a plan overlap");
        streams.push(PlannedStream {
            stream,
            requests: requests.buffers.len() as u64,
            left_out: (all - requests.buffers.len()) as u64,
            live_bytes: packing::bound_bytes(&requests.buffers),
            page_bytes: pages::most(&requests.buffers, &offsets) * PAGE_BYTES,
        });
        plan.sequences.push(sequence(stream, &requests, &offsets));
    }
    Ok((plan, streams))
}

/// The settings of a run that is to be planned.
fn without_plan(options: &Options) -> Result<Config, DriveError> {
    let config = options.native_config()?.clone();
    Ok(Config { stitch: Some(config.stitch.unwrap_or_default()), plan: None, ..config })
}

fn sequence(stream: u32, requests: &StreamRequests, offsets: &[u64]) -> PlannedSequence {
    let all = requests.buffers.iter().zip(offsets).zip(&requests.freed_before);
    let request = |((buffer, offset), freed_before): ((&Buffer, &u64), &Option<u32>)| {
        let (size_bytes, offset_bytes) = (buffer.size_bytes, *offset);
        PlannedRequest { size_bytes, offset_bytes, freed_before: *freed_before }
    };
    PlannedSequence { stream, requests: all.map(request).collect() }
}

/// Offsets that take few pages.
fn place(buffers: &[Buffer], is_over: &mut dyn FnMut() -> bool) -> Vec<u64> {
    let loose = packing::pack_loosely(buffers).offsets;
    let least = packing::bound_bytes(buffers).div_ceil(PAGE_BYTES);
    let most = pages::most(buffers, &loose);
    if most <= least + least / LOST_PAGES {
        return loose;
    }
    let dense = packing::pack(buffers, None, is_over).offsets;
    if pages::most(buffers, &dense) < most { dense } else { loose }
}
