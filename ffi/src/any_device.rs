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
        let (name, uuid) = match self {
            Self::Cuda(device) => (device.name(), device.uuid()),
            Self::Sim(device) => ("simulated".to_owned(), Some(simulated_uuid(device.id()))),
        };
        let (uuid, total_bytes) = (uuid.map(uuid_text), Some(self.memory_info()?.total_bytes));
        Ok(DeviceMeta { id: self.id(), name, uuid, total_bytes, ..DeviceMeta::default() })
    }
}

/// That of the simulated driver's device with this number, too.
fn simulated_uuid(id: DeviceId) -> [u8; 16] {
    let mut uuid = *b"vramtape-sim--00";
    uuid[14] = b'0' + (id.0 / 10 % 10) as u8;
    uuid[15] = b'0' + (id.0 % 10) as u8;
    uuid
}

/// The UUID of a GPU as NVML and DCGM write it: in groups of 4, 2, 2, 2 and 6 bytes.
fn uuid_text(mut uuid: [u8; 16]) -> String {
    uuid.reverse();
    let digits = format!("{:032x}", u128::from_le_bytes(uuid));
    let [first, second, third, fourth, last] =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| digits.get(group).unwrap_or_default());
    format!("GPU-{first}-{second}-{third}-{fourth}-{last}")
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
