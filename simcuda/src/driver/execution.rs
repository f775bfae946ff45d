//! Modules and kernels: code is accepted unread, a launch does nothing but become a node of a capture.

use std::ffi::{c_int, c_void};

use crate::abi::{Answer, In, Out, driver};
use crate::{device, kernel, stream};

/// The head of `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
}

const _: () = assert!(std::mem::offset_of!(LaunchConfig, stream) == 32);

fn launch(grid: [u32; 3], block: [u32; 3], stream: u64) -> Answer {
    kernel::check_shape(grid, block)?;
    stream::launch(stream)
}

/// `CUfunction_attribute` of a kernel, which is any.
fn attribute(out: Out<c_int>, attribute: c_int) -> Answer {
    let limits = &device::gpu()?.capability;
    out.set(match attribute {
        0 => device::MAX_THREADS_PER_BLOCK,
        4 => kernel::REGISTERS_PER_THREAD,
        5 | 6 => kernel::version(limits),
        8 => limits.shared_per_block_optin_bytes as c_int,
        _ => 0,
    })
}

driver! {
    fn cuFuncGetAttribute(out: Out<c_int>, name: c_int, _function: u64) {
        attribute(out, name)
    }

    fn cuKernelGetAttribute(out: Out<c_int>, name: c_int, _kernel: u64, _device: c_int) {
        attribute(out, name)
    }

    /// Every GPU with clusters runs those of 8 blocks.
    fn cuOccupancyMaxPotentialClusterSize(out: Out<c_int>, _function: u64, _config: In<LaunchConfig>) {
        out.set(if device::gpu()?.capability.major >= 9 { 8 } else { 1 })
    }

    fn cuLaunchKernel(
        _function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared_bytes: u32, stream: u64, _arguments: u64, _extra: u64,
    ) {
        launch([grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream)
    }

    fn cuLaunchCooperativeKernel(
        _function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared_bytes: u32, stream: u64, _arguments: u64,
    ) {
        launch([grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream)
    }

    fn cuLaunchKernelEx(config: In<LaunchConfig>, _function: u64, _arguments: u64, _extra: u64) {
        let config = config.get()?;
        launch(config.grid, config.block, config.stream)
    }

    fn cuLinkCreate(_count: u32, _options: u64, _values: u64, out: Out<u64>) {
        kernel::load(out)
    }

    fn cuLinkCreate_v2(_count: u32, _options: u64, _values: u64, out: Out<u64>) {
        kernel::load(out)
    }

    /// The linked code is a place of no bytes: it is only ever loaded back.
    fn cuLinkComplete(_state: u64, code: Out<*const c_void>, size_bytes: Out<usize>) {
        static CODE: u8 = 0;
        size_bytes.set_if_wanted(0);
        code.set(std::ptr::from_ref(&CODE).cast())
    }
}
