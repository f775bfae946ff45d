//! The smallest device on which a run does not run out of memory.
//!
//! More memory is not always enough where less was: with more of it the cache is flushed later, and what it holds by
//! then may be split so that no flush returns it. So a bisection alone finds a capacity that is enough, below one that
//! is not, and says nothing of those above. What is done about it:
//!
//! - A replay that never asked for more than `p` bytes on a device of `c` does the same on every device in between,
//!   as long as nothing but refusals depends on the capacity. So each replay settles a range, and a replay without a
//!   limit settles everything above its peak.
//! - After the bisection, the largest ranges above its answer that are not settled are probed in the middle. If one is
//!   not enough, the answer moves above it, by bisection again.
//! - Below the answer the same is done, and the smallest capacity that happens to be enough is reported as an
//!   exception.
//! - What share of the capacities above the answer is settled is part of it.

mod gpus;
mod known;
mod verdict;

use allocator::device::sim::SimConfig;
use rayon::prelude::*;
use serde::Serialize;
use trace_format::{BlockStatus, Event};

use crate::driver::{DriveError, Follow};
use crate::report::Report;
use crate::run::{DeviceTape, Options, run};
use crate::strategy::Choice;
pub use gpus::{CONTEXT_BYTES, GPUS, Gpu, find as find_gpu};
use known::Known;
pub use verdict::{Answer, Verdict, verdict};
pub(crate) use verdict::{OneRow, verdict_of};

/// A page of the driver: what capacities are counted in.
pub const PAGE_BYTES: u64 = SimConfig::GRANULARITY_BYTES;

/// How far above the peak of an unlimited replay a fitting capacity is looked for, where the capacity itself changes
/// what the allocator does (`garbage_collection_threshold`): so many steps of a sixteenth.
const STEPS_ABOVE_PEAK: u64 = 16;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Which inputs of the tape count.
    pub follow: Follow,
    /// Probes for capacities above the answer that are not enough.
    pub checks: u32,
    /// Also say whether the run fits here.
    pub device_bytes: Option<u64>,
}

/// How much memory a run needs under one strategy and its settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Its name in the [table](crate::strategy::TABLE).
    pub strategy: String,
    /// Its settings: those of `native` and `expandable` as `PYTORCH_CUDA_ALLOC_CONF` has them.
    pub config: String,
    /// The most bytes alive at once.
    pub peak_live_bytes: u64,
    /// What it reserves where memory has no end. On every larger device it does the same.
    pub unlimited_peak_bytes: u64,
    /// The smallest capacity from which on no replay ran out of memory; one page less is not enough. `None` if none
    /// is.
    pub capacity_bytes: Option<u64>,
    /// A smaller capacity that happens to be enough, though a larger one is not.
    pub exception: Option<Exception>,
    /// Of the capacities from `capacity_bytes` on, how many are settled by replays, from 0 to 1.
    pub settled_share: f64,
    /// The replay at `capacity_bytes`: its cache flushes and its device calls.
    pub at_capacity: Option<AtCapacity>,
    /// Whether it fits the device that was asked for.
    pub on_device: Option<OnDevice>,
    /// Replays made.
    pub replays: u32,
}

/// Less memory is enough where more is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// This is enough.
    pub fits_bytes: u64,
    /// This is not.
    pub fails_bytes: u64,
}

/// What the smallest device costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AtCapacity {
    /// Times the cache was flushed because the device had no memory.
    pub num_alloc_retries: i64,
    /// Calls that obtain or return device memory.
    pub device_calls: i64,
}

/// A run on a device of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OnDevice {
    /// Its memory.
    pub device_bytes: u64,
    /// Times memory was out; 0 is: it fits.
    pub num_ooms: i64,
    /// What is left of it at the peak.
    pub spare_bytes: u64,
    /// Times the cache was flushed because the device had no memory.
    pub num_alloc_retries: i64,
}

/// Finds what the run needs under each strategy, several at a time. `progress` hears of each replay.
///
/// # Errors
/// When the tape contradicts itself, or a strategy cannot start where memory has no end.
pub fn fit(
    tape: DeviceTape<'_>,
    choices: &[Choice],
    search: Search,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Fit>, DriveError> {
    choices.par_iter().map(|choice| Searcher::new(tape, choice, search, progress).fit()).collect()
}

struct Searcher<'a, 't> {
    tape: DeviceTape<'t>,
    choice: &'a Choice,
    search: Search,
    progress: &'a (dyn Fn() + Sync),
    known: Known,
    /// Whether nothing but the device's refusals depends on its capacity.
    is_plain: bool,
    replays: u32,
}

impl<'a, 't> Searcher<'a, 't> {
    fn new(
        tape: DeviceTape<'t>,
        choice: &'a Choice,
        search: Search,
        progress: &'a (dyn Fn() + Sync),
    ) -> Self {
        let known = Known::default();
        let is_plain = is_plain(tape, choice);
        Self { tape, choice, search, progress, known, is_plain, replays: 0 }
    }

    fn fit(mut self) -> Result<Fit, DriveError> {
        let unlimited = self.replay(None)?;
        let least_pages = least_bytes(self.tape, self.choice).div_ceil(PAGE_BYTES).max(1);
        let enough = match unlimited.num_ooms {
            0 => self.enough(&unlimited)?,
            _ => None, // Out of memory where it has no end: a request that no device serves.
        };
        let mut fit = Fit {
            strategy: unlimited.strategy.clone(),
            config: unlimited.config.clone(),
            peak_live_bytes: unlimited.peak_live_bytes,
            unlimited_peak_bytes: unlimited.peak_reserved_bytes,
            capacity_bytes: None,
            exception: None,
            settled_share: 1.0,
            at_capacity: None,
            on_device: None,
            replays: 0,
        };
        if let Some(enough) = enough {
            let answer = self.smallest(least_pages, enough)?;
            fit.capacity_bytes = Some(answer * PAGE_BYTES);
            fit.settled_share =
                self.known.covered(answer, enough) as f64 / (enough + 1 - answer) as f64;
            fit.exception = self.exception(answer);
            let report = self.replay(Some(answer * PAGE_BYTES))?;
            fit.at_capacity = Some(AtCapacity {
                num_alloc_retries: report.num_alloc_retries,
                device_calls: report.device_allocs + report.device_frees,
            });
        }
        if let Some(device_bytes) = self.search.device_bytes {
            let report = self.replay_or_no_room(device_bytes)?;
            fit.on_device = Some(OnDevice {
                device_bytes,
                num_ooms: report.as_ref().map_or(1, |report| report.num_ooms),
                spare_bytes: report
                    .as_ref()
                    .map_or(0, |report| device_bytes.saturating_sub(report.peak_reserved_bytes)),
                num_alloc_retries: report.map_or(0, |report| report.num_alloc_retries),
            });
        }
        fit.replays = self.replays;
        Ok(fit)
    }

    /// A capacity that is enough, in pages, close above what an unlimited replay reserves.
    fn enough(&mut self, unlimited: &Report) -> Result<Option<u64>, DriveError> {
        let fraction = least_fraction(self.tape, self.choice);
        if fraction <= 0.0 {
            return Ok(None);
        }
        let peak_bytes = unlimited.peak_reserved_bytes as f64 / fraction;
        let peak_pages = (peak_bytes / PAGE_BYTES as f64).ceil().max(1.0) as u64;
        if self.is_plain {
            self.known.note(peak_pages, u64::MAX - 1, true);
            return Ok(Some(peak_pages));
        }
        for step in 0..=STEPS_ABOVE_PEAK {
            let pages = peak_pages + step * peak_pages.div_ceil(16);
            if self.probe(pages)? {
                return Ok(Some(pages));
            }
        }
        Ok(None)
    }

    /// The smallest capacity from `least` on of which nothing worse is known above it, in pages.
    fn smallest(&mut self, least: u64, enough: u64) -> Result<u64, DriveError> {
        if least > 1 {
            self.known.note(0, least - 1, false); // What lives at once has to be somewhere.
        }
        let mut answer = self.bisect(least - 1, enough)?;
        for _ in 0..self.search.checks {
            let Some((begin, end)) = self.known.largest_gap(answer, enough) else { break };
            let middle = begin + (end - begin) / 2;
            if !self.probe(middle)? {
                let above = self.known.least_fit_above(middle).unwrap_or(enough);
                answer = self.bisect(middle, above)?;
            }
        }
        self.look_below(least, answer)?;
        Ok(answer)
    }

    /// Looks for smaller capacities that happen to be enough.
    fn look_below(&mut self, least: u64, answer: u64) -> Result<(), DriveError> {
        for _ in 0..self.search.checks {
            let Some((begin, end)) = self.known.largest_gap(least, answer - 1) else { break };
            let middle = begin + (end - begin) / 2;
            if self.probe(middle)? {
                self.bisect(self.known.greatest_failure_below(middle).unwrap_or(0), middle)?;
            }
        }
        Ok(())
    }

    /// Between a capacity that is not enough and one that is, a pair of neighbours of which the same is true.
    fn bisect(&mut self, mut fails: u64, mut fits: u64) -> Result<u64, DriveError> {
        while fits - fails > 1 {
            let middle = fails + (fits - fails) / 2;
            if self.probe(middle)? {
                fits = middle;
                while fits - 1 > fails && self.known.at(fits - 1) == Some(true) {
                    fits -= 1;
                }
            } else {
                fails = middle;
            }
        }
        Ok(fits)
    }

    fn exception(&self, answer: u64) -> Option<Exception> {
        let fits = self.known.least_fit().filter(|fits| *fits < answer)?;
        let fails = self.known.greatest_failure().filter(|fails| *fails > fits)?;
        Some(Exception { fits_bytes: fits * PAGE_BYTES, fails_bytes: fails * PAGE_BYTES })
    }

    /// Whether a capacity is enough.
    fn probe(&mut self, pages: u64) -> Result<bool, DriveError> {
        if let Some(fits) = self.known.at(pages) {
            return Ok(fits);
        }
        let report = self.replay_or_no_room(pages * PAGE_BYTES)?;
        let fits = report.as_ref().is_some_and(|report| report.num_ooms == 0);
        let from = match report {
            Some(report) if self.is_plain => report.peak_reserved_bytes.div_ceil(PAGE_BYTES),
            _ => pages,
        };
        self.known.note(from.min(pages), pages, fits);
        Ok(fits)
    }

    /// `None` where not even the start of the tape fits.
    fn replay_or_no_room(&mut self, capacity_bytes: u64) -> Result<Option<Report>, DriveError> {
        match self.replay(Some(capacity_bytes)) {
            Ok(report) => Ok(Some(report)),
            Err(DriveError::Base(_) | DriveError::NoRoom { .. } | DriveError::Start { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn replay(&mut self, capacity_bytes: Option<u64>) -> Result<Report, DriveError> {
        let options = Options {
            strategy: self.choice.clone(),
            capacity_bytes,
            memory_fraction: None,
            recorded_addresses: false,
            follow: Follow { settings: false, ..self.search.follow },
        };
        self.replays += 1;
        let report = run(self.tape, &options, |_| {});
        (self.progress)();
        report
    }
}

/// Whether the capacity shows in nothing but what the device refuses. It also decides how far expandable segments
/// reach, what a memory fraction is and when garbage is collected; and the peak says what was used only where every
/// segment is whole pages. Of models nothing is assumed.
fn is_plain(tape: DeviceTape<'_>, choice: &Choice) -> bool {
    let Choice::Native(config) = choice else { return false };
    let whole = |bytes: u64| bytes.is_multiple_of(PAGE_BYTES);
    !config.expandable_segments
        && config.garbage_collection_threshold <= 0.0
        && least_fraction(tape, choice) >= 1.0
        && whole(config.large_segment_size_bytes)
        && tape
            .base
            .segments
            .iter()
            .all(|segment| !segment.is_expandable && whole(segment.size_bytes))
}

/// What no device can have less than: what the program holds at once, and, for the allocator that takes over the
/// segments of a tape's start, what those are. Frees that wait for other streams do not count: a flush completes them.
fn least_bytes(tape: DeviceTape<'_>, choice: &Choice) -> u64 {
    let segments = &tape.base.segments;
    let allocated = segments.iter().flat_map(|segment| &segment.blocks);
    let allocated = allocated.filter(|block| block.status == BlockStatus::Allocated);
    let mut held_bytes: u64 = allocated.map(|block| block.requested_bytes).sum();
    let mut peak_bytes = held_bytes;
    for record in tape.records {
        match record.event {
            Event::Alloc { requested_bytes, .. } => held_bytes += requested_bytes,
            // Saturating: that a tape contradicts itself is for the replay to say.
            Event::Free { requested_bytes, .. } => {
                held_bytes = held_bytes.saturating_sub(requested_bytes);
            }
            _ => {}
        }
        peak_bytes = peak_bytes.max(held_bytes);
    }
    if let Choice::Native(_) = choice {
        return peak_bytes.max(segments.iter().map(|segment| segment.size_bytes).sum());
    }
    peak_bytes
}

/// The smallest memory fraction that the run sets.
fn least_fraction(tape: DeviceTape<'_>, choice: &Choice) -> f64 {
    let of_settings =
        if let Choice::Native(config) = choice { config.per_process_memory_fraction } else { 1.0 };
    let set = tape.records.iter().filter_map(|record| match record.event {
        Event::MemoryFraction { fraction } => Some(fraction),
        _ => None,
    });
    let at_start = tape.base.memory_fraction.unwrap_or(1.0);
    set.fold(of_settings.min(at_start), f64::min)
}
