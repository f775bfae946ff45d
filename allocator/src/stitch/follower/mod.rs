//! Placement memory: the addresses of the same requests in earlier steps.
//!
//! The memory follows the requests of an earlier step: where a request is of the size that came next in that step, the
//! two correspond. Where it is not, the last 512, 64 or 8 sizes find another step.
//!
//! A request is offered the addresses of the requests one step back and two steps back. A step whose blocks all return
//! to the addresses of one step back is an exact copy of it, and needs no driver call. A result lives until the next
//! assignment to its name, so its blocks alternate between two places: two steps back comes first for a request whose
//! block of one step back is live. What lies beside many such blocks has to alternate with them.

use alloc::vec::Vec;

use events::Addr;

use super::sequences::{LENGTHS, NONE, SHORTEST, Sequences, mix};
use crate::arena::BlockId;
use crate::cast;
use crate::ids::RangeId;
use settings::PlannedRequest;

/// Requests that are remembered at first, and at most.
pub(super) const FIRST_CAPACITY: usize = 1 << 6;
const MOST_CAPACITY: usize = 1 << 17;
/// Requests of the earlier step that a step may lack.
const SKIPPED: u32 = 8;
/// Remembered addresses that a request tries.
const CANDIDATES: usize = 4;
/// Where more than one byte in so many of the memory alternates between two places, all requests do.
const ALTERNATING_PART: u64 = 8;
/// Requests to come that a placement keeps clear of.
const EXPECTED: u32 = 1 << 13;

/// Where a request was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) run: RangeId,
    /// The block that it got; `None` for a place of a plan.
    pub(crate) block: Option<BlockId>,
    pub(crate) addr: Addr,
}

/// A request, and where it was placed.
#[derive(Clone, Copy, Debug)]
struct Entry {
    size_bytes: u64,
    place: Option<Placement>,
    /// The number of the next request when the block was freed; [`NONE`] while it is live.
    freed_before: u32,
    /// The request that it corresponds to in an earlier step.
    matched: u32,
}

impl Entry {
    const fn new(size_bytes: u64) -> Self {
        Self { size_bytes, place: None, freed_before: NONE, matched: NONE }
    }
}

/// The requests of one stream and pool, and where they were placed.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    /// A ring, by the number of the request.
    entries: Vec<Entry>,
    count: u32,
    /// The requests before this one are those of a plan. A step that is not like the plan does not follow it: the
    /// places leave gaps between those of the requests that differ, and the step may be like an earlier one of this
    /// run.
    planned: u32,
    sequences: [Sequences; LENGTHS.len()],
    /// The number of requests at which the ring grows; [`NONE`] once it is as long as it gets.
    grows_at: u32,
    /// The requests before this one are entered into the sequences. While it is certain what comes next, no sequence is
    /// looked up, and entering them would be most of what a request costs.
    entered: u32,
    /// The request of an earlier step that comes after the one that the last request corresponds to.
    next: u32,
    /// The same where it is certain, and the placements are offered; else [`NONE`].
    certain: u32,
    /// Requests in a row that are known to correspond. Not counted on while it is certain what comes next.
    followed: u32,
    /// The last request that was not the next one of the step that was followed.
    departed: u32,
    /// The requests of one step up to the last one, since the departure, whose blocks of the step before were live when
    /// they came.
    alternating_bytes: u64,
    /// Whether the last request is offered the place of one step back before that of two.
    is_newest_first: bool,
    /// How often the step that repeats exceeded the budget of addresses, counted to 2; 0 again once the requests are no
    /// longer certain to correspond. Until then no placements are offered.
    overflows: u8,
}

impl Default for Follower {
    fn default() -> Self {
        let sequences = LENGTHS.map(Sequences::new);
        Self {
            entries: Vec::new(),
            count: 0,
            planned: 0,
            sequences,
            grows_at: 0,
            entered: 0,
            next: NONE,
            certain: NONE,
            followed: 0,
            departed: 0,
            alternating_bytes: 0,
            is_newest_first: false,
            overflows: 0,
        }
    }
}

impl Follower {
    #[inline]
    fn entry(&self, at: u32) -> Option<&Entry> {
        // The newest is one request back.
        let age = self.count.wrapping_sub(at).wrapping_sub(1);
        let is_known = at != NONE && (age as usize) < self.entries.len();
        self.entries.get(self.slot(at)).filter(|_| is_known)
    }

    /// Where a request is in the ring, whose length is a power of two.
    #[inline]
    fn slot(&self, at: u32) -> usize {
        at as usize & self.entries.len().wrapping_sub(1)
    }

    /// A request of this size comes next, with so much memory reserved. Returns the most likely of its earlier places.
    #[inline]
    pub(crate) fn observe(&mut self, size_bytes: u64, reserved_bytes: u64) -> Option<Placement> {
        self.make_room();
        let at = self.certain;
        if !self.is_like(at, size_bytes) {
            return self.search(size_bytes, reserved_bytes);
        }
        let place = self.likely_place(at, reserved_bytes);
        (self.next, self.certain) = (at.wrapping_add(1), at.wrapping_add(1));
        self.push(Entry { matched: at, ..Entry::new(size_bytes) });
        place
    }

    /// Finds the request that the next one corresponds to by the sequences.
    #[inline(never)]
    fn search(&mut self, size_bytes: u64, reserved_bytes: u64) -> Option<Placement> {
        self.enter_the_rest();
        let previous = self.enter(self.count, size_bytes);
        let matched = self.match_next(size_bytes, previous);
        let place = self.likely_place(matched, reserved_bytes);
        self.push(Entry { matched, ..Entry::new(size_bytes) });
        self.entered = self.count;
        if !self.is_certain() {
            self.overflows = 0;
        }
        self.set_certain();
        place.filter(|_| !self.is_suspended())
    }

    /// The most likely place of a request that corresponds to this one: that of one step back, unless its block is live
    /// or much of the memory alternates.
    #[inline]
    fn likely_place(&mut self, at: u32, reserved_bytes: u64) -> Option<Placement> {
        let one = self.entry(at)?;
        if self.alternating_bytes > 0 || one.freed_before == NONE || one.place.is_none() {
            return self.weigh_places(at, reserved_bytes);
        }
        let place = one.place;
        self.is_newest_first = true;
        place
    }

    /// The same where blocks alternate between two places, or the request of one step back has none or lives.
    #[inline(never)]
    fn weigh_places(&mut self, at: u32, reserved_bytes: u64) -> Option<Placement> {
        let one = self.entry(at)?;
        let two = self.entry(one.matched);
        let mut alternating_bytes = self.alternating_bytes;
        let is_live = one.freed_before == NONE;
        if is_live {
            alternating_bytes += one.size_bytes;
        }
        // That one leaves the step. Its block of the step before was live then if it was freed later. After the numbers
        // began anew, a block from before can be taken for another one.
        if two.is_some_and(|two| two.freed_before > at) && at >= self.departed {
            alternating_bytes = alternating_bytes.saturating_sub(one.size_bytes);
        }
        let is_newest_first = !is_live && alternating_bytes <= reserved_bytes / ALTERNATING_PART;
        let (one, two) = (one.place, two.and_then(|two| two.place));
        (self.alternating_bytes, self.is_newest_first) = (alternating_bytes, is_newest_first);
        if is_newest_first { one.or(two) } else { two.or(one) }
    }

    /// Decides whether the next request is looked up in the sequences.
    const fn set_certain(&mut self) {
        let is_certain = self.is_certain() && !self.is_suspended();
        self.certain = if is_certain { self.next } else { NONE };
    }

    /// Enters the requests of a planned run. The first one that is entered is expected to come next.
    pub(crate) fn enter_plan(
        &mut self,
        requests: &[PlannedRequest],
        place: impl Fn(&PlannedRequest) -> Option<Placement>,
    ) {
        let first = self.count;
        // A plan may name a request after its end, and no block of it is live.
        let most = cast::id(requests.len());
        for request in requests {
            self.make_room();
            self.enter(self.count, request.size_bytes);
            let freed_before =
                request.freed_before.map_or(NONE, |count| first.saturating_add(count.min(most)));
            let (size_bytes, place) = (request.size_bytes, place(request));
            self.push(Entry { place, freed_before, ..Entry::new(size_bytes) });
        }
        (self.planned, self.entered) = (self.count, self.count);
        // As certain as the longest sequence.
        (self.next, self.followed, self.departed) = (0, LENGTHS[0], self.count);
        self.alternating_bytes = 0;
        self.set_certain();
    }

    #[inline]
    fn make_room(&mut self) {
        if self.count == self.grows_at {
            self.grow();
        }
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        let at = self.slot(self.count);
        self.entries[at] = entry;
        self.count += 1;
    }

    #[cold]
    fn grow(&mut self) {
        if self.count == NONE {
            // After 4 billion requests the numbers begin anew: two steps later their placements are known again.
            *self = Self::default();
        }
        let capacity = (2 * self.entries.len()).max(FIRST_CAPACITY);
        if !self.entries.is_empty() {
            self.sequences.iter_mut().for_each(Sequences::grow);
        }
        self.entries.resize(capacity, Entry::new(0));
        self.grows_at = if capacity < MOST_CAPACITY { cast::id(capacity) } else { NONE };
    }

    /// Enters the size of a request into the sequences; returns the last request that ended each of them before.
    fn enter(&mut self, at: u32, size_bytes: u64) -> [u32; LENGTHS.len()] {
        let mut previous = [NONE; LENGTHS.len()];
        let (mixed, mask) = (mix(size_bytes), self.entries.len() - 1);
        for ((sequences, length), previous) in
            self.sequences.iter_mut().zip(LENGTHS).zip(&mut previous)
        {
            let leaving = match at.checked_sub(length) {
                Some(first) => mix(self.entries[first as usize & mask].size_bytes),
                None => 0,
            };
            sequences.roll(mixed, leaving);
            *previous = sequences.replace(at);
        }
        previous
    }

    /// Enters the requests that were not, as far as none after them ends the same sequences: those of one step.
    fn enter_the_rest(&mut self) {
        if self.entered < self.count {
            self.enter_last();
        }
    }

    #[cold]
    fn enter_last(&mut self) {
        let step = self.count.wrapping_sub(self.next).saturating_add(LENGTHS[0]);
        let forgotten = self.count.saturating_sub(cast::id(self.entries.len()));
        let oldest = if forgotten > 0 { forgotten + LENGTHS[0] } else { 0 };
        let first = self.entered.max(self.count.saturating_sub(step)).max(oldest);
        let mask = self.entries.len() - 1;
        for (sequences, length) in self.sequences.iter_mut().zip(LENGTHS) {
            sequences.restart();
            for at in first.saturating_sub(length)..first {
                sequences.roll(mix(self.entries[at as usize & mask].size_bytes), 0);
            }
        }
        for at in first..self.count {
            self.enter(at, self.entries[self.slot(at)].size_bytes);
        }
    }

    /// Whether a request is of this size.
    #[inline]
    fn is_like(&self, at: u32, size_bytes: u64) -> bool {
        self.entry(at).is_some_and(|entry| entry.size_bytes == size_bytes)
    }

    /// The request of an earlier step that corresponds to a request of this size.
    fn match_next(&mut self, size_bytes: u64, previous: [u32; LENGTHS.len()]) -> u32 {
        let is_like = |at: &u32| self.is_like(*at, size_bytes);
        let next = Some(self.next).filter(|next| *next != NONE);
        let followed = next.filter(is_like).map(|next| (next, self.followed.saturating_add(1)));
        let known = followed.map_or(0, |(_, followed)| followed);
        // A longer sequence than the one followed counts more. In a plan only the longest does.
        let longer = LENGTHS.into_iter().zip(previous).find(|(length, at)| {
            *length > known && is_like(at) && (*at >= self.planned || *length == LENGTHS[0])
        });
        let longer = longer.map(|(length, at)| (at, length));
        let (long, short) = match longer {
            Some((_, length)) if length == LENGTHS[SHORTEST] => (None, longer),
            _ => (longer, None),
        };
        let skipped = || {
            let first = next.filter(|next| *next >= self.planned)?.wrapping_add(1);
            let places = (0..SKIPPED).map(|skipped| first.wrapping_add(skipped));
            places.into_iter().find(|at| is_like(at)).map(|at| (at, 0))
        };
        let found = long.or(followed).or_else(skipped).or(short);
        if next.is_none() || found.map(|(at, _)| at) != next {
            (self.departed, self.alternating_bytes) = (self.count, 0);
        }
        if let Some((at, followed)) = found {
            (self.next, self.followed) = (at.wrapping_add(1), followed);
            return at;
        }
        self.followed = 0;
        NONE
    }

    /// Where the last request was placed. Returns its number, for [`note_free`](Self::note_free).
    #[inline]
    pub(crate) fn remember(&mut self, place: Placement) -> u32 {
        let last = self.count.wrapping_sub(1);
        let at = self.slot(last);
        self.entries[at].place = Some(place);
        last
    }

    /// The block of a request was freed.
    #[inline]
    pub(crate) fn note_free(&mut self, at: u32) {
        if self.entry(at).is_some() {
            let place = self.slot(at);
            self.entries[place].freed_before = self.count;
        }
    }

    /// The places that requests will probably want during the life of the last request's block: those of the
    /// corresponding requests two steps back, which are more likely to last than those of one step back. A request that
    /// has none there wants that of one step back.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (RangeId, Addr, u64)> {
        let matched = self.entry(self.count.wrapping_sub(1)).map_or(NONE, |last| last.matched);
        let end = self.entry(matched).map_or(NONE, |entry| entry.freed_before);
        let end = if end == NONE { self.count.wrapping_sub(1) } else { end };
        let end = end.min(matched.saturating_add(EXPECTED));
        let range = if matched == NONE || self.is_suspended() { 0..0 } else { matched + 1..end };
        range.filter_map(move |at| {
            let entry = self.entry(at)?;
            let entry = self.entry(entry.matched).unwrap_or(entry);
            entry.place.map(|place| (place.run, place.addr, entry.size_bytes))
        })
    }

    /// The mappings of the last request exceed the budget of addresses. If it is part of a step that is certain to
    /// repeat, each execution would map again: its placements are suspended.
    pub(crate) fn note_overflow(&mut self) {
        if self.is_suspended() || (self.is_certain() && self.occurrences() == CANDIDATES) {
            self.overflows = (self.overflows + 1).min(2);
            self.set_certain();
        }
    }

    /// Whether no placements are offered.
    #[inline]
    const fn is_suspended(&self) -> bool {
        self.overflows > 0
    }

    /// Whether a step exceeds the budget of addresses without remembered placements too.
    pub(crate) const fn needs_slack(&self) -> bool {
        self.overflows > 1
    }

    /// How often the last request occurred before, counted to 4; never while its placements are suspended.
    pub(crate) fn occurrences(&self) -> usize {
        self.before().count()
    }

    /// Whether the requests were those of the step before for two and a half times its length: the step repeats as it
    /// is. Steps in an order of their own rarely do for as long.
    pub(crate) fn is_repeating(&self) -> bool {
        let last = self.count.wrapping_sub(1);
        self.entry(last).filter(|last| last.matched != NONE).is_some_and(|entry| {
            let step = last.wrapping_sub(entry.matched);
            self.count.wrapping_sub(self.departed)
                >= step.saturating_mul(2).saturating_add(step / 2)
        })
    }

    /// Whether as many requests in a row correspond to an earlier step as the longest sequence has.
    pub(crate) const fn is_certain(&self) -> bool {
        self.followed >= LENGTHS[0]
    }

    /// Whether half as many do.
    pub(crate) const fn is_followed(&self) -> bool {
        self.followed >= LENGTHS[0] / 2
    }

    /// Where the last request was placed in the steps before, the most likely first.
    pub(crate) fn recent(&self) -> [Option<Placement>; 2] {
        let [one, two] = self.places_from(0);
        if self.is_newest_first { [one, two] } else { [two, one] }
    }

    /// The same four and three steps back.
    pub(crate) fn older(&self) -> [Option<Placement>; 2] {
        let [three, four] = self.places_from(2);
        [four, three]
    }

    /// The places so many steps back and one step more.
    fn places_from(&self, steps: usize) -> [Option<Placement>; 2] {
        let mut before = self.before().skip(steps).map(|entry| entry.place);
        [before.next().flatten(), before.next().flatten()]
    }

    /// The requests of earlier steps that correspond to the last one, the newest first.
    fn before(&self) -> impl Iterator<Item = &Entry> {
        let last = self.entry(self.count.wrapping_sub(1)).filter(|_| !self.is_suspended());
        let matched = |entry: &&Entry| self.entry(entry.matched);
        core::iter::successors(last, matched).skip(1).take(CANDIDATES)
    }
}

#[cfg(test)]
mod tests;
