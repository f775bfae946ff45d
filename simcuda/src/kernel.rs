//! Kernels, modules and occupancy. Code is accepted unread: nothing runs.

use gpus::Capability;

use crate::abi::{Answer, Out, Status};
use crate::{device, machine};

/// The register count that every kernel reports.
pub(crate) const REGISTERS_PER_THREAD: i32 = 32;

/// The capabilities that PyTorch's wheels have code for.
const COMPILED: [i32; 7] = [70, 75, 80, 86, 90, 100, 120];

/// The version of a kernel's code, 90 for 9.0: of the capabilities with the same major number the highest that a wheel
/// has code for, as 8.6 on a GPU of 8.9. CUB refuses a version that it was not compiled for.
pub(crate) fn version(capability: &Capability) -> i32 {
    let own = (10 * capability.major + capability.minor) as i32;
    let is_run = |&version: &i32| version <= own && version / 10 == own / 10;
    COMPILED.into_iter().rev().find(is_run).unwrap_or(own)
}

/// A handle for a module, library or kernel.
pub(crate) fn load(out: Out<u64>) -> Answer {
    out.set(machine::new_handle())
}

/// Refuses shapes that no GPU of this kind launches.
pub(crate) fn check_shape(grid: [u32; 3], block: [u32; 3]) -> Answer {
    /// `cudaErrorInvalidConfiguration`.
    const INVALID_CONFIGURATION: Status = Status(9);
    let fits = |size: [u32; 3], limit: [i32; 3]| {
        size.iter().zip(limit).all(|(&size, limit)| size > 0 && size <= limit.unsigned_abs())
    };
    let threads = block.iter().map(|&size| u64::from(size)).product::<u64>();
    let threads_fit = threads <= u64::from(device::MAX_THREADS_PER_BLOCK.unsigned_abs());
    if fits(grid, device::MAX_GRID_DIM) && fits(block, device::MAX_BLOCK_DIM) && threads_fit {
        return Ok(());
    }
    Err(INVALID_CONFIGURATION)
}

/// The occupancy of a function, which is any.
pub(crate) fn occupancy(
    out: Out<i32>,
    _function: u64,
    threads: i32,
    shared_bytes: usize,
) -> Answer {
    out.set(blocks_per_multiprocessor(&device::gpu()?.capability, threads, shared_bytes)?)
}

/// How many blocks fit on one multiprocessor, by threads, registers and shared memory.
fn blocks_per_multiprocessor(
    limits: &Capability,
    block_threads: i32,
    shared_bytes: usize,
) -> Answer<i32> {
    if block_threads <= 0 || block_threads > device::MAX_THREADS_PER_BLOCK {
        return Err(Status::INVALID_VALUE);
    }
    let warps = (block_threads + device::WARP_SIZE - 1) / device::WARP_SIZE;
    let threads = warps * device::WARP_SIZE;
    let by_threads = limits.max_threads as i32 / threads;
    let by_registers = limits.registers as i32 / (threads * REGISTERS_PER_THREAD);
    let shared = shared_bytes.saturating_add(limits.shared_reserved_bytes as usize);
    let by_shared = (limits.shared_bytes as usize).checked_div(shared).unwrap_or(usize::MAX);
    let by_shared = i32::try_from(by_shared).unwrap_or(i32::MAX);
    Ok(by_threads.min(by_registers).min(by_shared).min(limits.max_blocks as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_bound_by_threads_registers_shared_memory_and_blocks() {
        let a100 = &gpus::find("a100").unwrap().capability;
        let blocks_per_multiprocessor =
            |threads, shared_bytes| blocks_per_multiprocessor(a100, threads, shared_bytes);
        assert_eq!(blocks_per_multiprocessor(1024, 0), Ok(2));
        assert_eq!(blocks_per_multiprocessor(33, 0), Ok(32));
        assert_eq!(blocks_per_multiprocessor(128, 48 << 10), Ok(3));
        assert_eq!(blocks_per_multiprocessor(128, 164 << 10), Ok(0));
        assert_eq!(blocks_per_multiprocessor(0, 0), Err(Status::INVALID_VALUE));
        let t4 = &gpus::find("t4").unwrap().capability;
        assert_eq!(super::blocks_per_multiprocessor(t4, 33, 0), Ok(16));
        assert_eq!(super::blocks_per_multiprocessor(t4, 1024, 0), Ok(1));
    }

    #[test]
    fn code_is_of_a_capability_that_wheels_have() {
        for (gpu, expected) in [("v100", 70), ("t4", 75), ("a100", 80), ("l4", 86), ("b200", 100)] {
            assert_eq!(version(&gpus::find(gpu).unwrap().capability), expected, "{gpu}");
        }
    }

    #[test]
    fn impossible_launches_are_refused() {
        assert_eq!(check_shape([1, 1, 1], [1024, 1, 1]), Ok(()));
        assert!(check_shape([1, 1, 1], [1024, 2, 1]).is_err());
        assert!(check_shape([0, 1, 1], [32, 1, 1]).is_err());
        assert!(check_shape([1, 65_536, 1], [32, 1, 1]).is_err());
    }
}
