//! `cuCtxGetLimit` and `cuCtxSetLimit`: values that are kept and have no effect, because no kernel runs.

use std::ffi::c_int;

use crate::abi::{Answer, Out, Status};
use crate::machine;

/// The limits of a context, by the number of `CUlimit` and `cudaLimit`.
pub(crate) type Limits = [usize; 7];

/// Stack of a thread, buffer of `printf`, heap of device-side `malloc`, two limits of device-side launches, fetch
/// granularity of the L2 cache, and its persisting part, as the CUDA C++ Programming Guide states them.
pub(crate) const DEFAULTS: Limits = [1 << 10, 1 << 20, 8 << 20, 2, 2048, 64, 0];

/// `CUDA_ERROR_UNSUPPORTED_LIMIT`.
const UNSUPPORTED: Status = Status(215);
/// A thread's local memory, its stack included, on every GPU.
const STACK_MAX_BYTES: usize = 512 << 10;
const STACK: usize = 0;
const FETCH_GRANULARITY: usize = 5;
const FETCH_GRANULARITY_MAX_BYTES: usize = 128;
const PERSISTING_CACHE: usize = 6;

pub(crate) fn get(out: Out<usize>, limit: c_int) -> Answer {
    out.set(with(limit, |value, _| Ok(*value))?)
}

pub(crate) fn set(limit: c_int, value: usize) -> Answer {
    with(limit, |kept, limit| match limit {
        STACK if value > STACK_MAX_BYTES => Err(Status::INVALID_VALUE),
        FETCH_GRANULARITY if value > FETCH_GRANULARITY_MAX_BYTES => Err(Status::INVALID_VALUE),
        // The devices have no persisting part: `persistingL2CacheMaxSize` is 0.
        PERSISTING_CACHE if value > 0 => Err(UNSUPPORTED),
        _ => {
            *kept = value;
            Ok(())
        }
    })
}

/// Runs `work` on a limit of the current device's context, and its index.
fn with<T>(limit: c_int, work: impl FnOnce(&mut usize, usize) -> Answer<T>) -> Answer<T> {
    machine::bind()?;
    let index = usize::try_from(limit).map_err(|_| UNSUPPORTED)?;
    machine::with(|machine| {
        let limits = machine.limits.get_mut(usize::from(machine::current_device()));
        let limits = limits.ok_or(Status::INVALID_DEVICE)?;
        work(limits.get_mut(index).ok_or(UNSUPPORTED)?, index)
    })
}
