//! The moments that matter, found while the run is replayed.
//!
//! Whether a moment matters is often known only later. Candidates are taken apart at once while that costs less than a
//! second replay; what is missing at the end needs one.

use std::collections::BTreeMap;

use super::misses::Misses;
use super::{OOMS_MAX, WasteMoment};
use crate::driver::Driver;
use crate::strategy::Native;
use trace_format::{Event, Record};

/// The moments that matter, each as the number of records before it.
pub(super) struct Moments {
    pub(super) peak: u64,
    pub(super) filled: u64,
    pub(super) ooms: Vec<u64>,
    pub(super) ooms_total: u64,
    pub(super) series: Vec<u64>,
}

impl Moments {
    /// Those that were not taken apart, ascending, each once.
    pub(super) fn missing(&self, known: &BTreeMap<u64, WasteMoment>) -> Vec<u64> {
        let ends = [self.peak, self.filled];
        let wanted = self.series.iter().chain(&self.ooms).chain(&ends).copied();
        let mut missing: Vec<u64> = wanted.filter(|done| !known.contains_key(done)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

/// Finds the moments, and keeps those that were taken apart.
pub(super) struct Watch {
    /// Moments of the run; the one before the first record counts as well.
    moments: u64,
    points: u64,
    /// The first moment of the next stretch.
    next_begin: u64,
    /// The fullest moment of each stretch so far.
    fullest: Vec<Fullest>,
    reserved_bytes: u64,
    growths: Growths,
    ooms: Vec<u64>,
    ooms_total: u64,
    known: BTreeMap<u64, WasteMoment>,
    /// Blocks of moments that are taken apart and may not matter in the end, at most.
    pub(super) spare_blocks: u64,
}

struct Fullest {
    reserved_bytes: u64,
    done: u64,
}

/// Blocks taken apart in the time in which the allocator replays a record, or fewer.
const BLOCKS_OF_RECORD: u64 = 8;

impl Watch {
    pub(super) fn new(records: u64, points: usize) -> Self {
        let moments = records + 1;
        let points = (points as u64).clamp(1, moments);
        Self {
            moments,
            points,
            next_begin: 0,
            fullest: Vec::with_capacity(points as usize),
            reserved_bytes: 0,
            growths: Growths::default(),
            ooms: Vec::new(),
            ooms_total: 0,
            known: BTreeMap::new(),
            spare_blocks: BLOCKS_OF_RECORD * records,
        }
    }

    /// Sees the next moment; returns whether to take it apart. `next` is the record behind it.
    #[inline]
    pub(super) fn sees(
        &mut self,
        driver: &mut Driver<Native<Misses>>,
        done: u64,
        next: Option<&Record>,
    ) -> bool {
        let reserved_bytes = driver.heap().reserved_bytes();
        let is_refused = driver.heap_mut().recorder_mut().refused.is_some();
        if reserved_bytes <= self.reserved_bytes && !is_refused && done != self.next_begin {
            self.reserved_bytes = reserved_bytes;
            return false;
        }
        self.looks_at(driver, done, reserved_bytes, is_refused, next)
    }

    #[cold]
    fn looks_at(
        &mut self,
        driver: &Driver<Native<Misses>>,
        done: u64,
        reserved_bytes: u64,
        is_refused: bool,
        next: Option<&Record>,
    ) -> bool {
        let now = Fullest { reserved_bytes, done };
        let (mut is_wanted, mut may_be_wanted) = (false, false);
        if done == self.next_begin {
            self.fullest.push(now);
            let next = self.fullest.len() as u128 * u128::from(self.moments);
            self.next_begin = next.div_ceil(u128::from(self.points)) as u64;
            is_wanted = true;
        } else if let Some(fullest) = self.fullest.last_mut()
            && reserved_bytes > fullest.reserved_bytes
        {
            *fullest = now;
            may_be_wanted = true;
        }
        if reserved_bytes > self.reserved_bytes {
            let allocated_bytes = driver.heap().stats().allocated_bytes.all.current as u64;
            may_be_wanted |= self.growths.see(reserved_bytes, allocated_bytes, done);
        }
        self.reserved_bytes = reserved_bytes;
        if is_refused {
            self.ooms_total += 1;
            if self.ooms.len() < OOMS_MAX {
                self.ooms.push(done);
                is_wanted = true;
            }
        }
        if is_wanted {
            return true;
        }
        // Its request follows, which makes a fuller moment of this stretch.
        let grows_on = next.is_some_and(|next| matches!(next.event, Event::SegmentAlloc { .. }));
        if !may_be_wanted || (grows_on && done + 2 < self.next_begin) {
            return false;
        }
        let stats = driver.heap().stats();
        let counts = [stats.active, stats.inactive_split, stats.segment];
        let blocks = counts.iter().map(|count| count.all.current.cast_unsigned()).sum();
        let takes = blocks <= self.spare_blocks;
        self.spare_blocks -= if takes { blocks } else { 0 };
        takes
    }

    pub(super) fn keep(&mut self, moment: WasteMoment) {
        self.known.insert(moment.sample.after_records, moment);
    }

    /// The moments that matter, and all that were taken apart.
    pub(super) fn end(self) -> (Moments, BTreeMap<u64, WasteMoment>) {
        let first = self.fullest.iter().rev().max_by_key(|it| it.reserved_bytes);
        let (peak, peak_bytes) = first.map_or((0, 0), |it| (it.done, it.reserved_bytes));
        let moments = Moments {
            peak,
            filled: self.growths.filled(peak_bytes).unwrap_or(peak),
            ooms: self.ooms,
            ooms_total: self.ooms_total,
            series: self.fullest.iter().map(|it| it.done).collect(),
        };
        (moments, self.known)
    }
}

/// The moments when more was reserved than just before. One is left out where an earlier one has as much reserved and
/// as much allocated, or a later one as much reserved and more allocated.
#[derive(Default)]
struct Growths {
    most_bytes: u64,
    /// By reserved bytes: allocated bytes, which do not rise with them, and when.
    seen: BTreeMap<u64, (u64, u64)>,
}

impl Growths {
    /// Returns whether this may be the growth that filled the device.
    fn see(&mut self, reserved_bytes: u64, allocated_bytes: u64, done: u64) -> bool {
        self.most_bytes = self.most_bytes.max(reserved_bytes);
        let above = self.seen.range(reserved_bytes..).next();
        if reserved_bytes < near(self.most_bytes)
            || above.is_some_and(|(_, (bytes, _))| *bytes >= allocated_bytes)
        {
            return false;
        }
        while let Some((&below, &(bytes, _))) = self.seen.range(..=reserved_bytes).next_back()
            && bytes < allocated_bytes
        {
            self.seen.remove(&below);
        }
        self.seen.insert(reserved_bytes, (allocated_bytes, done));
        true
    }

    /// The first of those near the peak with the most allocated.
    fn filled(&self, peak_bytes: u64) -> Option<u64> {
        self.seen.range(near(peak_bytes)..).next().map(|(_, (_, done))| *done)
    }
}

/// The least bytes that count as near the peak.
fn near(peak_bytes: u64) -> u64 {
    peak_bytes - peak_bytes / 50
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_growth_that_filled_the_device_is_the_first_near_the_peak_with_the_most_allocated(
            growths in prop::collection::vec((90..110u64, 0..20u64), 1..60),
        ) {
            let mut seen = Growths::default();
            for (done, (reserved_bytes, allocated_bytes)) in (0..).zip(&growths) {
                seen.see(*reserved_bytes, *allocated_bytes, done);
            }
            let peak_bytes = growths.iter().map(|it| it.0).max().unwrap();
            let is_near = |growth: &(usize, &(u64, u64))| growth.1.0 >= near(peak_bytes);
            let near = growths.iter().enumerate().filter(is_near);
            let first = near.rev().max_by_key(|it| it.1.1);
            prop_assert_eq!(seen.filled(peak_bytes), first.map(|(done, _)| done as u64));
        }
    }
}
