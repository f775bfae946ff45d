//! A device without a device: address space, capacity, physical memory, streams and captures, kept exactly.
//!
//! The replay and the tests run the allocator on it, and simcuda puts it behind the CUDA entry points for a real
//! PyTorch. It is stricter than a driver: what a driver may forgive (a double map, an unknown pointer, a range that is
//! not mapped) is an error here, so that misuse shows. It is deterministic: addresses come first-fit from the lowest
//! (or from a script), and everything random comes from the seed in [`Faults`].
#![forbid(unsafe_code)]

mod capture;
mod config;
mod dense_map;
mod driver;
mod event;
mod faults;
mod mapping;
mod memory;
mod pages;
mod price;
mod range_set;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use ::events::{Addr, DeviceId, Stream};
use device::{
    CaptureId, CaptureMode, DeviceCall, DeviceError, EventId, GraphNode, HandleType,
    PhysicalHandle, Result,
};

use capture::Captures;
pub use config::{AddressOrder, EventPolicy, SimConfig};
use event::Events;
pub use faults::{Fault, Faults};
use memory::Memory;
pub use price::{Counts, Price, PriceList};
pub use sequence::{CapturedGraph, CapturedNode};

/// `CUresult` codes that the simulated device answers with.
pub mod code {
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub const INVALID_VALUE: u32 = 1;
    /// `CUDA_ERROR_INVALID_DEVICE`.
    pub const INVALID_DEVICE: u32 = 101;
    /// `CUDA_ERROR_ALREADY_MAPPED`.
    pub const ALREADY_MAPPED: u32 = 208;
    /// `CUDA_ERROR_NOT_MAPPED`.
    pub const NOT_MAPPED: u32 = 211;
    /// `CUDA_ERROR_INVALID_HANDLE`.
    pub const INVALID_HANDLE: u32 = 400;
    /// `CUDA_ERROR_ILLEGAL_STATE`.
    pub const ILLEGAL_STATE: u32 = 401;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`.
    pub const CAPTURE_UNSUPPORTED: u32 = 900;
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`.
    pub const CAPTURE_INVALIDATED: u32 = 901;
    /// `CUDA_ERROR_STREAM_CAPTURE_MERGE`.
    pub const CAPTURE_MERGE: u32 = 902;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED`.
    pub const CAPTURE_UNMATCHED: u32 = 903;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNJOINED`.
    pub const CAPTURE_UNJOINED: u32 = 904;
    /// `CUDA_ERROR_STREAM_CAPTURE_ISOLATION`.
    pub const CAPTURE_ISOLATION: u32 = 905;
    /// `CUDA_ERROR_CAPTURED_EVENT`.
    pub const CAPTURED_EVENT: u32 = 907;
    /// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`.
    pub const CAPTURE_WRONG_THREAD: u32 = 908;
}

/// The simulated device; see the module description.
#[derive(Clone, Debug)]
pub struct SimDevice {
    id: DeviceId,
    peers: Vec<DeviceId>,
    memory: Memory,
    events: Events,
    captures: Captures,
    faults: Faults,
    prices: PriceList,
    counts: Counts,
}

impl SimDevice {
    /// A device with nothing allocated.
    pub fn new(config: SimConfig) -> Self {
        Self {
            id: config.device,
            peers: config.peers.clone(),
            memory: Memory::new(&config),
            events: Events::new(config.events),
            captures: Captures::default(),
            faults: config.faults,
            prices: config.prices,
            counts: Counts::default(),
        }
    }

    /// Calls and their price so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What a call of this size costs.
    pub fn price_ns(&self, call: DeviceCall, size_bytes: u64) -> u64 {
        self.prices.of(call).ns(size_bytes)
    }

    /// The faults still to come; more may be added at any time.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Physical bytes in use now: whole granules of allocations and handles, and memory taken for good.
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// The most physical bytes that were ever in use at once.
    pub fn peak_used_bytes(&self) -> u64 {
        self.memory.peak_used_bytes()
    }

    /// The least physical bytes that would have been in use had a refused request been served; `u64::MAX` where none
    /// was refused. With any capacity from [`peak_used_bytes`](Self::peak_used_bytes) up to a byte less, the device
    /// answers the same calls alike.
    pub fn least_refused_bytes(&self) -> u64 {
        self.memory.least_refused_bytes()
    }

    /// Takes memory that has no address and is never returned, such as a CUDA context's: any number of bytes.
    ///
    /// # Errors
    /// Out of memory, if less is free.
    pub fn take(&mut self, size_bytes: u64) -> Result<()> {
        self.memory.take(size_bytes)
    }

    /// The addresses that the next calls of `malloc` and of `reserve` shall answer, in order. One that is taken when
    /// its turn comes is skipped: that call falls back to first fit. An address that is reserved and given back before
    /// anything is mapped there is the next answer again.
    pub fn set_scripts(&mut self, malloc: VecDeque<Addr>, reserve: VecDeque<Addr>) {
        self.memory.set_scripts(malloc, reserve);
    }

    /// The size of the allocation that starts at `addr`.
    pub fn allocation_bytes(&self, addr: Addr) -> Option<u64> {
        self.memory.allocation_bytes(addr)
    }

    /// Start and size of the allocation or reservation that holds `addr`.
    pub fn range_of(&self, addr: Addr) -> Option<(Addr, u64)> {
        self.memory.range_of(addr)
    }

    /// Whether a kernel on `device` could use the byte at `addr`: it is allocated here, or mapped with access.
    pub fn accessible(&self, addr: Addr, device: DeviceId) -> bool {
        self.memory.accessible(addr, device, self.id)
    }

    /// The memory that is mapped at the granule of an address, by the handle that it was mapped with.
    pub fn mapped_at(&self, addr: Addr) -> Option<PhysicalHandle> {
        self.memory.mapped_at(addr)
    }

    /// Mappings that exist.
    pub fn mapping_count(&self) -> usize {
        self.memory.mapping_count()
    }

    /// The most bytes of addresses at which memory was mapped at once. A page that is mapped twice counts twice, and
    /// memory of `malloc` does not count.
    pub fn peak_mapped_bytes(&self) -> u64 {
        self.memory.peak_mapped_bytes()
    }

    /// Whether `addr` lies in this device's part of the address space, allocated or not.
    pub fn owns(&self, addr: Addr) -> bool {
        self.memory.owns(addr)
    }

    /// Declares an event done, with everything recorded before it on its stream; for [`EventPolicy::OnRequest`].
    ///
    /// # Errors
    /// The event is not known.
    pub fn complete(&mut self, event: EventId) -> Result<()> {
        self.events.complete(event, DeviceCall::EventSynchronize)
    }

    /// Declares everything done that was recorded so far.
    pub fn complete_all(&mut self) {
        self.events.complete_all();
    }

    /// What is still allocated, reserved, mapped, recorded or captured, in words; `Ok` when nothing is.
    ///
    /// # Errors
    /// A sentence that names each kind of leftover, and releases of events that were not live.
    pub fn check_empty(&self) -> Result<(), String> {
        let mut left = self.memory.leftovers();
        left.extend(self.events.leftovers());
        left.extend(self.captures.leftovers());
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }

    /// Whether everything was given back; see [`check_empty`](Self::check_empty) for what was not.
    pub fn is_empty(&self) -> bool {
        self.check_empty().is_ok()
    }

    /// Begins a capture on `stream` (`cuStreamBeginCapture`) from the calling thread.
    ///
    /// # Errors
    /// The default stream, or a stream that captures already.
    pub fn begin_capture(&mut self, stream: Stream, mode: CaptureMode) -> Result<CaptureId> {
        self.captures.begin(stream, mode)
    }

    /// Ends the capture that began on `stream` and returns its graph (`cuStreamEndCapture`).
    ///
    /// # Errors
    /// No such capture, another stream's or another thread's capture, a capture that was invalidated, or one with work
    /// on a stream that was not joined.
    pub fn end_capture(&mut self, stream: Stream) -> Result<CapturedGraph> {
        self.captures.end(stream)
    }

    /// Enqueues an operation on `stream`: a node when the stream captures, nothing to remember when it does not.
    ///
    /// # Errors
    /// The stream's capture was invalidated.
    pub fn launch(&mut self, stream: Stream) -> Result<Option<GraphNode>> {
        self.captures.launch(stream)
    }

    /// Makes `stream` wait for `event` (`cuStreamWaitEvent`); a captured event pulls the stream into its capture.
    ///
    /// # Errors
    /// The event is not known, or the wait would cross the border of a capture.
    pub fn wait_event(&mut self, stream: Stream, event: EventId) -> Result<()> {
        let captured = self.events.captured(event)?;
        self.captures.wait(stream, captured)
    }

    /// Replaces what the next operation of a capturing stream depends on (`cuStreamUpdateCaptureDependencies` with the
    /// set flag).
    ///
    /// # Errors
    /// The stream does not capture, or a node is not of its graph.
    pub fn set_dependencies(&mut self, stream: Stream, nodes: &[GraphNode]) -> Result<()> {
        self.captures.set_dependencies(stream, nodes)
    }

    /// Whether `stream`'s capture was invalidated by a call that a capture forbids.
    pub fn capture_invalidated(&self, stream: Stream) -> bool {
        self.captures.is_invalidated(stream)
    }

    /// Captures that began and did not end.
    pub fn captures_in_progress(&self) -> usize {
        self.captures.in_progress()
    }

    /// Whether the event was last recorded in a capture.
    ///
    /// # Errors
    /// The event is not known.
    pub fn is_captured(&self, event: EventId) -> Result<bool> {
        Ok(self.events.captured(event)?.is_some())
    }

    /// The size of a physical handle that is still held.
    pub fn handle_bytes(&self, handle: PhysicalHandle) -> Option<u64> {
        self.memory.handle_bytes(handle)
    }

    /// How the memory of a physical handle that is still held may be shared.
    pub fn share_of(&self, handle: PhysicalHandle) -> Option<HandleType> {
        self.memory.share_of(handle)
    }

    /// Whether a handle or a mapping still refers to the physical memory.
    pub fn is_alive(&self, handle: PhysicalHandle) -> bool {
        self.memory.is_alive(handle)
    }

    /// Physical memory that another process created: it is held and mapped as any other, and counts as in use there.
    ///
    /// # Errors
    /// A size that is not whole granules.
    pub fn adopt(&mut self, size_bytes: u64) -> Result<PhysicalHandle> {
        self.memory.adopt(size_bytes)
    }

    /// Counts the call, adds its price, and lets an injected fault have its say.
    fn enter(&mut self, call: DeviceCall, size_bytes: u64) -> Result<()> {
        self.counts.add(call, 1, self.prices.of(call).ns(size_bytes));
        self.faults.check(call, size_bytes)
    }

    fn peer_check(&self, call: DeviceCall, peer: DeviceId) -> Result<()> {
        if peer == self.id || self.peers.contains(&peer) {
            return Ok(());
        }
        let message = format!("device {} has no access to the memory of device {}", peer, self.id);
        Err(refuse(call, code::INVALID_DEVICE, message))
    }
}

/// A driver error.
fn refuse(call: DeviceCall, code: u32, message: impl Into<String>) -> DeviceError {
    DeviceError::Driver { call, code, message: message.into() }
}
