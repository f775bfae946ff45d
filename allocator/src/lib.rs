//! The caching allocator: segments, blocks and pools over a [`device`], with PyTorch's statistics and a recorder.

pub mod config;
pub mod device;
pub mod record;
pub mod stats;
