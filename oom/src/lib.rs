//! Why a request is out of memory: the verdict with its numbers, the free memory that did not serve it, and the pinning
//! set. `replay` asks this of recorded runs, and the library in a training process of the request that just failed.
//!
//! Every statement about what would have happened is a trial: the allocator itself, restored on a simulated device, is
//! given the one request with other blocks freed. No clock is read; [`Effort`] says when the time is over.
#![forbid(unsafe_code)]

mod free_space;
mod judge;
mod others;
mod pinning;
mod situation;
mod verdict;

pub use free_space::{FreeSpace, Unserved, free_space};
pub use judge::{Judged, judge};
pub use others::{CONTEXT_BYTES, Others, mark_of_process, process_of_mark};
pub use pinning::{EXHAUSTIVE_BLOCKS, Effort, Pinning, PinningSearch, Way, pinning};
pub use situation::{Memory, Situation};
pub use verdict::{OomVerdict, Step};
