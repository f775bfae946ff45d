//! Replay, import and export of vramtape tapes and PyTorch memory snapshots.
#![forbid(unsafe_code)]

pub mod advice;
mod candidate;
pub mod categories;
pub mod compare;
pub mod diff;
mod drive_error;
pub mod driver;
pub mod edit;
pub mod ending;
pub mod explain;
pub mod export;
pub mod fit;
pub mod holders;
pub mod host_memory;
pub mod import;
pub mod leaks;
pub mod message;
pub mod modules;
pub mod pickle;
pub mod placements;
pub mod ranks;
pub mod report;
pub mod run;
pub mod script;
pub mod series;
pub mod sizes;
pub mod snapshot;
pub mod source;
pub mod start;
pub mod steps;
pub mod strategy;
pub mod tape;
pub mod timeline;
pub mod tune;
pub mod verify;
pub mod waste;
