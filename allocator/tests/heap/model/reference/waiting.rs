//! Frees that wait for other streams.

use allocator::heap::AllocError;
use device::{Device, DeviceError, GraphNode};
use trace_format::{Addr, PoolId, ScopeFilter, Stream};

use super::Reference;

impl Reference {
    /// Whether a request is treated as part of a graph capture.
    pub(super) fn capturing(
        &mut self,
        stream: Stream,
        pool: Option<PoolId>,
    ) -> Result<bool, DeviceError> {
        if self.is_2_11() {
            return Ok(!self.scopes.is_empty());
        }
        let taking = |kind| {
            self.scopes.iter().any(|scope| {
                let takes = pool.map_or(scope.streams.contains(&stream), |pool| scope.pool == pool);
                takes && scope.kind == kind
            })
        };
        if taking(ScopeFilter::Capture) {
            return Ok(true);
        }
        Ok(taking(ScopeFilter::Unknown) && self.device.capture(stream)?.is_some())
    }

    pub(super) fn is_capturing(&self) -> bool {
        let thread_only = |kind| kind == ScopeFilter::Thread && !self.is_2_11();
        self.scopes.iter().any(|scope| !thread_only(scope.kind))
    }

    pub(crate) fn record_stream(&mut self, addr: Addr, stream: Stream) -> Result<(), AllocError> {
        let at = self.allocated_at(addr)?;
        if self.blocks[at].stream == stream {
            return Ok(());
        }
        if !self.blocks[at].uses.contains(&stream) {
            self.blocks[at].uses.push(stream);
        }
        if self.capturing(stream, None)? {
            self.blocks[at].captured_uses.push(stream);
        }
        Ok(())
    }

    /// The second half of `free`, for a block that other streams used.
    pub(super) fn wait_for_uses(&mut self, addr: u64) -> Result<(), DeviceError> {
        let mut streams = self.blocks[self.at(addr)].uses.clone();
        streams.insert(0, self.blocks[self.at(addr)].stream);
        let mut captured = false;
        for &stream in &streams {
            captured = captured || self.capturing(stream, None)?;
        }
        if !captured {
            return self.insert_events(addr);
        }
        let mut markers = Vec::new();
        if self.config.graph_capture_record_stream_reuse {
            for stream in streams {
                let Ok(Some(capture)) = self.device.capture(stream) else {
                    markers.clear();
                    break;
                };
                markers.extend(capture.terminals);
            }
        }
        self.deferred.push((addr, markers));
        Ok(())
    }

    /// `insert_events`, the newest use first: the order only numbers the events.
    fn insert_events(&mut self, addr: u64) -> Result<(), DeviceError> {
        let at = self.at(addr);
        for stream in std::mem::take(&mut self.blocks[at].uses).into_iter().rev() {
            let event = self.device.event_record(stream)?;
            self.blocks[at].events += 1;
            if !self.event_streams.contains(&stream) {
                self.event_streams.push(stream);
            }
            self.events.push((stream, event, addr));
        }
        self.blocks[at].captured_uses.clear();
        Ok(())
    }

    /// `insert_events_deferred_until_no_capture`.
    fn insert_deferred_events(&mut self) -> Result<(), DeviceError> {
        if self.is_capturing() {
            return Ok(());
        }
        for (addr, _) in std::mem::take(&mut self.deferred) {
            let at = self.at(addr);
            let captured = std::mem::take(&mut self.blocks[at].captured_uses);
            self.blocks[at].uses.retain(|stream| !captured.contains(stream));
            self.insert_events(addr)?;
            if self.idle(self.at(addr)) {
                self.free_completed(addr);
            }
        }
        Ok(())
    }

    /// `process_events`.
    pub(super) fn process_events(&mut self) -> Result<(), DeviceError> {
        self.insert_deferred_events()?;
        for stream in self.event_streams.clone() {
            while let Some(at) = self.events.iter().position(|(other, ..)| *other == stream) {
                if !self.device.event_query(self.events[at].1)? {
                    break;
                }
                self.event_done(at);
            }
        }
        Ok(())
    }

    /// `synchronize_and_free_events`.
    pub(super) fn synchronize_events(&mut self, pool: Option<PoolId>) -> Result<(), DeviceError> {
        self.books.count("num_sync_all_streams");
        self.insert_deferred_events()?;
        for stream in self.event_streams.clone() {
            while let Some(at) = self.events.iter().position(|(other, _, addr)| {
                *other == stream && pool.is_none_or(|pool| self.blocks[self.at(*addr)].pool == pool)
            }) {
                self.device.event_synchronize(self.events[at].1)?;
                self.event_done(at);
            }
        }
        Ok(())
    }

    fn event_done(&mut self, at: usize) {
        let (_, event, addr) = self.events.remove(at);
        self.device.event_release(event);
        let block = self.at(addr);
        self.blocks[block].events -= 1;
        if self.idle(block) {
            self.free_completed(addr);
        }
    }

    /// `free_safe_blocks_in_capture`.
    pub(super) fn free_safe_blocks(&mut self, stream: Stream) -> Result<(), DeviceError> {
        let Some(capture) = self.device.capture(stream)? else { return Ok(()) };
        if capture.terminals.is_empty() {
            return Ok(());
        }
        let mut before: Vec<GraphNode> = Vec::new();
        let mut ahead = capture.terminals;
        while let Some(node) = ahead.pop() {
            if !before.contains(&node) {
                before.push(node);
                ahead.extend(self.device.dependencies(node)?);
            }
        }
        self.complete_deferred(|reference, addr, markers| {
            reference.blocks[reference.at(addr)].stream == stream
                && !markers.is_empty()
                && markers.iter().all(|marker| before.contains(marker))
        });
        Ok(())
    }

    /// Frees what a capture held back and `safe` lets go.
    pub(super) fn complete_deferred(&mut self, safe: impl Fn(&Self, u64, &[GraphNode]) -> bool) {
        for (addr, markers) in std::mem::take(&mut self.deferred) {
            if safe(self, addr, &markers) {
                let at = self.at(addr);
                self.blocks[at].uses.clear();
                self.blocks[at].captured_uses.clear();
                self.free_completed(addr);
            } else {
                self.deferred.push((addr, markers));
            }
        }
    }

    pub(super) fn only_captured_uses(&self, addr: u64) -> bool {
        let block = &self.blocks[self.at(addr)];
        block.uses.iter().all(|stream| block.captured_uses.contains(stream))
    }
}
