//! The caching allocator: segments, blocks and pools over a [`device`], with PyTorch's statistics and a recorder.

mod address_table;
mod block;
pub mod device;
mod expandable;
pub mod heap;
mod lane;
mod lock;
pub mod observe;
mod ordered_set;
mod pool;
pub mod record;
pub mod shared;
pub mod size;
pub mod stats;

pub use pool::{SegmentSource, SharedSource};
