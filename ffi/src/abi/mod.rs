//! The exports, a file for each group.
//!
//! No export lets a panic out. Those marked as called by PyTorch throw its exceptions in a process
//! that has PyTorch; no other ever throws.

pub mod autograd;
pub mod autograd_call;
pub mod checkpoint;
pub mod conf;
pub mod device_stats;
pub mod error;
pub mod history;
pub mod hooks;
pub mod memory;
pub mod observe;
pub mod pool;
pub mod pool_source;
pub mod program;
pub mod segments;
pub mod settings;
pub mod share;
pub mod snapshot;
pub mod stats;
pub mod tape;
mod text;
pub mod uncached;
pub mod watch;

use std::ffi::c_int;

use crate::error::Error;
use crate::guard;

/// The result of a successful call of an export without another result.
pub const VRAMTAPE_OK: c_int = 0;

/// The result of a failed one; see `vramtape_last_error`.
pub const VRAMTAPE_ERROR: c_int = -1;

/// Runs an export that answers with [`VRAMTAPE_OK`] or [`VRAMTAPE_ERROR`]. It never throws.
#[inline]
fn done(body: impl FnOnce() -> Result<(), Error>) -> c_int {
    guard::answer(VRAMTAPE_ERROR, || body().map(|()| VRAMTAPE_OK))
}
