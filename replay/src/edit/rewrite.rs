//! Edits of one device's requests, record by record.

use std::collections::{HashMap, HashSet};

use trace_format::{Addr, Event, Record, Stream};

use super::Summary;
use super::plan::Plan;

/// The largest request that scaling makes: far more than any device has, and no overflow anywhere.
const REQUEST_BYTES_MAX: u64 = 1 << 50;

/// A block after the edits.
struct Block {
    stream: Stream,
    requested_bytes: u64,
    /// Other streams that used it, after the edits.
    users: Vec<Stream>,
    is_dropped: bool,
}

/// The requests of a device after the edits. What the allocator did is left out; that the device refused stays, for it
/// says which frees a flush completed.
pub(super) fn rewrite<'p>(
    records: impl Iterator<Item = Record> + 'p,
    plan: &'p Plan,
    summary: &'p mut Summary,
) -> impl Iterator<Item = Record> + 'p {
    let mut rewriter =
        Rewriter { plan, summary, live: HashMap::new(), freed_at_once: HashSet::new() };
    records.filter_map(move |record| rewriter.record(&record))
}

struct Rewriter<'a> {
    plan: &'a Plan,
    summary: &'a mut Summary,
    /// By the recorded address. Blocks of the tape's start are not here, and stay as they were.
    live: HashMap<Addr, Block>,
    /// Blocks whose second half is still to come on the tape, and not any more in the edit.
    freed_at_once: HashSet<Addr>,
}

impl Rewriter<'_> {
    fn record(&mut self, record: &Record) -> Option<Record> {
        let event = match record.event {
            Event::Alloc { addr, requested_bytes, stream, pool, .. } => {
                let asked = self.request(record, requested_bytes, stream);
                let (requested_bytes, stream) = asked.unwrap_or((requested_bytes, stream));
                let is_dropped = asked.is_none();
                let users = Vec::new();
                self.live.insert(addr, Block { stream, requested_bytes, users, is_dropped });
                asked?;
                Event::Alloc { addr, requested_bytes, size_bytes: requested_bytes, stream, pool }
            }
            Event::Oom { requested_bytes, device_free_bytes, stream, pool, .. } => {
                let (requested_bytes, stream) = self.request(record, requested_bytes, stream)?;
                let size_bytes = requested_bytes;
                Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool }
            }
            Event::RecordStream { addr, stream } => {
                let stream = self.plan.stream(stream);
                if let Some(block) = self.live.get_mut(&addr) {
                    block.users.push(stream);
                    if block.is_dropped || stream == block.stream {
                        return None;
                    }
                }
                Event::RecordStream { addr, stream }
            }
            Event::Free { addr, requested_bytes, size_bytes, pending } => {
                self.free(addr, (requested_bytes, size_bytes), pending)?
            }
            Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                match self.live.remove(&addr) {
                    Some(block) if block.is_dropped => return None,
                    Some(Block { requested_bytes, .. }) => {
                        let size_bytes = requested_bytes;
                        Event::FreeCompleted { addr, requested_bytes, size_bytes }
                    }
                    // Both halves were made one.
                    None if self.freed_at_once.remove(&addr) => return None,
                    None => Event::FreeCompleted { addr, requested_bytes, size_bytes },
                }
            }
            Event::Category { addr, .. } => {
                let is_dropped = self.live.get(&addr).is_some_and(|block| block.is_dropped);
                (!is_dropped).then_some(record.event)?
            }
            Event::SegmentAlloc { .. }
            | Event::SegmentFree { .. }
            | Event::SegmentMap { .. }
            | Event::SegmentUnmap { .. } => return None,
            event => event,
        };
        Some(Record { event, ..*record })
    }

    /// A request after the edits; `None` where it is dropped.
    fn request(&mut self, record: &Record, bytes: u64, stream: Stream) -> Option<(u64, Stream)> {
        if self.plan.drops(record.stack) {
            self.summary.dropped += 1;
            self.summary.dropped_bytes += bytes;
            return None;
        }
        let mut requested_bytes = bytes;
        for factor in self.plan.factors(record.stack) {
            let scaled = (requested_bytes as f64 * factor).round();
            requested_bytes = (scaled as u64).clamp(1, REQUEST_BYTES_MAX);
        }
        let moved = self.plan.stream(stream);
        self.summary.scaled += u64::from(requested_bytes != bytes);
        self.summary.moved += u64::from(moved != stream);
        Some((requested_bytes, moved))
    }

    fn free(&mut self, addr: Addr, sizes: (u64, u64), pending: bool) -> Option<Event> {
        let Some(block) = self.live.get(&addr) else {
            let (requested_bytes, size_bytes) = sizes;
            return Some(Event::Free { addr, requested_bytes, size_bytes, pending });
        };
        let (is_dropped, requested_bytes) = (block.is_dropped, block.requested_bytes);
        // One stream needs no wait. The streams that used the block are known only where the run recorded them.
        let waits = block.users.is_empty() || block.users.iter().any(|user| *user != block.stream);
        let is_late = pending && (is_dropped || waits);
        if !is_late {
            self.live.remove(&addr);
        }
        if pending && !is_late {
            self.freed_at_once.insert(addr);
            self.summary.freed_at_once += 1;
        }
        let size_bytes = requested_bytes;
        (!is_dropped).then_some(Event::Free { addr, requested_bytes, size_bytes, pending: is_late })
    }
}
