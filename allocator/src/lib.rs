//! The caching allocator: segments, blocks and pools over a [`Device`](device::Device), with PyTorch's statistics.
//!
//! No CUDA, no clock, no environment, no thread, no file, and no lock: a seed reproduces every run.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

mod address_table;
mod arena;
mod blocks;
mod cast;
mod expandable;
mod free_list;
pub mod heap;
mod ids;
mod ordered_set;
mod pool;
mod segment_ranks;
pub mod size;
pub mod stats;
mod stitch;

pub use pool::SegmentSource;
