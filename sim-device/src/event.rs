//! Events: recorded, pending, done, or part of a capture.

use std::collections::BTreeSet;

use events::Stream;
use rustc_hash::FxHashMap;

use super::sequence::Position;
use super::{EventPolicy, code, refuse};
use device::{DeviceCall, DeviceError, EventId, Result};

#[derive(Clone, Debug)]
enum State {
    Done,
    Pending { stream: Stream, queries_left: u32 },
    Captured(Position),
}

/// The live events. Ids grow with time, so an event's stream-order predecessors have smaller ids.
#[derive(Clone, Debug)]
pub(super) struct Events {
    policy: EventPolicy,
    next: u64,
    live: FxHashMap<EventId, State>,
    /// Per stream the events that are not done yet.
    pending: FxHashMap<Stream, BTreeSet<u64>>,
    /// Releases of events that were not live: the caller's mistake, reported by `leftovers`.
    bad_releases: u64,
}

impl Events {
    pub(super) fn new(policy: EventPolicy) -> Self {
        Self {
            policy,
            next: 1,
            live: FxHashMap::default(),
            pending: FxHashMap::default(),
            bad_releases: 0,
        }
    }

    /// Records an event; `captured` is the stream's position when it captures.
    pub(super) fn record(&mut self, stream: Stream, captured: Option<Position>) -> EventId {
        let event = EventId(self.next);
        self.next += 1;
        let state = match (captured, self.policy) {
            (Some(position), _) => State::Captured(position),
            (None, EventPolicy::AtOnce | EventPolicy::AfterQueries(0)) => State::Done,
            (None, EventPolicy::AfterQueries(queries_left)) => {
                State::Pending { stream, queries_left }
            }
            (None, EventPolicy::OnRequest) => State::Pending { stream, queries_left: u32::MAX },
        };
        if matches!(state, State::Pending { .. }) {
            self.pending.entry(stream).or_default().insert(event.0);
        }
        self.live.insert(event, state);
        event
    }

    /// Whether the event is done; each "no" counts towards [`EventPolicy::AfterQueries`].
    pub(super) fn query(&mut self, event: EventId) -> Result<bool> {
        let on_request = self.policy == EventPolicy::OnRequest;
        match self.live.get_mut(&event) {
            None => Err(unknown(DeviceCall::EventQuery, event)),
            Some(State::Captured(_)) => Err(is_captured(DeviceCall::EventQuery)),
            Some(State::Done) => Ok(true),
            Some(State::Pending { .. }) if on_request => Ok(false),
            Some(State::Pending { stream, queries_left: 0 }) => {
                let stream = *stream;
                self.complete_until(stream, event.0);
                Ok(true)
            }
            Some(State::Pending { queries_left, .. }) => {
                *queries_left -= 1;
                Ok(false)
            }
        }
    }

    /// Makes the event and everything before it on its stream done.
    pub(super) fn complete(&mut self, event: EventId, call: DeviceCall) -> Result<()> {
        match self.live.get(&event) {
            None => Err(unknown(call, event)),
            Some(State::Captured(_)) => Err(is_captured(call)),
            Some(State::Done) => Ok(()),
            Some(State::Pending { stream, .. }) => {
                self.complete_until(*stream, event.0);
                Ok(())
            }
        }
    }

    pub(super) fn complete_stream(&mut self, stream: Stream) {
        self.complete_until(stream, u64::MAX);
    }

    pub(super) fn complete_all(&mut self) {
        for event in self.pending.drain().flat_map(|(_, events)| events) {
            self.live.insert(EventId(event), State::Done);
        }
    }

    pub(super) fn release(&mut self, event: EventId) {
        match self.live.remove(&event) {
            None => self.bad_releases += 1,
            Some(State::Pending { stream, .. }) => {
                if let Some(events) = self.pending.get_mut(&stream) {
                    events.remove(&event.0);
                    if events.is_empty() {
                        self.pending.remove(&stream);
                    }
                }
            }
            Some(State::Done | State::Captured(_)) => {}
        }
    }

    /// Where in a capture the event was recorded, if in one.
    pub(super) fn captured(&self, event: EventId) -> Result<Option<&Position>> {
        match self.live.get(&event) {
            None => Err(unknown(DeviceCall::EventSynchronize, event)),
            Some(State::Captured(position)) => Ok(Some(position)),
            Some(State::Done | State::Pending { .. }) => Ok(None),
        }
    }

    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        if !self.live.is_empty() {
            left.push(format!("{} events not released", self.live.len()));
        }
        if self.bad_releases > 0 {
            left.push(format!("{} releases of events that were not live", self.bad_releases));
        }
        left
    }

    fn complete_until(&mut self, stream: Stream, last: u64) {
        let Some(events) = self.pending.get_mut(&stream) else { return };
        while let Some(first) = events.first().copied().filter(|&first| first <= last) {
            events.remove(&first);
            self.live.insert(EventId(first), State::Done);
        }
        if events.is_empty() {
            self.pending.remove(&stream);
        }
    }
}

fn unknown(call: DeviceCall, event: EventId) -> DeviceError {
    refuse(call, code::INVALID_HANDLE, format!("event {} is not live", event.0))
}

fn is_captured(call: DeviceCall) -> DeviceError {
    refuse(call, code::CAPTURED_EVENT, "the event was last recorded in a capturing stream")
}
