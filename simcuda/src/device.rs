//! The GPU that the simulated devices report: the one of `VRAMTAPE_SIM_GPU`, or [`generic`]. `device` is the machine's
//! number of one.

use gpus::Gpu;

use crate::abi::Answer;
use crate::machine;

/// The driver's version as CUDA writes it: 13.2, which serves every CUDA 13 runtime.
pub(crate) const DRIVER_VERSION: i32 = 13_020;

// The same on every GPU since 7.0.
pub(crate) const WARP_SIZE: i32 = 32;
pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 1024;
pub(crate) const MAX_BLOCK_DIM: [i32; 3] = [1024, 1024, 64];
pub(crate) const MAX_GRID_DIM: [i32; 3] = [i32::MAX, 65_535, 65_535];
pub(crate) const SHARED_BYTES_PER_BLOCK: i32 = 48 << 10;
pub(crate) const REGISTERS_PER_BLOCK: i32 = 65_536;
pub(crate) const CONSTANT_BYTES: i32 = 64 << 10;
pub(crate) const TEXTURE_ALIGNMENT_BYTES: i32 = 512;
pub(crate) const COPY_ENGINES: i32 = 3;
/// The stream priorities, from the lowest to the highest.
pub(crate) const STREAM_PRIORITIES: (i32, i32) = (0, -5);

/// The GPU without a setting: PyTorch's default attention serves it with flash and memory-efficient kernels (it prefers
/// cuDNN from sm_90 on), and it has the limits of an A100.
///
/// # Errors
/// `gpus.toml` has no A100.
pub(crate) fn generic() -> Result<Gpu, String> {
    let a100 = gpus::find("a100-80gb").ok_or("the GPU of the default settings is not known")?;
    Ok(Gpu {
        name: "sm_80".to_owned(),
        product: "vramtape simulated GPU (sm_80)".to_owned(),
        memory_bytes: 80 << 30,
        memory_clock_mhz: 1512,
        ..a100.clone()
    })
}

/// The GPU that every device reports.
pub(crate) fn gpu() -> Answer<&'static Gpu> {
    Ok(&machine::fixed()?.settings.gpu)
}

/// A device's PCI bus; all else of its PCI address is 0.
pub(crate) const fn pci_bus(device: u16) -> i32 {
    device as i32 + 1
}

/// `0000:01:00.0` and so on.
pub(crate) fn pci_bus_id(device: u16) -> String {
    format!("0000:{:02x}:00.0", pci_bus(device))
}

/// The device with this PCI address, as `cudaDeviceGetByPCIBusId` and NVML take it.
pub(crate) fn from_pci_bus_id(id: &str, devices: u16) -> Option<u16> {
    let id = id.strip_prefix("0000").unwrap_or(id);
    let id = if id.starts_with("0000:") { id } else { &format!("0000{id}") };
    (0..devices).find(|&device| pci_bus_id(device).eq_ignore_ascii_case(id))
}

/// A UUID that says what it is.
pub(crate) const fn uuid(device: u16) -> [u8; 16] {
    let mut uuid = *b"vramtape-sim--00";
    uuid[14] = b'0' + (device / 10) as u8;
    uuid[15] = b'0' + (device % 10) as u8;
    uuid
}

/// The prefix of a device's UUID in NVML and `CUDA_VISIBLE_DEVICES`.
pub(crate) const UUID_PREFIX: &str = "GPU-";

/// The UUID as NVML writes it: in groups of 4, 2, 2, 2 and 6 bytes.
pub(crate) fn uuid_text(device: u16) -> String {
    let mut bytes = uuid(device);
    bytes.reverse();
    let digits = format!("{:032x}", u128::from_le_bytes(bytes));
    let group = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
    let (first, last) = (group(0..8), group(20..32));
    let middle = [group(8..12), group(12..16), group(16..20)].join("-");
    format!("{UUID_PREFIX}{first}-{middle}-{last}")
}

/// `cudaDeviceAttr` and `CUdevice_attribute` (the same numbers). What is not listed is 0: not there.
pub(crate) fn attribute(gpu: &Gpu, number: i32, device: u16) -> i32 {
    let of_gpu = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let limits = &gpu.capability;
    match number {
        1 => MAX_THREADS_PER_BLOCK,
        2 => MAX_BLOCK_DIM[0],
        3 => MAX_BLOCK_DIM[1],
        4 => MAX_BLOCK_DIM[2],
        5 => MAX_GRID_DIM[0],
        6 => MAX_GRID_DIM[1],
        7 => MAX_GRID_DIM[2],
        8 => SHARED_BYTES_PER_BLOCK,
        9 => CONSTANT_BYTES,
        10 => WARP_SIZE,
        11 => i32::MAX,
        12 => REGISTERS_PER_BLOCK,
        13 => of_gpu(gpu.clock_mhz.saturating_mul(1000)),
        14 => TEXTURE_ALIGNMENT_BYTES,
        16 => of_gpu(gpu.multiprocessors),
        33 => pci_bus(device),
        36 => of_gpu(gpu.memory_clock_mhz.saturating_mul(1000)),
        37 => of_gpu(gpu.memory_bus_bits),
        38 => i32::try_from(gpu.l2_bytes).unwrap_or(i32::MAX),
        39 => of_gpu(limits.max_threads),
        40 => COPY_ENGINES,
        75 => of_gpu(limits.major),
        76 => of_gpu(limits.minor),
        81 => of_gpu(limits.shared_bytes),
        82 => of_gpu(limits.registers),
        97 => of_gpu(limits.shared_per_block_optin_bytes),
        106 => of_gpu(limits.max_blocks),
        111 => of_gpu(limits.shared_reserved_bytes),
        // Overlap, host mapping, concurrent kernels, unified addressing, stream priorities, L1 caching (two),
        // compute preemption, cooperative launch, host registration, virtual memory management, handles by file
        // descriptor, events for other processes.
        15 | 19 | 31 | 41 | 78 | 79 | 80 | 90 | 95 | 99 | 102 | 103 | 125 => 1,
        // Clusters of blocks, tensor maps.
        120 | 127 => i32::from(limits.major >= 9),
        _ => 0,
    }
}
