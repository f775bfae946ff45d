//! The caching allocator: segments, blocks and pools over a [`device`], with PyTorch's statistics and a recorder.

mod address_table;
mod block;
pub mod config;
pub mod device;
mod expandable;
mod free_list;
pub mod heap;
mod pool;
pub mod record;
pub mod shared;
pub mod size;
pub mod stats;
mod unmapped_list;

pub use pool::{SegmentSource, SharedSource};
