//! Replay, import and export of vramtape tapes and PyTorch memory snapshots.
#![forbid(unsafe_code)]

pub mod diff;
pub mod import;
pub mod pickle;
pub mod snapshot;
pub mod source;
pub mod tape;
