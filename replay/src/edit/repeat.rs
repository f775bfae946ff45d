//! `repeat`: the last whole step of a run happens more often.
//!
//! A step frees blocks of the step before it and leaves blocks to the step behind it. Those of one size, stream, pool
//! and stack correspond in the order of their requests: a repetition frees the blocks that the repetition before it
//! left. A block without counterpart is the same in all repetitions, or belongs to the recorded step alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use trace_format::{Addr, Event, PoolId, Record, StackId, Stream};

/// Names of repeated blocks: no device has such addresses.
const NAMES: u64 = 1 << 62;

/// What blocks must share to correspond.
type Kind = (u64, Stream, PoolId, StackId);

/// The records with the step that these records are repeated behind it.
pub(super) fn repeat(records: &[Record], step: Range<usize>, times: u32) -> Vec<Record> {
    let (before, rest) = records.split_at(step.end);
    let step = &records[step];
    let mut edited = before.to_vec();
    let mut step = Step::new(&records[..records.len() - rest.len() - step.len()], step);
    for time in 1..=u64::from(times) {
        step.append(&mut edited, time);
    }
    // The blocks that the step left are those of its last repetition.
    let behind = rest.iter().map(|record| Record { event: step.renamed(record.event), ..*record });
    edited.extend(behind);
    edited
}

struct Step<'r> {
    records: &'r [Record],
    /// Of the blocks that the step frees and did not request, their counterparts by the places of the requests.
    freed: HashMap<Addr, usize>,
    /// The requests that the step leaves and that have no counterpart, by their places.
    left_alone: Vec<bool>,
    /// The names of the blocks that the last repetition left, by the places of their requests.
    left: HashMap<usize, Addr>,
    /// The blocks that the recorded step left, by their recorded names.
    recorded: HashMap<Addr, usize>,
    next_name: u64,
    length_ns: u64,
}

impl<'r> Step<'r> {
    fn new(before: &[Record], records: &'r [Record]) -> Self {
        // The blocks that are live where the step begins, with what they are.
        let mut live: HashMap<Addr, Kind> = HashMap::new();
        for record in before {
            match record.event {
                Event::Alloc { addr, .. } => {
                    live.insert(addr, kind(record).expect("an allocation has a kind"));
                }
                Event::Free { addr, .. } => {
                    live.remove(&addr);
                }
                _ => {}
            }
        }
        let mut requested: HashMap<Addr, usize> = HashMap::new();
        let mut freed: Vec<Addr> = Vec::new();
        for (at, record) in records.iter().enumerate() {
            match record.event {
                Event::Alloc { addr, .. } => {
                    requested.insert(addr, at);
                }
                Event::Free { addr, .. } if requested.remove(&addr).is_none() => freed.push(addr),
                _ => {}
            }
        }
        let mut left: Vec<usize> = requested.values().copied().collect();
        left.sort_unstable();
        let mut by_kind: HashMap<Kind, std::collections::VecDeque<usize>> = HashMap::new();
        for at in &left {
            by_kind.entry(kind(&records[*at]).expect("a request")).or_default().push_back(*at);
        }
        let mut counterparts = HashMap::new();
        let mut left_alone = vec![false; records.len()];
        for at in &left {
            left_alone[*at] = true;
        }
        for addr in freed {
            let queue = live.get(&addr).and_then(|kind| by_kind.get_mut(kind));
            if let Some(at) = queue.and_then(std::collections::VecDeque::pop_front) {
                counterparts.insert(addr, at);
                left_alone[at] = false;
            }
        }
        let names = left.iter().filter(|at| !left_alone[**at]);
        let addr = |at: usize| match records[at].event {
            Event::Alloc { addr, .. } => addr,
            _ => unreachable!("a request that is left is an allocation"),
        };
        let begin_ns = records.first().map_or(0, |record| record.time_ns);
        let end_ns = records.last().map_or(0, |record| record.time_ns);
        Self {
            left: names.clone().map(|at| (*at, addr(*at))).collect(),
            recorded: names.map(|at| (addr(*at), *at)).collect(),
            records,
            freed: counterparts,
            left_alone,
            next_name: NAMES,
            length_ns: end_ns.saturating_sub(begin_ns).max(1),
        }
    }

    /// Appends one repetition.
    fn append(&mut self, edited: &mut Vec<Record>, time: u64) {
        let mut names: HashMap<Addr, Addr> = HashMap::new();
        let mut pending: Vec<Addr> = Vec::new();
        let mut left = HashMap::new();
        for (at, record) in self.records.iter().enumerate() {
            let mut known = |addr: Addr| match names.entry(addr) {
                Entry::Occupied(name) => Some(*name.get()),
                Entry::Vacant(vacant) => {
                    let place = self.freed.get(&addr)?;
                    Some(*vacant.insert(*self.left.get(place)?))
                }
            };
            let event = match record.event {
                Event::Alloc { .. } if self.left_alone[at] => continue,
                Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
                    let name = Addr(self.next_name);
                    self.next_name += 512;
                    names.insert(addr, name);
                    if self.left.contains_key(&at) {
                        left.insert(at, name);
                    }
                    Event::Alloc { addr: name, requested_bytes, size_bytes, stream, pool }
                }
                Event::Free { addr, requested_bytes, size_bytes, pending: waits } => {
                    let Some(name) = known(addr) else { continue };
                    if waits {
                        pending.push(name);
                    } else {
                        names.remove(&addr);
                    }
                    Event::Free { addr: name, requested_bytes, size_bytes, pending: waits }
                }
                Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                    let name = names.remove(&addr);
                    let place = name.and_then(|name| pending.iter().position(|one| *one == name));
                    let Some(place) = place else { continue };
                    let addr = pending.swap_remove(place);
                    Event::FreeCompleted { addr, requested_bytes, size_bytes }
                }
                Event::RecordStream { addr, stream } => {
                    let Some(addr) = known(addr) else { continue };
                    Event::RecordStream { addr, stream }
                }
                event @ (Event::Mark { .. } | Event::EmptyCache { .. }) => event,
                _ => continue,
            };
            let time_ns = record.time_ns + time * self.length_ns;
            edited.push(Record { event, time_ns, ..*record });
        }
        // What still waits when the step ends would wait for ever, as the recorded completion belongs to the recording.
        let last = edited.last().copied();
        for (addr, record) in pending.into_iter().zip(std::iter::repeat(last).flatten()) {
            let event = Event::FreeCompleted { addr, requested_bytes: 0, size_bytes: 0 };
            edited.push(Record { event, ..record });
        }
        self.left = left;
    }

    /// An event behind the step, with the names that the blocks have now.
    fn renamed(&mut self, event: Event) -> Event {
        let rename = |addr: Addr| {
            let place = self.recorded.get(&addr);
            place.and_then(|place| self.left.get(place)).copied().unwrap_or(addr)
        };
        match event {
            Event::Alloc { addr, .. } => {
                // The recorded name is another block's from here on.
                self.recorded.remove(&addr);
                event
            }
            Event::Free { addr, requested_bytes, size_bytes, pending } => {
                let addr = rename(addr);
                Event::Free { addr, requested_bytes, size_bytes, pending }
            }
            Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                let addr = rename(addr);
                Event::FreeCompleted { addr, requested_bytes, size_bytes }
            }
            Event::RecordStream { addr, stream } => {
                Event::RecordStream { addr: rename(addr), stream }
            }
            Event::Category { addr, category } => Event::Category { addr: rename(addr), category },
            event => event,
        }
    }
}

fn kind(record: &Record) -> Option<Kind> {
    match record.event {
        Event::Alloc { requested_bytes, stream, pool, .. } => {
            Some((requested_bytes, stream, pool, record.stack))
        }
        _ => None,
    }
}
