//! The device seam over the simulated state.

use events::{Addr, DeviceId, Stream};

use super::{SimDevice, code, refuse};
use device::{
    Capture, CaptureMode, Device, DeviceCall, EventId, GraphNode, HandleType, MemoryInfo,
    PhysicalHandle, Result, ShareableHandle,
};

impl Device for SimDevice {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn memory_info(&mut self) -> Result<MemoryInfo> {
        self.enter(DeviceCall::MemoryInfo, 0)?;
        Ok(self.memory.info())
    }

    fn granularity_bytes(&self) -> u64 {
        self.memory.granularity_bytes()
    }

    fn malloc(&mut self, size_bytes: u64) -> Result<Addr> {
        self.enter(DeviceCall::Malloc, size_bytes)?;
        self.captures.unsafe_call(DeviceCall::Malloc)?;
        self.memory.malloc(size_bytes)
    }

    fn free(&mut self, addr: Addr) -> Result<()> {
        let size_bytes = self.memory.allocation_bytes(addr).unwrap_or(0);
        self.enter(DeviceCall::Free, size_bytes)?;
        self.captures.unsafe_call(DeviceCall::Free)?;
        self.memory.free(addr)?;
        self.events.complete_all();
        Ok(())
    }

    fn reserve(&mut self, size_bytes: u64) -> Result<Addr> {
        self.enter(DeviceCall::Reserve, size_bytes)?;
        self.memory.reserve(size_bytes)
    }

    fn unreserve(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        self.enter(DeviceCall::Unreserve, size_bytes)?;
        self.memory.unreserve(addr, size_bytes)
    }

    fn create(&mut self, size_bytes: u64, share: HandleType) -> Result<PhysicalHandle> {
        self.enter(DeviceCall::Create, size_bytes)?;
        self.memory.create(size_bytes, share)
    }

    fn release(&mut self, handle: PhysicalHandle) -> Result<()> {
        let size_bytes = self.memory.handle_bytes(handle).unwrap_or(0);
        self.enter(DeviceCall::Release, size_bytes)?;
        self.memory.release(handle)
    }

    fn map(&mut self, addr: Addr, size_bytes: u64, handle: PhysicalHandle) -> Result<()> {
        self.enter(DeviceCall::Map, size_bytes)?;
        self.memory.map(addr, size_bytes, handle)
    }

    fn unmap(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        self.enter(DeviceCall::Unmap, size_bytes)?;
        self.memory.unmap(addr, size_bytes)
    }

    fn set_access(&mut self, addr: Addr, size_bytes: u64, peer: DeviceId) -> Result<()> {
        self.enter(DeviceCall::SetAccess, size_bytes)?;
        self.peer_check(DeviceCall::SetAccess, peer)?;
        let mappings = self.memory.set_access(addr, size_bytes, peer)?;
        self.counts
            .add_price(self.prices.of(DeviceCall::SetAccess).fixed_ns, mappings.saturating_sub(1));
        Ok(())
    }

    /// The exported name is the handle's own number: it works inside this process and keeps nothing alive.
    fn export(&mut self, handle: PhysicalHandle, share: HandleType) -> Result<ShareableHandle> {
        let call = DeviceCall::Export;
        self.enter(call, 0)?;
        self.memory.check_share(call, handle, share)?;
        self.memory.on_export();
        if share == HandleType::Fabric {
            let mut bytes = [0; 64];
            bytes[..8].copy_from_slice(&handle.0.to_le_bytes());
            return Ok(ShareableHandle::Fabric(bytes));
        }
        i32::try_from(handle.0)
            .map(ShareableHandle::PosixFd)
            .map_err(|_| refuse(call, code::INVALID_HANDLE, "more handles than file descriptors"))
    }

    fn import(&mut self, handle: ShareableHandle) -> Result<PhysicalHandle> {
        self.enter(DeviceCall::Import, 0)?;
        let number = match handle {
            ShareableHandle::PosixFd(fd) => u64::try_from(fd).unwrap_or(0),
            ShareableHandle::Fabric([b0, b1, b2, b3, b4, b5, b6, b7, ..]) => {
                u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])
            }
        };
        self.memory.retain(DeviceCall::Import, PhysicalHandle(number))?;
        Ok(PhysicalHandle(number))
    }

    fn close(&mut self, _handle: ShareableHandle) {
        self.memory.on_close();
    }

    fn can_access_peer(&mut self, peer: DeviceId) -> Result<bool> {
        self.enter(DeviceCall::CanAccessPeer, 0)?;
        Ok(self.peers.contains(&peer))
    }

    fn event_record(&mut self, stream: Stream) -> Result<EventId> {
        self.enter(DeviceCall::EventRecord, 0)?;
        let captured = self.captures.position(stream)?;
        Ok(self.events.record(stream, captured))
    }

    fn event_query(&mut self, event: EventId) -> Result<bool> {
        self.enter(DeviceCall::EventQuery, 0)?;
        self.captures.unsafe_call(DeviceCall::EventQuery)?;
        self.events.query(event)
    }

    fn event_synchronize(&mut self, event: EventId) -> Result<()> {
        self.enter(DeviceCall::EventSynchronize, 0)?;
        self.captures.unsafe_call(DeviceCall::EventSynchronize)?;
        self.events.complete(event, DeviceCall::EventSynchronize)
    }

    fn event_release(&mut self, event: EventId) {
        self.events.release(event);
    }

    fn stream_synchronize(&mut self, stream: Stream) -> Result<()> {
        self.enter(DeviceCall::StreamSynchronize, 0)?;
        self.captures.wait_for(DeviceCall::StreamSynchronize, stream)?;
        self.events.complete_stream(stream);
        Ok(())
    }

    fn device_synchronize(&mut self) -> Result<()> {
        self.enter(DeviceCall::DeviceSynchronize, 0)?;
        self.captures.unsafe_call(DeviceCall::DeviceSynchronize)?;
        self.events.complete_all();
        Ok(())
    }

    fn capture(&mut self, stream: Stream) -> Result<Option<Capture>> {
        self.enter(DeviceCall::Capture, 0)?;
        self.captures.info(stream)
    }

    fn dependencies(&mut self, node: GraphNode) -> Result<Vec<GraphNode>> {
        self.enter(DeviceCall::Dependencies, 0)?;
        self.captures.dependencies(node)
    }

    fn exchange_capture_mode(&mut self, mode: CaptureMode) -> Result<CaptureMode> {
        self.enter(DeviceCall::ExchangeCaptureMode, 0)?;
        Ok(self.captures.exchange_mode(mode))
    }
}
