//! The handles of cuBLAS and cuDNN: each has a stream, on which its operations are.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::abi::{Answer, Out};
use crate::{machine, stream};

/// The stream of each handle; a handle without an entry is on the default stream.
static STREAMS: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);

fn streams() -> MutexGuard<'static, HashMap<u64, u64>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn create(out: Out<u64>) -> Answer {
    out.set(machine::new_handle())
}

pub(crate) fn destroy(handle: u64) {
    streams().remove(&handle);
}

pub(crate) fn set_stream(handle: u64, stream: u64) {
    streams().insert(handle, stream);
}

pub(crate) fn stream(handle: u64) -> u64 {
    streams().get(&handle).copied().unwrap_or(0)
}

/// Enqueues an operation on the handle's stream.
pub(crate) fn operation(handle: u64) -> Answer {
    if machine::any_capture() { stream::launch(stream(handle)) } else { Ok(()) }
}
