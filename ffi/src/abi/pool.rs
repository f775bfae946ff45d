//! Private pools beyond PyTorch's hooks (`torch.cuda.MemPool`).

use std::ffi::c_int;

use trace_format::PoolId;

use super::{VRAMTAPE_ERROR, VRAMTAPE_OK};
use crate::guard;
use crate::process::{self, stacks};

/// Creates the pool with one user, or adds a user (`createOrIncrefPool`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_create(device: c_int, pool_0: u64, pool_1: u64) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        process::heap(device)?.lock()?.create_pool(PoolId(pool_0, pool_1), None)?;
        Ok(VRAMTAPE_OK)
    })
}

/// Lets the pool's free memory serve others as a last resort before out of memory, or no longer
/// (`setUseOnOOM`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_set_use_on_oom(
    device: c_int,
    pool_0: u64,
    pool_1: u64,
    enabled: bool,
) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        process::heap(device)?.lock()?.set_use_on_oom(PoolId(pool_0, pool_1), enabled);
        Ok(VRAMTAPE_OK)
    })
}

/// Keeps the pool's segments whole from here on (`setNoSplit`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_set_no_split(device: c_int, pool_0: u64, pool_1: u64) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        process::heap(device)?.lock()?.set_no_split(PoolId(pool_0, pool_1));
        Ok(VRAMTAPE_OK)
    })
}

/// How many users the pool has (`getPoolUseCount`); -1 is an error.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_use_count(device: c_int, pool_0: u64, pool_1: u64) -> i64 {
    guard::answer(-1, || {
        let pool = PoolId(pool_0, pool_1);
        Ok(i64::from(process::heap(device)?.lock()?.pool_use_count(pool)?))
    })
}

/// Returns the pool's cached segments to the driver; the pool (0, 0) is the default pool
/// (`emptyCache`).
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_pool_empty_cache(device: c_int, pool_0: u64, pool_1: u64) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || {
        let (heap, stack) = (process::heap(device)?, stacks::of_release(device));
        heap.lock()?.empty_cache(PoolId(pool_0, pool_1), stack)?;
        Ok(VRAMTAPE_OK)
    })
}
