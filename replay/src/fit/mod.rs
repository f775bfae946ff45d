//! The smallest device on which a run does not run out of memory.
//!
//! More memory is not always enough where less was: with more of it the cache is flushed later, and what it holds by
//! then may be split so that no flush returns it. So a bisection alone finds a capacity that is enough, below one that
//! is not, and says nothing of those above. What is done about it:
//!
//! - A replay that held at most `p` bytes, and whose smallest refused request would have made it `r`, does the same on
//!   every device from `p` to just below `r`, as long as nothing but refusals depends on the capacity. So each replay
//!   settles a range, and a replay without a limit settles everything above its peak.
//! - A probe ends at its first out of memory: it is not enough then, whatever follows.
//! - After the bisection, the largest ranges above its answer that are not settled are probed in the middle. If one is
//!   not enough, the answer moves above it, by bisection again.
//! - Below the answer the same is done, and the smallest capacity that happens to be enough is reported as an
//!   exception.
//! - What share of the capacities above the answer is settled is part of it.

mod known_capacities;
mod verdict;

use std::ops::RangeInclusive;

use rayon::prelude::*;
use serde::Serialize;
use sim_device::SimConfig;
use trace_format::{BlockStatus, Event};

use crate::driver::{DriveError, Follow, Result};
use crate::report::Report;
use crate::run::{Addresses, DeviceTape, Options, Probe, probe};
use crate::strategy::Choice;
use known_capacities::KnownCapacities;
pub use verdict::{Answer, Verdict, verdict};
pub(crate) use verdict::{OneRow, verdict_of};

/// A page of the driver: what capacities are counted in.
pub const PAGE_BYTES: u64 = SimConfig::GRANULARITY_BYTES;

/// How far above the peak of an unlimited replay a fitting capacity is looked for, where the capacity itself changes
/// what the allocator does (`garbage_collection_threshold`): so many steps of a sixteenth.
const STEPS_ABOVE_PEAK: u64 = 16;

/// No device is larger: a run that needs more, for its memory fraction is next to nothing, fits nowhere.
const LARGEST_PAGES: u64 = SimConfig::UNLIMITED_CAPACITY_BYTES / PAGE_BYTES;

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

/// Finds what the run needs under each strategy, several at a time. `progress` is called after each replay.
///
/// # Errors
/// When the tape contradicts itself, or a strategy cannot start where memory has no end.
pub fn fit(
    tape: DeviceTape<'_>,
    choices: &[Choice],
    search: Search,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Fit>> {
    choices.par_iter().map(|choice| Searcher::new(tape, choice, search, progress).fit()).collect()
}

struct Searcher<'a, 't> {
    tape: DeviceTape<'t>,
    choice: &'a Choice,
    search: Search,
    progress: &'a (dyn Fn() + Sync),
    known: KnownCapacities,
    /// Whether replays settle ranges.
    is_plain: bool,
    /// What replays cost that were enough, with the capacities that do the same, in pages.
    costs: Vec<(RangeInclusive<u64>, AtCapacity)>,
    replays: u32,
}

impl<'a, 't> Searcher<'a, 't> {
    fn new(
        tape: DeviceTape<'t>,
        choice: &'a Choice,
        search: Search,
        progress: &'a (dyn Fn() + Sync),
    ) -> Self {
        let known = KnownCapacities::default();
        let is_plain = is_plain(tape, choice);
        Self { tape, choice, search, progress, known, is_plain, costs: Vec::new(), replays: 0 }
    }

    fn fit(mut self) -> Result<Fit> {
        let Probe { report: unlimited, same_with } = self.replay(None, false)?;
        let same_with = same_with.map(pages).filter(|_| self.is_plain);
        let least_pages = least_bytes(self.tape, self.choice).div_ceil(PAGE_BYTES).max(1);
        let enough = match unlimited.num_ooms {
            0 => self.enough(&unlimited, same_with)?,
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
            fit.at_capacity = Some(self.cost(answer)?);
        }
        if let Some(device_bytes) = self.search.device_bytes {
            let report = self.replay_or_no_room(device_bytes, false)?.map(|probe| probe.report);
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
    fn enough(
        &mut self,
        unlimited: &Report,
        same_with: Option<RangeInclusive<u64>>,
    ) -> Result<Option<u64>> {
        let fraction = least_fraction(self.tape, self.choice);
        if fraction <= 0.0 || fraction.is_nan() {
            return Ok(None);
        }
        let peak_bytes = unlimited.peak_reserved_bytes as f64 / fraction;
        let peak_pages = (peak_bytes / PAGE_BYTES as f64).ceil().max(1.0) as u64;
        if let Some(same_with) = same_with {
            let enough = (*same_with.start()).max(1);
            self.known.note(enough, u64::MAX - 1, true);
            self.costs.push((enough..=u64::MAX - 1, cost_of(unlimited)));
            return Ok(Some(enough));
        }
        for step in 0..=STEPS_ABOVE_PEAK {
            let pages = peak_pages.saturating_add(peak_pages.div_ceil(16).saturating_mul(step));
            if pages > LARGEST_PAGES {
                break;
            }
            if self.probe(pages)? {
                return Ok(Some(pages));
            }
        }
        Ok(None)
    }

    /// The smallest capacity from `least` on of which nothing worse is known above it, in pages.
    fn smallest(&mut self, least: u64, enough: u64) -> Result<u64> {
        // A tape whose frees give back less than was asked for claims more than a replay holds: the replay counts.
        let least = least.min(enough);
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
    fn look_below(&mut self, least: u64, answer: u64) -> Result<()> {
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
    fn bisect(&mut self, mut fails: u64, mut fits: u64) -> Result<u64> {
        while fits - fails > 1 {
            let middle = fails + (fits - fails) / 2;
            if self.probe(middle)? {
                fits = self.known.fits_from(middle).max(fails + 1);
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
    fn probe(&mut self, capacity: u64) -> Result<bool> {
        if let Some(fits) = self.known.at(capacity) {
            return Ok(fits);
        }
        let probe = self.replay_or_no_room(capacity * PAGE_BYTES, true)?;
        let fits = probe.as_ref().is_some_and(|probe| probe.report.num_ooms == 0);
        let same = probe.as_ref().and_then(|probe| probe.same_with.clone());
        let same = same.filter(|_| self.is_plain).map_or(capacity..=capacity, pages);
        self.known.note(*same.start(), *same.end(), fits);
        if let Some(Probe { report, .. }) = probe.filter(|_| fits) {
            self.costs.push((same, cost_of(&report)));
        }
        Ok(fits)
    }

    /// What a replay on a device that is enough costs.
    fn cost(&mut self, capacity: u64) -> Result<AtCapacity> {
        let known = self.costs.iter().find(|(same, _)| same.contains(&capacity));
        if let Some((_, cost)) = known {
            return Ok(*cost);
        }
        Ok(cost_of(&self.replay(Some(capacity * PAGE_BYTES), false)?.report))
    }

    /// `None` where not even the start of the tape fits.
    fn replay_or_no_room(&mut self, capacity_bytes: u64, until_oom: bool) -> Result<Option<Probe>> {
        match self.replay(Some(capacity_bytes), until_oom) {
            Ok(probe) => Ok(Some(probe)),
            Err(DriveError::Base(_) | DriveError::NoRoom { .. } | DriveError::Start { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn replay(&mut self, capacity_bytes: Option<u64>, until_oom: bool) -> Result<Probe> {
        let options = Options {
            strategy: self.choice.clone(),
            capacity_bytes,
            memory_fraction: None,
            addresses: Addresses::Lowest,
            follow: Follow { is_as_recorded: false, ..self.search.follow },
        };
        self.replays += 1;
        let probe = probe(self.tape, &options, until_oom);
        (self.progress)();
        probe
    }
}

/// What a replay cost.
fn cost_of(report: &Report) -> AtCapacity {
    AtCapacity {
        num_alloc_retries: report.num_alloc_retries,
        device_calls: report.device_allocs + report.device_frees,
    }
}

/// The whole pages in a range of capacities.
fn pages(bytes: RangeInclusive<u64>) -> RangeInclusive<u64> {
    // The end is a byte less than a refused request would have needed.
    bytes.start().div_ceil(PAGE_BYTES)..=bytes.end() / PAGE_BYTES
}

/// Whether the capacity shows in nothing but what the device refuses, as far as the tape decides that. It also decides
/// what a memory fraction is, when garbage is collected (where there is a fraction), and how far expandable segments
/// that are there at the start reach. The rest [`Strategy::same_with`](crate::strategy::Strategy::same_with) knows.
fn is_plain(tape: DeviceTape<'_>, choice: &Choice) -> bool {
    least_fraction(tape, choice) >= 1.0
        && tape.base.segments.iter().all(|segment| !segment.is_expandable)
}

/// What no device can have less than: what the program holds at once, and, for the allocator that takes over the
/// segments of a tape's start, what those are. Frees that wait for other streams do not count: a flush completes them.
fn least_bytes(tape: DeviceTape<'_>, choice: &Choice) -> u64 {
    let segments = &tape.base.segments;
    let allocated = segments.iter().flat_map(|segment| &segment.blocks);
    let allocated = allocated.filter(|block| block.status == BlockStatus::Allocated);
    // Saturating: that a tape contradicts itself is for the replay to say.
    let mut held_bytes =
        allocated.fold(0, |sum: u64, block| sum.saturating_add(block.requested_bytes));
    let mut peak_bytes = held_bytes;
    for record in tape.records {
        match record.event {
            Event::Alloc { requested_bytes, .. } => {
                held_bytes = held_bytes.saturating_add(requested_bytes);
            }
            Event::Free { requested_bytes, .. } => {
                held_bytes = held_bytes.saturating_sub(requested_bytes);
            }
            _ => {}
        }
        peak_bytes = peak_bytes.max(held_bytes);
    }
    if let Choice::Native(_) = choice {
        let sizes = segments.iter().map(|segment| segment.size_bytes);
        return peak_bytes.max(sizes.fold(0, u64::saturating_add));
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
