//! Kernels: a launch does nothing but become a node of a capture.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use super::runtime;
use crate::abi::{Answer, In, Out, Status};
use crate::{device, kernel, stream};

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

/// The configuration that `<<<...>>>` leaves for the launch after it.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
}

thread_local! {
    static CONFIGURATION: Cell<Option<Configuration>> = const { Cell::new(None) };
}

/// The head of `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
}

const _: () = assert!(std::mem::offset_of!(LaunchConfig, stream) == 32);

/// `cudaFuncAttributes`.
#[repr(C)]
pub(super) struct FunctionAttributes {
    shared_bytes: usize,
    constant_bytes: usize,
    local_bytes: usize,
    max_threads_per_block: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    max_dynamic_shared_bytes: c_int,
    preferred_carveout: c_int,
    cluster: [c_int; 6],
    reserved: [c_int; 16],
}

const _: () = assert!(size_of::<FunctionAttributes>() == 144);

/// A launch with more threads in a block than there can be is refused, as a GPU does.
fn launch(grid: Dim3, block: Dim3, stream: u64) -> Answer {
    kernel::check_shape([grid.x, grid.y, grid.z], [block.x, block.y, block.z])?;
    stream::launch(stream)
}

/// `cudaLaunchKernel` and its like.
pub(crate) fn launch_kernel(
    _function: u64,
    grid: Dim3,
    block: Dim3,
    _arguments: u64,
    _shared_bytes: usize,
    stream: u64,
) -> Answer {
    launch(grid, block, stream)
}

/// `cudaErrorMissingConfiguration`.
const MISSING: Status = Status(52);

runtime! {
    fn cudaLaunchKernelExC(config: In<LaunchConfig>, _function: u64, _arguments: u64) {
        let config = config.get()?;
        launch(config.grid, config.block, config.stream)
    }

    /// A kernel is known by its host function.
    fn __cudaGetKernel(out: Out<u64>, function: u64) {
        out.set(function)
    }

    fn __cudaPopCallConfiguration(
        grid: Out<Dim3>, block: Out<Dim3>, shared_bytes: Out<usize>, stream: Out<u64>,
    ) {
        let kept = CONFIGURATION.try_with(Cell::take).unwrap_or(None);
        let kept = kept.ok_or(MISSING)?;
        grid.set(kept.grid)?;
        block.set(kept.block)?;
        shared_bytes.set(kept.shared_bytes)?;
        stream.set(kept.stream)
    }

    fn cudaFuncGetAttributes(out: Out<FunctionAttributes>, _function: u64) {
        let limits = &device::gpu()?.capability;
        let version = kernel::version(limits);
        out.set(FunctionAttributes {
            shared_bytes: 0,
            constant_bytes: 0,
            local_bytes: 0,
            max_threads_per_block: device::MAX_THREADS_PER_BLOCK,
            registers: kernel::REGISTERS_PER_THREAD,
            ptx_version: version,
            binary_version: version,
            cache_mode: 0,
            max_dynamic_shared_bytes: limits.shared_per_block_optin_bytes as c_int,
            preferred_carveout: -1,
            cluster: [0; 6],
            reserved: [0; 16],
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
) -> u32 {
    let kept = Configuration { grid, block, shared_bytes, stream };
    u32::from(CONFIGURATION.try_with(|place| place.set(Some(kept))).is_err())
}

/// Says that the module is ready: its code is never loaded.
#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(_module: *mut *mut c_void) -> c_char {
    1
}
