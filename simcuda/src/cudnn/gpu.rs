//! The simulated GPU in cuDNN's words, for planning without a device.

use gpus::Gpu;
use serde_json::{Value, json};

use crate::device;

/// The value of `CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`, which cuDNN 9.8 and later read. A version ignores the
/// fields that it does not know.
pub(super) fn properties(gpu: &Gpu) -> Value {
    let capability = &gpu.capability;
    json!({
        "maxGridSize": device::MAX_GRID_DIM,
        "maxBlockSize": device::MAX_BLOCK_DIM,
        "regsPerBlock": device::REGISTERS_PER_BLOCK,
        "multiProcessorCount": gpu.multiprocessors,
        "smCountOrigin": 0,
        "warpSize": device::WARP_SIZE,
        "maxSharedMemoryPerBlock": device::SHARED_BYTES_PER_BLOCK,
        "maxSharedMemoryPerBlockOptin": capability.shared_per_block_optin_bytes,
        "reservedSharedMemoryPerBlock": capability.shared_reserved_bytes,
        "oversizedSharedMemoryPerBlock": 0,
        "maxRegistersPerSM": capability.registers,
        "maxCtasPerSM": capability.max_blocks,
        "maxThreadsPerBlock": device::MAX_THREADS_PER_BLOCK,
        "maxThreadsPerSM": capability.max_threads,
        "pciDeviceId": 0,
        "isTccDriver": 0,
        "supportCoopLaunch": 1,
        "totalGlobalMem": gpu.memory_bytes,
        "smClockRateKHz": gpu.clock_mhz.saturating_mul(1000),
        "memClockRateKHz": gpu.memory_clock_mhz.saturating_mul(1000),
        "l2CacheSize": gpu.l2_bytes,
        "cudaDeviceId": 0,
        "deviceVer": capability.major * 100 + capability.minor * 10,
        "driverVer": device::DRIVER_VERSION,
        "deviceName": gpu.product,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_cudnns_units() {
        for (name, version, multiprocessors) in
            [("a40", 860, 84), ("h100", 900, 132), ("rtx5090", 1200, 170)]
        {
            let Some(gpu) = gpus::find(name) else { panic!("{name} is not known") };
            let found = properties(gpu);
            assert_eq!(found["deviceVer"], version);
            assert_eq!(found["multiProcessorCount"], multiprocessors);
            assert_eq!(found["smClockRateKHz"], gpu.clock_mhz * 1000);
        }
    }
}
