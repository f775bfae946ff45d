//! Frees that a graph capture holds back: nothing can be asked while it records.
//!
//! They wait until the capture is over, or until the graph's own order shows that whatever comes next comes after them
//! (`graph_capture_record_stream_reuse`).

use alloc::vec::Vec;

use hashbrown::HashSet;

use events::Stream;

use super::Heap;
use crate::arena::BlockId;
use device::{Capture, Device, GraphNode, Result};
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Whether a stream of the block is in a capture: an event recorded there can never be asked (pytorch#193982).
    pub(super) fn used_in_capture(&mut self, id: BlockId) -> Result<bool> {
        if self.scopes.is_empty() {
            return Ok(false);
        }
        let users = self.pending.uses.get(&id).cloned().unwrap_or_default();
        for stream in core::iter::once(self.blocks.stream_of(id)).chain(users.streams) {
            if self.stream_in_capture(stream)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Records the events of frees that a capture held back, once no capture is under way. Captured uses need none: the
    /// capture is over, and its graph has an order of its own.
    pub(super) fn insert_held_events(&mut self) -> Result<()> {
        if self.holds_back_flush() {
            return Ok(());
        }
        while let Some((id, _)) = self.pending.held.first() {
            let id = *id;
            if let Some(captured) = self.pending.captured_uses.remove(&id)
                && let Some(uses) = self.pending.uses.get_mut(&id)
            {
                uses.streams.retain(|stream| !captured.streams.contains(stream));
            }
            self.insert_events(id)?;
            self.pending.held.remove(0);
            if self.blocks[id].is_idle() {
                self.complete(id);
            }
        }
        Ok(())
    }

    /// Completes held-back frees of the stream whose last uses the graph has passed (`free_safe_blocks_in_capture`).
    pub(super) fn free_safe_blocks_in_capture(&mut self, stream: Stream) -> Result<()> {
        let Some(capture) = self.device.capture(stream)? else { return Ok(()) };
        if capture.terminals.is_empty() {
            return Ok(());
        }
        let mut passed = self.pending.passed.remove(&(capture.id, stream)).unwrap_or_default();
        self.walk_back(&capture, &mut passed)?;
        let (safe, held) =
            core::mem::take(&mut self.pending.held).into_iter().partition(|(id, nodes)| {
                !nodes.is_empty()
                    && self.blocks.stream_of(*id) == stream
                    && nodes.iter().all(|node| passed.contains(node))
            });
        self.pending.held = held;
        self.pending.passed.insert((capture.id, stream), passed);
        self.complete_held(safe);
        Ok(())
    }

    /// Completes the held-back frees of a private pool at the end of its capture: its streams have joined (PyTorch
    /// since 2.12, `graph_capture_record_stream_reuse` only). Those with a use outside the capture go on to wait for
    /// it.
    pub(super) fn free_held_blocks_of(&mut self, private: u32) {
        let (done, held) =
            core::mem::take(&mut self.pending.held).into_iter().partition(|(id, _)| {
                self.blocks.pool_of(*id).private() == Some(private)
                    && self.pending.only_captured_uses(*id)
            });
        self.pending.held = held;
        self.complete_held(done);
    }

    fn complete_held(&mut self, held: Vec<(BlockId, Vec<GraphNode>)>) {
        for (id, _) in held {
            self.pending.forget_uses(id);
            self.blocks[id].used_by_others = false;
            if self.blocks[id].is_idle() {
                self.complete(id);
            }
        }
    }

    /// Forgets what was learnt about captures that are over.
    pub(super) fn forget_captures(&mut self) {
        self.pending.passed.clear();
    }

    /// Adds everything before the stream's next operation to `passed`, stopping at what is there already.
    fn walk_back(&mut self, capture: &Capture, passed: &mut HashSet<GraphNode>) -> Result<()> {
        let mut ahead = capture.terminals.clone();
        while let Some(node) = ahead.pop() {
            if passed.insert(node) {
                ahead.extend(self.device.dependencies(node)?);
            }
        }
        Ok(())
    }

    /// The nodes after which nothing in the graph uses the block; `None` if a stream that used it does not capture.
    pub(super) fn last_uses_in_graph(&mut self, id: BlockId) -> Option<Vec<GraphNode>> {
        let own = self.blocks.stream_of(id);
        let others = self.pending.uses.get(&id).cloned().unwrap_or_default();
        let mut nodes = Vec::new();
        for stream in core::iter::once(own).chain(others.streams) {
            for node in self.device.capture(stream).ok()??.terminals {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        Some(nodes)
    }
}
