//! NVML as on a machine whose GPUs have no NVLink fabric: devices with name, compute capability and memory, this
//! process and the neighbour of the settings are found. Every other question is "not supported".
//! `libnvidia-ml.so.1` is a name for this library, see `assemble.sh`.

use std::ffi::{c_char, c_int};

use crate::abi::{Answer, In, InOut, Out, Status, guarded};
use crate::settings::Neighbour;
use crate::{device, machine};

/// A device is this number plus the machine's number of it.
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

/// The machine's number of a device; `CUDA_VISIBLE_DEVICES` hides nothing from NVML.
fn number(device: u64) -> Answer<u16> {
    let number = u16::try_from(device.wrapping_sub(DEVICE)).map_err(|_| Status::INVALID_DEVICE)?;
    let devices = machine::fixed()?.settings.devices;
    if number < devices { Ok(number) } else { Err(Status::INVALID_DEVICE) }
}

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    used_bytes: u64,
}

const _: () = assert!(size_of::<Process>() == 16);

/// The memory in use on a device: the neighbour's, and this process's with its context, if it sees the device.
fn used_bytes(device: u16) -> Answer<u64> {
    match machine::visible(device) {
        Ok(ordinal) => machine::with(|machine| Ok(machine.device(ordinal)?.used_bytes())),
        Err(_) => {
            Ok(machine::fixed()?.settings.neighbour.map_or(0, |neighbour| neighbour.used_bytes))
        }
    }
}

/// `nvmlMemory_t`.
#[expect(clippy::struct_field_names, reason = "sizes in bytes are named so")]
#[repr(C)]
#[derive(Clone, Copy)]
struct Memory {
    total_bytes: u64,
    free_bytes: u64,
    used_bytes: u64,
}

/// `nvmlMemory_v2_t`. The driver reserves nothing here: the total is what CUDA reports.
#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryV2 {
    version: u32,
    total_bytes: u64,
    reserved_bytes: u64,
    free_bytes: u64,
    used_bytes: u64,
}

/// `nvmlMemory_v2`: the structure's size and the number of its version.
const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;
const _: () = assert!(size_of::<Memory>() == 24 && size_of::<MemoryV2>() == 40);

fn memory(device: u64) -> Answer<Memory> {
    let total_bytes = machine::fixed()?.settings.memory_bytes;
    let used_bytes = used_bytes(number(device)?)?;
    Ok(Memory { total_bytes, free_bytes: total_bytes - used_bytes, used_bytes })
}

/// The processes on a device: the neighbour, and this one, if it sees the device. PyTorch asks when it is out of
/// memory, and so do we.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    device: u64,
    count: InOut<u32>,
    out: Out<Process>,
) -> c_int {
    const INSUFFICIENT_SIZE: c_int = 7;
    let mut has_room = true;
    let answer = status(|| {
        let room = count.get()? as usize;
        let neighbour = machine::fixed()?.settings.neighbour;
        let mut found = Vec::new();
        found.extend(neighbour.map(|Neighbour { pid, used_bytes }| Process { pid, used_bytes }));
        let device = number(device)?;
        if machine::visible(device).is_ok() {
            let others_bytes = neighbour.map_or(0, |neighbour| neighbour.used_bytes);
            let used_bytes = used_bytes(device)? - others_bytes;
            found.push(Process { pid: std::process::id(), used_bytes });
        }
        has_room = found.len() <= room;
        out.fill(&found, room);
        count.set(found.len() as u32)
    });
    if answer == 0 && !has_room { INSUFFICIENT_SIZE } else { answer }
}

/// The beginning of `nvmlGpuFabricInfoV_t`, the same in all its versions. A state of 0 is a GPU without a fabric; the
/// question itself is answered, as by newer drivers: PyTorch 2.13 insists.
#[repr(C)]
#[derive(Clone, Copy)]
struct FabricInfo {
    version: u32,
    cluster: [u8; 16],
    status: c_int,
    clique: u32,
    state: u32,
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
        let mut devices = 0..machine::fixed()?.settings.devices;
        name(devices.find(|&device| device::uuid_text(device) == id), out)
    }

    fn nvmlDeviceGetUUID(device: u64, out: Out<c_char>, room: u32) {
        out.text(&device::uuid_text(number(device)?), room as c_int)
    }

    fn nvmlDeviceGetName(device: u64, out: Out<c_char>, room: u32) {
        number(device)?;
        out.text(&device::gpu()?.product, room as c_int)
    }

    fn nvmlDeviceGetCudaComputeCapability(device: u64, major: Out<c_int>, minor: Out<c_int>) {
        number(device)?;
        let capability = &device::gpu()?.capability;
        major.set(capability.major as c_int)?;
        minor.set(capability.minor as c_int)
    }

    fn nvmlDeviceGetMemoryInfo(device: u64, out: Out<Memory>) {
        out.set(memory(device)?)
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: u64, out: InOut<MemoryV2>) {
        if out.get()?.version != MEMORY_V2 {
            return Err(Status::INVALID_VALUE);
        }
        let Memory { total_bytes, free_bytes, used_bytes } = memory(device)?;
        let (version, reserved_bytes) = (MEMORY_V2, 0);
        out.set(MemoryV2 { version, total_bytes, reserved_bytes, free_bytes, used_bytes })
    }

    fn nvmlDeviceGetGpuFabricInfoV(device: u64, info: InOut<FabricInfo>) {
        number(device)?;
        let version = info.get()?.version;
        info.set(FabricInfo { version, cluster: [0; 16], status: 0, clique: 0, state: 0 })
    }
}

unsupported! {
    nvmlDeviceGetComputeRunningProcesses_v3
    nvmlDeviceGetGpuFabricInfo
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
