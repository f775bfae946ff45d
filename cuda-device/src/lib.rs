//! A real GPU, through the CUDA driver API. The only place where cudarc appears.
//!
//! The primary context is used, as the CUDA runtime does, so this is the same memory as
//! `cudaMalloc`'s. It is made current around a call only where another one is, and what was current
//! before is put back.
//!
//! PyTorch frees memory until the very end of the process, when the driver may have shut down
//! already: what is given back then is gone in any case, so such calls succeed
//! ([`Driver::given_back`](driver::Driver)).

mod capture;
mod context;
mod driver;
mod event;
mod memory;
mod nvml;
mod share;

use context::Context;
use driver::Driver;
use events::{Addr, DeviceId, Stream};

use device::{
    Capture, CaptureMode, Device, EventId, GraphNode, HandleType, MemoryInfo, PhysicalHandle,
    ProcessMemory, Result, ShareableHandle,
};

/// One GPU of this process.
#[derive(Debug)]
pub struct CudaDevice {
    driver: &'static Driver,
    context: Context,
    id: DeviceId,
    granularity_bytes: u64,
    rdma_capable: bool,
    idle_events: Vec<EventId>,
}

impl CudaDevice {
    /// Finds the driver, and retains the device's primary context.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](device::DeviceError::Unavailable) where there is no driver or it lacks a function that no
    /// allocator can do without; [`Driver`](device::DeviceError::Driver) where there is no such device.
    pub fn open(id: DeviceId) -> Result<Self> {
        let driver = Driver::get()?;
        let context = Context::retain(driver, id)?;
        let rdma_capable = context.is_rdma_capable(driver);
        let mut device = Self {
            driver,
            context,
            id,
            granularity_bytes: 0,
            rdma_capable,
            idle_events: Vec::new(),
        };
        device.granularity_bytes = device.smallest_page_bytes()?;
        Ok(device)
    }

    /// The device's product name; empty where the driver does not say.
    pub fn name(&self) -> String {
        self.context.device_name(self.driver)
    }

    /// The UUID of the GPU; `None` where the driver does not say. Of a part of a GPU (MIG), that of the whole one.
    pub fn uuid(&self) -> Option<[u8; 16]> {
        self.context.device_uuid(self.driver)
    }
}

impl Device for CudaDevice {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn memory_info(&mut self) -> Result<MemoryInfo> {
        self.free_and_total()
    }

    fn processes(&mut self) -> Vec<ProcessMemory> {
        let (domain, bus, device) = self.context.pci_address(self.driver);
        nvml::processes(domain, bus, device)
    }

    fn granularity_bytes(&self) -> u64 {
        self.granularity_bytes
    }

    fn malloc(&mut self, size_bytes: u64) -> Result<Addr> {
        self.allocate(size_bytes)
    }

    fn free(&mut self, addr: Addr) -> Result<()> {
        self.deallocate(addr)
    }

    fn reserve(&mut self, size_bytes: u64) -> Result<Addr> {
        self.reserve_range(size_bytes)
    }

    fn unreserve(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        self.unreserve_range(addr, size_bytes)
    }

    fn create(&mut self, size_bytes: u64, share: HandleType) -> Result<PhysicalHandle> {
        self.create_pages(size_bytes, share)
    }

    fn release(&mut self, handle: PhysicalHandle) -> Result<()> {
        self.release_pages(handle)
    }

    fn map(&mut self, addr: Addr, size_bytes: u64, handle: PhysicalHandle) -> Result<()> {
        self.map_pages(addr, size_bytes, handle)
    }

    fn unmap(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        self.unmap_pages(addr, size_bytes)
    }

    fn set_access(&mut self, addr: Addr, size_bytes: u64, peer: DeviceId) -> Result<()> {
        self.allow_access(addr, size_bytes, peer)
    }

    fn export(&mut self, handle: PhysicalHandle, share: HandleType) -> Result<ShareableHandle> {
        self.export_pages(handle, share)
    }

    fn import(&mut self, handle: ShareableHandle) -> Result<PhysicalHandle> {
        self.import_pages(handle)
    }

    fn close(&mut self, handle: ShareableHandle) {
        share::close(handle);
    }

    fn can_access_peer(&mut self, peer: DeviceId) -> Result<bool> {
        self.reaches_peer(peer)
    }

    fn event_record(&mut self, stream: Stream) -> Result<EventId> {
        self.record_event(stream)
    }

    fn event_query(&mut self, event: EventId) -> Result<bool> {
        self.query_event(event)
    }

    fn event_synchronize(&mut self, event: EventId) -> Result<()> {
        self.wait_for_event(event)
    }

    fn event_release(&mut self, event: EventId) {
        self.idle_events.push(event);
    }

    fn stream_synchronize(&mut self, stream: Stream) -> Result<()> {
        self.wait_for_stream(stream)
    }

    fn device_synchronize(&mut self) -> Result<()> {
        self.wait_for_device()
    }

    fn capture(&mut self, stream: Stream) -> Result<Option<Capture>> {
        self.capture_of(stream)
    }

    fn dependencies(&mut self, node: GraphNode) -> Result<Vec<GraphNode>> {
        self.dependencies_of(node)
    }

    fn exchange_capture_mode(&mut self, mode: CaptureMode) -> Result<CaptureMode> {
        self.swap_capture_mode(mode)
    }
}
