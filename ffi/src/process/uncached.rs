//! Memory straight from the device, while PyTorch's cache is switched off (`torch.cuda.caching_allocator_enable`,
//! `PYTORCH_NO_CUDA_MEMORY_CACHING`): no heap's, in no statistic and on no tape, as with PyTorch's own allocator.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use device::Device;
use trace_format::{Addr, Stream};

use super::heap_for;
use crate::error::Error;

static IS_CACHING: AtomicBool = AtomicBool::new(true);

/// Live uncached blocks and their devices. A block is freed where it was allocated, even after a switch of caching.
static GIVEN: LazyLock<Mutex<HashMap<Addr, c_int>>> = LazyLock::new(Mutex::default);
/// The number of them: a free looks up its address only if there are any.
static GIVEN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Holds the list still, so that a fork finds it whole. No lock is taken while it is held.
pub(super) fn given() -> MutexGuard<'static, HashMap<Addr, c_int>> {
    // Nothing in there is ever half changed.
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the cache is on.
pub(crate) fn is_caching() -> bool {
    IS_CACHING.load(Ordering::Relaxed)
}

/// Switches the cache on or off.
pub(crate) fn set_caching(value: bool) {
    IS_CACHING.store(value, Ordering::Relaxed);
}

/// Memory from the device.
#[cold]
pub(crate) fn take(size_bytes: u64, device: c_int, stream: Stream) -> Result<Addr, Error> {
    let addr = heap_for(device, stream)?.lock()?.device_mut().malloc(size_bytes)?;
    given().insert(addr, device);
    GIVEN_COUNT.fetch_add(1, Ordering::Release);
    Ok(addr)
}

/// Gives back what [`take`] gave; `false` where the address is not one of those. The device waits for its work.
pub(crate) fn give_back(addr: Addr) -> Result<bool, Error> {
    if GIVEN_COUNT.load(Ordering::Acquire) == 0 {
        return Ok(false);
    }
    let Some(device) = given().remove(&addr) else { return Ok(false) };
    GIVEN_COUNT.fetch_sub(1, Ordering::Release);
    super::heap(device)?.lock()?.device_mut().free(addr)?;
    Ok(true)
}
