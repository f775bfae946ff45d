//! Frees that wait: a block that other streams used is reusable only when their work is done.
//!
//! An event on each using stream shows that (`insert_events`, `process_events`). Frees that a graph capture holds back
//! are in `capture_deferred.rs`.

use alloc::vec::Vec;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use hashbrown::HashSet;

use events::{Addr, Event, Stream};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{AllocError, Heap};
use crate::arena::BlockId;
use device::{CaptureId, Device, EventId, GraphNode, Result};
use events::Recorder;

type StreamsOf = HashMap<BlockId, Users, FxBuildHasher>;

/// The streams that used a block, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Users {
    pub(super) streams: Vec<Stream>,
    /// The same, where they are too many for a scan.
    known: BTreeSet<Stream>,
}

impl Users {
    fn add(&mut self, stream: Stream) {
        const SCANNED: usize = 32;
        let is_new = if self.streams.len() < SCANNED {
            !self.streams.contains(&stream)
        } else {
            if self.known.is_empty() {
                self.known.extend(&self.streams);
            }
            self.known.insert(stream)
        };
        if is_new {
            self.streams.push(stream);
        }
    }
}

/// A free that the caller completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Frees in waiting, and what they wait for.
#[derive(Clone, Default)]
pub(super) struct Pending {
    /// Events by stream, oldest first: a slow stream delays no other.
    queues: Vec<(Stream, VecDeque<(EventId, BlockId)>)>,
    /// The place of each stream among them.
    queue_of: BTreeMap<Stream, usize>,
    /// Events in all of them.
    awaited: usize,
    /// Blocks that the caller completes (a replay: the tape has the moment), in the order in which a flush completes
    /// them.
    deferred: BTreeMap<u64, BlockId>,
    /// The places of tickets that were moved; the place of any other is its number.
    moved: HashMap<u64, u64, FxBuildHasher>,
    next_ticket: u64,
    /// Blocks held back by a capture, each with the graph nodes that end its uses; without nodes, until the end.
    pub(super) held: Vec<(BlockId, Vec<GraphNode>)>,
    /// The streams that used a block since it was handed out.
    pub(super) uses: StreamsOf,
    /// Those of them whose use was captured.
    pub(super) captured_uses: StreamsOf,
    /// Graph nodes known to come before everything that a stream captures next.
    pub(super) passed: HashMap<(CaptureId, Stream), HashSet<GraphNode>, FxBuildHasher>,
}

impl Pending {
    /// Lets a block wait for [`take_deferred`](Self::take_deferred).
    pub(super) fn defer(&mut self, id: BlockId) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.deferred.insert(ticket.0, id);
        ticket
    }

    /// Moves a ticket behind all others, in which order a flush completes them.
    pub(super) fn put_last(&mut self, ticket: Ticket) {
        if let Some(id) = self.take_deferred(ticket) {
            self.moved.insert(ticket.0, self.next_ticket);
            self.deferred.insert(self.next_ticket, id);
            self.next_ticket += 1;
        }
    }

    /// The block of a ticket, unless a flush completed it.
    pub(super) fn take_deferred(&mut self, ticket: Ticket) -> Option<BlockId> {
        let place = self.moved.remove(&ticket.0).unwrap_or(ticket.0);
        self.deferred.remove(&place)
    }

    /// Whether every use of the block was captured.
    pub(super) fn only_captured_uses(&self, id: BlockId) -> bool {
        let captured = self.captured_uses.get(&id);
        self.uses.get(&id).is_none_or(|uses| {
            let is_captured =
                |stream| captured.is_some_and(|captured| captured.streams.contains(stream));
            uses.streams.iter().all(is_captured)
        })
    }

    /// Whether a free waits for a stream, or for the end of a capture.
    #[inline]
    pub(super) fn awaits_streams(&self) -> bool {
        !self.held.is_empty() || self.awaited > 0
    }

    /// Lets a block wait for an event of a stream.
    fn await_event(&mut self, stream: Stream, event: EventId, id: BlockId) {
        let at = *self.queue_of.entry(stream).or_insert_with(|| {
            self.queues.push((stream, VecDeque::new()));
            self.queues.len() - 1
        });
        self.queues[at].1.push_back((event, id));
        self.awaited += 1;
    }

    /// Drops queues without events where there are many: each allocation looks at all of them.
    fn prune_queues(&mut self) {
        const KEPT: usize = 32;
        if self.queues.len() > KEPT {
            self.queues.retain(|(_, queue)| !queue.is_empty());
            let places = self.queues.iter().enumerate();
            self.queue_of = places.map(|(at, (stream, _))| (*stream, at)).collect();
        }
    }

    /// Drops what is known about a block's uses.
    pub(super) fn forget_uses(&mut self, id: BlockId) {
        self.uses.remove(&id);
        self.captured_uses.remove(&id);
    }
}

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Notes that `stream` uses the block, so that its free waits for it (`recordStream`). The block's own stream needs
    /// no note.
    ///
    /// # Errors
    /// When the address is not handed out.
    pub fn record_stream(&mut self, addr: Addr, stream: Stream) -> Result<(), AllocError> {
        let id = self.find(addr)?;
        if self.blocks.stream_of(id) == stream {
            return Ok(());
        }
        self.record(Event::RecordStream { addr, stream });
        self.blocks[id].used_by_others = true;
        self.pending.uses.entry(id).or_default().add(stream);
        if self.stream_in_capture(stream)? {
            self.pending.captured_uses.entry(id).or_default().add(stream);
        }
        Ok(())
    }

    /// Lets a free wait for the streams that used the block. Where that fails, it waits for the next flush.
    pub(super) fn await_other_streams(&mut self, id: BlockId) -> Result<(), AllocError> {
        let awaited = match self.used_in_capture(id) {
            Ok(true) => {
                let nodes = if self.config.graph_capture_record_stream_reuse {
                    self.last_uses_in_graph(id).unwrap_or_default()
                } else {
                    Vec::new()
                };
                self.pending.held.push((id, nodes));
                return Ok(());
            }
            Ok(false) => self.insert_events(id),
            Err(error) => Err(error),
        };
        awaited.inspect_err(|_| self.pending.held.push((id, Vec::new())))?;
        Ok(())
    }

    /// Records an event on each stream that used the block.
    pub(super) fn insert_events(&mut self, id: BlockId) -> Result<()> {
        while let Some(&stream) = self.pending.uses.get(&id).and_then(|users| users.streams.last())
        {
            let event = self.device.event_record(stream)?;
            self.blocks[id].event_count += 1;
            self.pending.await_event(stream, event, id);
            self.pending.uses.get_mut(&id).expect("looked up above").streams.pop();
        }
        self.pending.forget_uses(id);
        self.blocks[id].used_by_others = false;
        Ok(())
    }

    /// Completes the frees whose events are done, asking each stream's oldest first.
    pub(super) fn process_events(&mut self) -> Result<()> {
        self.relaxed(Self::ask_events)
    }

    fn ask_events(&mut self) -> Result<()> {
        self.insert_held_events()?;
        for at in 0..self.pending.queues.len() {
            while let Some(&(event, id)) = self.pending.queues[at].1.front() {
                if !self.device.event_query(event)? {
                    break;
                }
                self.pending.queues[at].1.pop_front();
                self.pending.awaited -= 1;
                self.device.event_release(event);
                self.complete_event(id);
            }
        }
        self.pending.prune_queues();
        Ok(())
    }

    /// Waits for every pending free, or for those of one private pool (`synchronize_and_free_events`).
    pub(super) fn synchronize_and_free_events(&mut self, private: Option<u32>) -> Result<()> {
        self.stats.rare.num_sync_all_streams += 1;
        self.relaxed(|heap| heap.await_events(private))
    }

    fn await_events(&mut self, private: Option<u32>) -> Result<()> {
        self.insert_held_events()?;
        let concerns = |heap: &Self, id: BlockId| {
            private.is_none() || heap.blocks.pool_of(id).private() == private
        };
        for at in 0..self.pending.queues.len() {
            let mut place = 0;
            while let Some(&(event, id)) = self.pending.queues[at].1.get(place) {
                if !concerns(self, id) {
                    place += 1;
                    continue;
                }
                self.device.event_synchronize(event)?;
                self.pending.queues[at].1.remove(place);
                self.pending.awaited -= 1;
                self.device.event_release(event);
                self.complete_event(id);
            }
        }
        let (now, later): (Vec<_>, BTreeMap<_, _>) = {
            let deferred = core::mem::take(&mut self.pending.deferred).into_iter();
            let (now, later): (Vec<_>, Vec<_>) = deferred.partition(|(_, id)| concerns(self, *id));
            (now, later.into_iter().collect())
        };
        if later.is_empty() {
            self.pending.moved.clear();
        }
        self.pending.deferred = later;
        for (_, id) in now {
            self.complete_event(id);
        }
        self.pending.prune_queues();
        Ok(())
    }

    /// One event of a block is done; the last one makes it reusable.
    pub(super) fn complete_event(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        assert!(block.event_count > 0 && !block.allocated, "a pending block awaits events");
        block.event_count -= 1;
        if block.is_idle() {
            self.complete(id);
        }
    }

    pub(super) fn complete(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let event = Event::FreeCompleted {
            addr: block.addr,
            requested_bytes: block.requested_bytes,
            size_bytes: block.size_bytes,
        };
        let (is_small, size_bytes) = (self.blocks.pool_of(id).is_small(), block.size_bytes);
        self.stats.on_waited(is_small, size_bytes);
        self.record_block(id, event);
        self.make_reusable(id);
    }

    /// The blocks given back and not reusable yet.
    pub(super) fn pending_blocks(&self) -> impl Iterator<Item = BlockId> {
        let queued = self.pending.queues.iter().flat_map(|(_, queue)| queue).map(|(_, id)| *id);
        let held = self.pending.held.iter().map(|(id, _)| *id);
        queued.chain(held).chain(self.pending.deferred.values().copied())
    }
}
