//! Stream captures: which streams take part, and the graph so far.
//!
//! The rules are the driver's (`cuStreamBeginCapture`, `cuThreadExchangeStreamCaptureMode`): a call that a capture
//! forbids fails and invalidates the captures it conflicts with; a wait on a captured event pulls the waiting stream
//! in; every stream must be joined before the end.

use std::thread::{self, ThreadId};

use events::Stream;
use rustc_hash::FxHashMap;

use super::sequence::{CapturedGraph, Position, Sequence};
use super::{code, refuse};
use device::{Capture, CaptureId, CaptureMode, DeviceCall, DeviceError, GraphNode, Result};

#[derive(Clone, Debug, Default)]
pub(super) struct Captures {
    /// The last capture's id.
    begun: u64,
    last_node: u64,
    active: Vec<Sequence>,
    /// Threads whose mode is not the default one.
    modes: FxHashMap<ThreadId, CaptureMode>,
}

impl Captures {
    pub(super) fn begin(&mut self, stream: Stream, mode: CaptureMode) -> Result<CaptureId> {
        if stream == Stream(0) {
            let message = "the default stream cannot be captured";
            return Err(refuse(DeviceCall::Capture, code::CAPTURE_UNSUPPORTED, message));
        }
        if self.of(stream).is_some() {
            let message = format!("stream {stream} captures already");
            return Err(refuse(DeviceCall::Capture, code::ILLEGAL_STATE, message));
        }
        self.begun += 1;
        let id = CaptureId(self.begun);
        self.active.push(Sequence::new(id, stream, mode));
        Ok(id)
    }

    pub(super) fn end(&mut self, stream: Stream) -> Result<CapturedGraph> {
        let call = DeviceCall::Capture;
        let Some(at) = self.active.iter().position(|sequence| sequence.takes(stream)) else {
            let message = format!("stream {stream} does not capture");
            return Err(refuse(call, code::ILLEGAL_STATE, message));
        };
        if self.active[at].origin != stream {
            self.active[at].invalidated = true;
            let message = format!("the capture began on stream {}", self.active[at].origin);
            return Err(refuse(call, code::CAPTURE_UNMATCHED, message));
        }
        let here = thread::current().id();
        if self.active[at].mode != CaptureMode::Relaxed && self.active[at].thread != here {
            let message = "the capture began in another thread";
            return Err(refuse(call, code::CAPTURE_WRONG_THREAD, message));
        }
        let sequence = self.active.swap_remove(at);
        if sequence.invalidated {
            return Err(invalidated());
        }
        if let Some(unjoined) = sequence.unjoined() {
            let message = format!("work on stream {unjoined} was not joined to stream {stream}");
            return Err(refuse(call, code::CAPTURE_UNJOINED, message));
        }
        Ok(CapturedGraph { id: sequence.id, nodes: sequence.nodes })
    }

    pub(super) fn launch(&mut self, stream: Stream) -> Result<Option<GraphNode>> {
        if self.active.is_empty() {
            return Ok(None);
        }
        let node = GraphNode(self.last_node + 1);
        let Some(sequence) = self.of_mut(stream)? else { return Ok(None) };
        sequence.add(stream, node);
        self.last_node += 1;
        Ok(Some(node))
    }

    /// `stream`'s position, when it captures.
    pub(super) fn position(&mut self, stream: Stream) -> Result<Option<Position>> {
        Ok(self.of_mut(stream)?.map(|sequence| Position {
            capture: sequence.id,
            terminals: sequence.terminals.get(&stream).cloned().unwrap_or_default(),
        }))
    }

    pub(super) fn wait(&mut self, stream: Stream, event: Option<&Position>) -> Result<()> {
        let call = DeviceCall::Capture;
        let waiting = self.of_mut(stream)?.map(|sequence| sequence.id);
        let Some(event) = event else {
            if waiting.is_none() {
                return Ok(());
            }
            self.invalidate(|sequence| sequence.takes(stream));
            let message = format!("stream {stream} captures, the event was recorded outside");
            return Err(refuse(call, code::CAPTURE_ISOLATION, message));
        };
        if waiting.is_some_and(|id| id != event.capture) {
            self.invalidate(|sequence| sequence.takes(stream) || sequence.id == event.capture);
            let message = format!("stream {stream} takes part in another capture");
            return Err(refuse(call, code::CAPTURE_MERGE, message));
        }
        let Some(sequence) = self.active.iter_mut().find(|s| s.id == event.capture) else {
            let message = "the event's capture is over";
            return Err(refuse(call, code::CAPTURED_EVENT, message));
        };
        let terminals = sequence.terminals.entry(stream).or_default();
        for &node in &event.terminals {
            if !terminals.contains(&node) {
                terminals.push(node);
            }
        }
        Ok(())
    }

    pub(super) fn set_dependencies(&mut self, stream: Stream, nodes: &[GraphNode]) -> Result<()> {
        let Some(sequence) = self.of_mut(stream)? else {
            let message = format!("stream {stream} does not capture");
            return Err(refuse(DeviceCall::Capture, code::ILLEGAL_STATE, message));
        };
        if let Some(node) = nodes.iter().find(|node| sequence.node(**node).is_none()) {
            return Err(foreign(DeviceCall::Capture, *node));
        }
        sequence.terminals.insert(stream, nodes.to_vec());
        Ok(())
    }

    pub(super) fn info(&self, stream: Stream) -> Result<Option<Capture>> {
        let Some(sequence) = self.of(stream) else { return Ok(None) };
        if sequence.invalidated {
            return Err(invalidated());
        }
        let terminals = sequence.terminals.get(&stream).cloned().unwrap_or_default();
        Ok(Some(Capture { id: sequence.id, terminals }))
    }

    pub(super) fn in_progress(&self) -> usize {
        self.active.len()
    }

    pub(super) fn is_invalidated(&self, stream: Stream) -> bool {
        self.of(stream).is_some_and(|sequence| sequence.invalidated)
    }

    /// What a node of a capture in progress depends on.
    pub(super) fn dependencies(&self, node: GraphNode) -> Result<Vec<GraphNode>> {
        let found = self.active.iter().find_map(|sequence| sequence.node(node));
        found
            .map(|found| found.dependencies.clone())
            .ok_or_else(|| foreign(DeviceCall::Dependencies, node))
    }

    pub(super) fn exchange_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let thread = thread::current().id();
        let old = if mode == CaptureMode::Global {
            self.modes.remove(&thread)
        } else {
            self.modes.insert(thread, mode)
        };
        old.unwrap_or(CaptureMode::Global)
    }

    /// Refuses a potentially unsafe call, and invalidates the captures that forbid it.
    pub(super) fn unsafe_call(&mut self, call: DeviceCall) -> Result<()> {
        if self.active.is_empty() {
            return Ok(());
        }
        let here = thread::current().id();
        let mode = self.modes.get(&here).copied().unwrap_or(CaptureMode::Global);
        if mode == CaptureMode::Relaxed {
            return Ok(());
        }
        let forbidding = self.invalidate(|sequence| {
            (sequence.thread == here && sequence.mode != CaptureMode::Relaxed)
                || (mode == CaptureMode::Global && sequence.mode == CaptureMode::Global)
        });
        if forbidding { Err(not_permitted(call)) } else { Ok(()) }
    }

    /// Refuses to wait for a stream that captures, whatever the mode.
    pub(super) fn wait_for(&mut self, call: DeviceCall, stream: Stream) -> Result<()> {
        if self.invalidate(|sequence| sequence.takes(stream)) {
            return Err(not_permitted(call));
        }
        Ok(())
    }

    pub(super) fn leftovers(&self) -> Option<String> {
        (!self.active.is_empty()).then(|| format!("{} captures not ended", self.active.len()))
    }

    fn of(&self, stream: Stream) -> Option<&Sequence> {
        self.active.iter().find(|sequence| sequence.takes(stream))
    }

    /// The sequence that `stream` takes part in; an invalidated one is an error.
    fn of_mut(&mut self, stream: Stream) -> Result<Option<&mut Sequence>> {
        match self.active.iter_mut().find(|sequence| sequence.takes(stream)) {
            Some(sequence) if sequence.invalidated => Err(invalidated()),
            found => Ok(found),
        }
    }

    /// Invalidates the sequences that match; whether there were any.
    fn invalidate(&mut self, matches: impl Fn(&Sequence) -> bool) -> bool {
        let mut any = false;
        for sequence in self.active.iter_mut().filter(|sequence| matches(sequence)) {
            sequence.invalidated = true;
            any = true;
        }
        any
    }
}

fn invalidated() -> DeviceError {
    let message = "the capture was invalidated by an earlier error";
    refuse(DeviceCall::Capture, code::CAPTURE_INVALIDATED, message)
}

fn not_permitted(call: DeviceCall) -> DeviceError {
    refuse(call, code::CAPTURE_UNSUPPORTED, "not permitted while a stream captures")
}

fn foreign(call: DeviceCall, node: GraphNode) -> DeviceError {
    let message = format!("node {} is not of a capture in progress", node.0);
    refuse(call, code::INVALID_VALUE, message)
}
