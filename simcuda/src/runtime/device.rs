//! Devices and their properties.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;

use super::runtime;
use crate::abi::{Answer, In, Out, Status};
use crate::{device, driver, machine};

/// `cudaDeviceProp` (`driver_types.h`), in its order. Limits of textures and surfaces are all 0. What CUDA 13 dropped
/// of CUDA 12's, all of it long deprecated, is there `DEPRECATED` times: once or not at all.
#[repr(C)]
pub(super) struct DeviceProperties<const DEPRECATED: usize> {
    name: [c_char; 256],
    uuid: [u8; 16],
    luid: [c_char; 8],
    luid_device_node_mask: u32,
    total_global_mem: usize,
    shared_mem_per_block: usize,
    regs_per_block: c_int,
    warp_size: c_int,
    mem_pitch: usize,
    max_threads_per_block: c_int,
    max_threads_dim: [c_int; 3],
    max_grid_size: [c_int; 3],
    clock_rate: [c_int; DEPRECATED],
    total_const_mem: usize,
    major: c_int,
    minor: c_int,
    texture_alignment: usize,
    texture_pitch_alignment: usize,
    device_overlap: [c_int; DEPRECATED],
    multi_processor_count: c_int,
    kernel_exec_timeout_enabled: [c_int; DEPRECATED],
    integrated: c_int,
    can_map_host_memory: c_int,
    compute_mode: [c_int; DEPRECATED],
    max_textures_and_surfaces: [c_int; 39],
    max_texture_1d_linear: [c_int; DEPRECATED],
    surface_alignment: usize,
    concurrent_kernels: c_int,
    ecc_enabled: c_int,
    pci_bus_id: c_int,
    pci_device_id: c_int,
    pci_domain_id: c_int,
    tcc_driver: c_int,
    async_engine_count: c_int,
    unified_addressing: c_int,
    memory_clock_rate: [c_int; DEPRECATED],
    memory_bus_width: c_int,
    l2_cache_size: c_int,
    persisting_l2_cache_max_size: c_int,
    max_threads_per_multi_processor: c_int,
    stream_priorities_supported: c_int,
    global_l1_cache_supported: c_int,
    local_l1_cache_supported: c_int,
    shared_mem_per_multiprocessor: usize,
    regs_per_multiprocessor: c_int,
    managed_memory: c_int,
    is_multi_gpu_board: c_int,
    multi_gpu_board_group_id: c_int,
    host_native_atomic_supported: c_int,
    single_to_double_precision_perf_ratio: [c_int; DEPRECATED],
    pageable_memory_access: c_int,
    concurrent_managed_access: c_int,
    compute_preemption_supported: c_int,
    can_use_host_pointer_for_registered_mem: c_int,
    cooperative_launch: c_int,
    cooperative_multi_device_launch: [c_int; DEPRECATED],
    shared_mem_per_block_optin: usize,
    pageable_memory_access_uses_host_page_tables: c_int,
    direct_managed_mem_access_from_host: c_int,
    max_blocks_per_multi_processor: c_int,
    access_policy_max_window_size: c_int,
    reserved_shared_mem_per_block: usize,
    host_register_supported: c_int,
    /// From `sparseCudaArraySupported` to the end: features that are not there.
    rest: [c_int; 75],
}

type Cuda12Properties = DeviceProperties<1>;
type Cuda13Properties = DeviceProperties<0>;

// As in `driver_types.h` of CUDA 12.6, 13.0 and 13.2; tests/python/simcuda/layouts.py compiles it with the headers.
const _: () = assert!(size_of::<Cuda12Properties>() == 1032);
const _: () = assert!(offset_of!(Cuda12Properties, total_global_mem) == 288);
const _: () = assert!(offset_of!(Cuda12Properties, multi_processor_count) == 388);
const _: () = assert!(offset_of!(Cuda12Properties, shared_mem_per_block_optin) == 696);
const _: () = assert!(size_of::<Cuda13Properties>() == 1008);
const _: () = assert!(offset_of!(Cuda13Properties, total_global_mem) == 288);
const _: () = assert!(offset_of!(Cuda13Properties, multi_processor_count) == 384);
const _: () = assert!(offset_of!(Cuda13Properties, shared_mem_per_block_optin) == 672);

fn properties<const DEPRECATED: usize>(ordinal: c_int) -> Answer<DeviceProperties<DEPRECATED>> {
    let settings = &machine::fixed()?.settings;
    let (memory_bytes, gpu) = (settings.memory_bytes, &settings.gpu);
    let limits = &gpu.capability;
    let physical = machine::physical(machine::ordinal(ordinal)?)?;
    let mut name = [0; 256];
    name.iter_mut().zip(gpu.product.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    Ok(DeviceProperties {
        name,
        uuid: device::uuid(physical),
        luid: [0; 8],
        luid_device_node_mask: 0,
        total_global_mem: memory_bytes as usize,
        shared_mem_per_block: device::SHARED_BYTES_PER_BLOCK as usize,
        regs_per_block: device::REGISTERS_PER_BLOCK,
        warp_size: device::WARP_SIZE,
        mem_pitch: i32::MAX as usize,
        max_threads_per_block: device::MAX_THREADS_PER_BLOCK,
        max_threads_dim: device::MAX_BLOCK_DIM,
        max_grid_size: device::MAX_GRID_DIM,
        clock_rate: [0; DEPRECATED],
        total_const_mem: device::CONSTANT_BYTES as usize,
        major: limits.major as c_int,
        minor: limits.minor as c_int,
        texture_alignment: device::TEXTURE_ALIGNMENT_BYTES as usize,
        texture_pitch_alignment: 32,
        device_overlap: [0; DEPRECATED],
        multi_processor_count: gpu.multiprocessors as c_int,
        kernel_exec_timeout_enabled: [0; DEPRECATED],
        integrated: 0,
        can_map_host_memory: 1,
        compute_mode: [0; DEPRECATED],
        max_textures_and_surfaces: [0; 39],
        max_texture_1d_linear: [0; DEPRECATED],
        surface_alignment: device::TEXTURE_ALIGNMENT_BYTES as usize,
        concurrent_kernels: 1,
        ecc_enabled: 0,
        pci_bus_id: device::pci_bus(physical),
        pci_device_id: 0,
        pci_domain_id: 0,
        tcc_driver: 0,
        async_engine_count: device::COPY_ENGINES,
        unified_addressing: 1,
        memory_clock_rate: [0; DEPRECATED],
        memory_bus_width: gpu.memory_bus_bits as c_int,
        l2_cache_size: gpu.l2_bytes as c_int,
        persisting_l2_cache_max_size: 0,
        max_threads_per_multi_processor: limits.max_threads as c_int,
        stream_priorities_supported: 1,
        global_l1_cache_supported: 1,
        local_l1_cache_supported: 1,
        shared_mem_per_multiprocessor: limits.shared_bytes as usize,
        regs_per_multiprocessor: limits.registers as c_int,
        managed_memory: 0,
        is_multi_gpu_board: 0,
        multi_gpu_board_group_id: 0,
        host_native_atomic_supported: 0,
        single_to_double_precision_perf_ratio: [0; DEPRECATED],
        pageable_memory_access: 0,
        concurrent_managed_access: 0,
        compute_preemption_supported: 1,
        can_use_host_pointer_for_registered_mem: 0,
        cooperative_launch: 1,
        cooperative_multi_device_launch: [0; DEPRECATED],
        shared_mem_per_block_optin: limits.shared_per_block_optin_bytes as usize,
        pageable_memory_access_uses_host_page_tables: 0,
        direct_managed_mem_access_from_host: 0,
        max_blocks_per_multi_processor: limits.max_blocks as c_int,
        access_policy_max_window_size: 0,
        reserved_shared_mem_per_block: limits.shared_reserved_bytes as usize,
        host_register_supported: 1,
        rest: [0; 75],
    })
}

runtime! {
    fn cudaGetDeviceCount(out: Out<c_int>) {
        match machine::device_count()? {
            0 => Err(Status::NO_DEVICE),
            devices => out.set(c_int::from(devices)),
        }
    }

    fn cudaGetDevice(out: Out<c_int>) {
        machine::fixed()?;
        out.set(c_int::from(machine::current_device()))
    }

    fn cudaSetDevice(ordinal: c_int) {
        machine::choose_device(Some(machine::ordinal(ordinal)?))
    }

    fn cudaGetDeviceProperties(out: Out<Cuda13Properties>, ordinal: c_int) {
        out.set(properties(ordinal)?)
    }

    /// The symbol of `cudaGetDeviceProperties` in CUDA 12.
    fn cudaGetDeviceProperties_v2(out: Out<Cuda12Properties>, ordinal: c_int) {
        out.set(properties(ordinal)?)
    }

    fn cudaDeviceGetByPCIBusId(out: Out<c_int>, id: In<c_char>) {
        let found = device::from_pci_bus_id(&id.text()?, machine::fixed()?.settings.devices);
        let found = found.ok_or(Status::INVALID_DEVICE)?;
        out.set(c_int::from(machine::visible(found)?))
    }

    /// Graphs own no memory here: allocation nodes are not simulated.
    fn cudaDeviceGetGraphMemAttribute(_device: i32, _attribute: u32, out: Out<u64>) {
        out.set(0)
    }

    fn cudaDeviceGetStreamPriorityRange(lowest: Out<c_int>, highest: Out<c_int>) {
        driver::context::stream_priorities(lowest, highest);
        Ok(())
    }

    fn cudaDeviceEnablePeerAccess(peer: c_int, _flags: u32) {
        driver::context::enable_peer_access(machine::ordinal(peer)?)
    }

    /// CUDA 12's.
    fn cudaGetDriverEntryPoint(
        name: In<c_char>, out: Out<usize>, _flags: u64, found: Out<c_int>,
    ) {
        driver::lookup::find(&name.text()?, out, found)
    }

    fn cudaGetDriverEntryPointByVersion(
        name: In<c_char>, out: Out<usize>, _version: u32, _flags: u64, found: Out<c_int>,
    ) {
        driver::lookup::find(&name.text()?, out, found)
    }
}
