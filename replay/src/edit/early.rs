//! Blocks that are freed earlier: a delay after their last recorded use.
//!
//! A tape does not record kernels. It has a block's allocation and each `record_stream`; the free is only the
//! moment when the program let go of it. Between the last known use and the free, a kernel may have used the block or
//! not. So these frees show the most that freeing early could gain, and never that a program could do so.

use std::collections::HashMap;
use std::iter;

use trace_format::{Addr, Event, Record, StackId};

use super::plan::Plan;
use super::{Delay, Summary};

/// The records with the frees that the plan means where they happen earlier.
pub(super) fn free_early<'r>(
    records: &'r [Record],
    plan: &Plan,
    summary: &mut Summary,
) -> impl Iterator<Item = Record> + use<'r> {
    let mut moves = if plan.has_delays() { Moves::new(records) } else { Moves::none(records) };
    for life in lives(records, plan) {
        if moves.free(&life) {
            summary.freed_early += 1;
            summary.freed_early_bytes += life.requested_bytes;
        }
    }
    moves.into_records()
}

/// A block that is meant. Records are named by their places.
struct Life {
    delay: Delay,
    addr: Addr,
    requested_bytes: u64,
    size_bytes: u64,
    last_use: usize,
    /// None where it lives to the tape's end.
    free: Option<usize>,
    /// The record that completed a free that waited for other streams; none where it did not wait.
    completed: Option<usize>,
}

/// The blocks that the plan means, in the order of their allocations.
fn lives(records: &[Record], plan: &Plan) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    if !plan.has_delays() {
        return lives;
    }
    let mut at_addr: HashMap<Addr, usize> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                let delay = plan.delay(record.stack).filter(|_| !plan.drops(record.stack));
                at_addr.remove(&addr);
                if let Some(delay) = delay {
                    at_addr.insert(addr, lives.len());
                    lives.push(Life {
                        delay,
                        addr,
                        requested_bytes,
                        size_bytes,
                        last_use: at,
                        free: None,
                        completed: None,
                    });
                }
            }
            Event::RecordStream { addr, .. } => {
                if let Some(life) = at_addr.get(&addr) {
                    lives[*life].last_use = at;
                }
            }
            Event::Free { addr, .. } => {
                if let Some(life) = at_addr.get(&addr) {
                    lives[*life].free = Some(at);
                }
            }
            Event::FreeCompleted { addr, .. } => {
                if let Some(life) = at_addr.get(&addr) {
                    lives[*life].completed = Some(at);
                }
            }
            _ => {}
        }
    }
    lives
}

/// The moved frees, and their new places.
struct Moves<'r> {
    records: &'r [Record],
    /// Requests up to each record, itself included.
    requests: Vec<u64>,
    /// The latest time up to each record.
    time_ns: Vec<u64>,
    /// Where a free before this record stands: inside a retry, whose frees were done by its flush, before all of it.
    outside_retry: Vec<usize>,
    /// Empty where nothing is moved.
    is_moved: Vec<bool>,
    /// Moved records, each with the number of the record that it now precedes.
    before: Vec<(usize, Record)>,
}

impl<'r> Moves<'r> {
    fn none(records: &'r [Record]) -> Self {
        let (requests, time_ns, outside_retry) = (Vec::new(), Vec::new(), Vec::new());
        let (is_moved, before) = (Vec::new(), Vec::new());
        Self { records, requests, time_ns, outside_retry, is_moved, before }
    }

    fn new(records: &'r [Record]) -> Self {
        let (mut asked, mut latest_ns, mut retry) = (0, 0, None);
        let (mut requests, mut time_ns) = (Vec::new(), Vec::new());
        let mut outside_retry = Vec::with_capacity(records.len());
        for (at, record) in records.iter().enumerate() {
            let is_request = matches!(record.event, Event::Alloc { .. } | Event::Oom { .. });
            asked += u64::from(is_request);
            latest_ns = latest_ns.max(record.time_ns);
            requests.push(asked);
            time_ns.push(latest_ns);
            outside_retry.push(retry.unwrap_or(at));
            if is_request {
                retry = None;
            } else if matches!(record.event, Event::DriverRefused { .. }) {
                retry = retry.or(Some(at));
            }
        }
        let is_moved = vec![false; records.len()];
        Self { records, requests, time_ns, outside_retry, is_moved, before: Vec::new() }
    }

    /// Frees a block where its delay is over. False where the run did so earlier, or ended earlier.
    fn free(&mut self, life: &Life) -> bool {
        let end = self.records.len();
        let place = self.place(life.delay, life.last_use, 0);
        let Some(place) = place.filter(|place| *place < life.free.unwrap_or(end)) else {
            return false;
        };
        let Life { addr, requested_bytes, size_bytes, .. } = *life;
        let pending = life.free.is_some_and(|free| {
            matches!(self.records[free].event, Event::Free { pending: true, .. })
        });
        self.put(place, life.free, Event::Free { addr, requested_bytes, size_bytes, pending });
        if let (Some(free), Some(completed)) = (life.free, life.completed) {
            // How long other streams would have needed is not on the tape: as long as they did.
            let clock = self.clock(life.delay);
            let waited = clock[completed] - clock[free];
            let later = self.place(life.delay, life.last_use, waited);
            if let Some(later) = later.map(|later| later.max(place)).filter(|at| *at < completed) {
                let event = Event::FreeCompleted { addr, requested_bytes, size_bytes };
                self.put(later, Some(completed), event);
            }
        }
        true
    }

    /// The last place behind a use where the delay, and `more`, are not exceeded; none where the tape ends first.
    fn place(&self, delay: Delay, last_use: usize, more: u64) -> Option<usize> {
        let clock = self.clock(delay);
        let wait = match delay {
            Delay::Requests(requests) => requests,
            Delay::Time { ns } => ns,
        };
        let due = clock[last_use].saturating_add(wait).saturating_add(more);
        self.outside_retry.get(clock.partition_point(|now| *now <= due)).copied()
    }

    /// The clock that a delay is measured by, up to each record.
    fn clock(&self, delay: Delay) -> &[u64] {
        match delay {
            Delay::Requests(_) => &self.requests,
            Delay::Time { .. } => &self.time_ns,
        }
    }

    /// Puts an event before the record at `place`, instead of the one at `from`.
    fn put(&mut self, place: usize, from: Option<usize>, event: Event) {
        let Record { time_ns, thread, .. } = self.records[place - 1];
        let (thread, stack) = match from.map(|from| &self.records[from]) {
            Some(record) => (record.thread, record.stack),
            None => (thread, StackId::NONE),
        };
        if let Some(from) = from {
            self.is_moved[from] = true;
        }
        self.before.push((place, Record { time_ns, thread, stack, event }));
    }

    fn into_records(self) -> impl Iterator<Item = Record> + use<'r> {
        let Self { records, is_moved, mut before, .. } = self;
        // In one place they stay in the order in which they were put.
        before.sort_by_key(|(place, _)| *place);
        let (mut before, mut at) = (before.into_iter().peekable(), 0);
        iter::from_fn(move || {
            loop {
                if let Some((_, early)) = before.next_if(|(place, _)| *place == at) {
                    return Some(early);
                }
                let record = records.get(at)?;
                at += 1;
                if is_moved.get(at - 1) != Some(&true) {
                    return Some(*record);
                }
            }
        })
    }
}
