//! NVML as on a machine whose GPUs have no NVLink fabric: devices and this process are found, every other question is
//! "not supported".
//! `libnvidia-ml.so.1` is a name for this library, see `assemble.sh`.

use std::ffi::{c_char, c_int};

use crate::abi::{Answer, In, InOut, Out, Status, guarded};
use crate::{device, machine};

/// A device is this number plus the ordinal.
const DEVICE: u64 = 0x7700;

/// The `nvmlReturn_t` of an answer: all failures are "invalid argument".
fn status(body: impl FnOnce() -> Answer) -> c_int {
    const INVALID_ARGUMENT: c_int = 2;
    if guarded(body).is_ok() { 0 } else { INVALID_ARGUMENT }
}

macro_rules! nvml {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> c_int {
            status(|| $body)
        }
    )*};
}

/// Defines questions that are answered "not supported".
macro_rules! unsupported {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            const NOT_SUPPORTED: c_int = 3;
            NOT_SUPPORTED
        }
    )*};
}

fn name(device: Option<u16>, out: Out<u64>) -> Answer {
    out.set(DEVICE + u64::from(device.ok_or(Status::INVALID_DEVICE)?))
}

/// As NVML writes it: in groups of 4, 2, 2, 2 and 6 bytes.
fn uuid(device: u16) -> String {
    let mut bytes = device::uuid(device);
    bytes.reverse();
    let digits = format!("{:032x}", u128::from_le_bytes(bytes));
    let group = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
    let (first, last) = (group(0..8), group(20..32));
    format!("GPU-{first}-{}-{}-{}-{last}", group(8..12), group(12..16), group(16..20))
}

fn ordinal(device: u64) -> Answer<u16> {
    machine::ordinal(device.wrapping_sub(DEVICE) as i32)
}

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    used_bytes: u64,
}

const _: () = assert!(size_of::<Process>() == 16);

/// The processes on a device: this one. PyTorch asks when it is out of memory.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    device: u64,
    count: InOut<u32>,
    out: Out<Process>,
) -> c_int {
    const INSUFFICIENT_SIZE: c_int = 7;
    let mut room = 0;
    let answer = status(|| {
        room = count.get()?;
        let used_bytes =
            machine::with(|machine| Ok(machine.device(ordinal(device)?)?.used_bytes()))?;
        out.fill(&[Process { pid: std::process::id(), used_bytes }], room as usize);
        count.set(1)
    });
    if answer == 0 && room == 0 { INSUFFICIENT_SIZE } else { answer }
}

nvml! {
    fn nvmlInit() { Ok(()) }

    fn nvmlInit_v2() { Ok(()) }

    fn nvmlInitWithFlags(_flags: u32) { Ok(()) }

    fn nvmlShutdown() { Ok(()) }

    fn nvmlDeviceGetCount_v2(out: Out<u32>) {
        out.set(u32::from(machine::fixed()?.settings.devices))
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: Out<u64>) {
        let devices = machine::fixed()?.settings.devices;
        name(u16::try_from(index).ok().filter(|&index| index < devices), out)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(id: In<c_char>, out: Out<u64>) {
        name(device::from_pci_bus_id(&id.text()?, machine::fixed()?.settings.devices), out)
    }

    fn nvmlDeviceGetHandleByUUID(id: In<c_char>, out: Out<u64>) {
        let id = id.text()?;
        name((0..machine::fixed()?.settings.devices).find(|&device| uuid(device) == id), out)
    }

    fn nvmlDeviceGetUUID(device: u64, out: Out<c_char>, room: u32) {
        out.text(&uuid(ordinal(device)?), room as c_int)
    }
}

unsupported! {
    nvmlDeviceGetComputeRunningProcesses_v3
    nvmlDeviceGetGpuFabricInfo nvmlDeviceGetGpuFabricInfoV
    nvmlDeviceGetNvLinkCapability nvmlDeviceGetNvLinkRemoteDeviceType
    nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlDeviceGetNvLinkState nvmlDeviceGetP2PStatus
    nvmlSystemGetCudaDriverVersion_v2
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    match code {
        0 => c"Success",
        3 => c"Not Supported",
        _ => c"Invalid Argument",
    }
    .as_ptr()
}
