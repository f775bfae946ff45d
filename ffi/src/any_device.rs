//! The device that a heap runs on: a GPU or the simulated one, chosen when the process begins.

use cuda_device::CudaDevice;
use device::{
    Capture, CaptureMode, Device, DeviceError, EventId, GraphNode, HandleType, MemoryInfo,
    PhysicalHandle, ProcessMemory, ShareableHandle,
};
use sim_device::SimDevice;
use trace_format::{Addr, DeviceId, DeviceMeta, Stream};

/// One of the two devices, selected by a branch.
pub(crate) enum AnyDevice {
    Cuda(CudaDevice),
    Sim(Box<SimDevice>),
}

impl AnyDevice {
    /// The description of the device on a tape.
    pub(crate) fn meta(&mut self) -> Result<DeviceMeta, DeviceError> {
        let name = match self {
            Self::Cuda(device) => device.name(),
            Self::Sim(_) => "simulated".to_owned(),
        };
        let total_bytes = Some(self.memory_info()?.total_bytes);
        Ok(DeviceMeta { id: self.id(), name, total_bytes, ..DeviceMeta::default() })
    }
}

macro_rules! delegate {
    ($($name:ident(&mut self $(, $argument:ident: $kind:ty)*) -> $answer:ty;)*) => {
        impl Device for AnyDevice {
            fn id(&self) -> DeviceId {
                match self {
                    Self::Cuda(device) => device.id(),
                    Self::Sim(device) => device.id(),
                }
            }

            fn granularity_bytes(&self) -> u64 {
                match self {
                    Self::Cuda(device) => device.granularity_bytes(),
                    Self::Sim(device) => device.granularity_bytes(),
                }
            }

            $(fn $name(&mut self $(, $argument: $kind)*) -> $answer {
                match self {
                    Self::Cuda(device) => device.$name($($argument),*),
                    Self::Sim(device) => device.$name($($argument),*),
                }
            })*
        }
    };
}

delegate! {
    memory_info(&mut self) -> Result<MemoryInfo, DeviceError>;
    processes(&mut self) -> Vec<ProcessMemory>;
    malloc(&mut self, size_bytes: u64) -> Result<Addr, DeviceError>;
    free(&mut self, addr: Addr) -> Result<(), DeviceError>;
    reserve(&mut self, size_bytes: u64) -> Result<Addr, DeviceError>;
    unreserve(&mut self, addr: Addr, size_bytes: u64) -> Result<(), DeviceError>;
    create(&mut self, size_bytes: u64, share: HandleType) -> Result<PhysicalHandle, DeviceError>;
    release(&mut self, handle: PhysicalHandle) -> Result<(), DeviceError>;
    map(&mut self, addr: Addr, size_bytes: u64, handle: PhysicalHandle) -> Result<(), DeviceError>;
    unmap(&mut self, addr: Addr, size_bytes: u64) -> Result<(), DeviceError>;
    set_access(&mut self, addr: Addr, size_bytes: u64, peer: DeviceId) -> Result<(), DeviceError>;
    export(
        &mut self, handle: PhysicalHandle, share: HandleType
    ) -> Result<ShareableHandle, DeviceError>;
    import(&mut self, handle: ShareableHandle) -> Result<PhysicalHandle, DeviceError>;
    close(&mut self, handle: ShareableHandle) -> ();
    can_access_peer(&mut self, peer: DeviceId) -> Result<bool, DeviceError>;
    event_record(&mut self, stream: Stream) -> Result<EventId, DeviceError>;
    event_query(&mut self, event: EventId) -> Result<bool, DeviceError>;
    event_synchronize(&mut self, event: EventId) -> Result<(), DeviceError>;
    event_release(&mut self, event: EventId) -> ();
    stream_synchronize(&mut self, stream: Stream) -> Result<(), DeviceError>;
    device_synchronize(&mut self) -> Result<(), DeviceError>;
    capture(&mut self, stream: Stream) -> Result<Option<Capture>, DeviceError>;
    dependencies(&mut self, node: GraphNode) -> Result<Vec<GraphNode>, DeviceError>;
    exchange_capture_mode(&mut self, mode: CaptureMode) -> Result<CaptureMode, DeviceError>;
}
