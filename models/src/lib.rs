//! Models of other people's allocators, for comparison in replays: cudaMallocAsync ([`async_pool`]), TensorFlow's BFC
//! ([`bfc`]), RMM's pool ([`rmm_pool`]) and arena ([`rmm_arena`]).
//!
//! A [`Model`](model::Model) is the policy of one pool on the simulated device. Private pools, deferred frees, limits
//! and statistics are the same for all of them: they are in `replay::strategy::Hosted`.
#![forbid(unsafe_code)]

pub mod async_pool;
pub mod bfc;
mod chunks;
pub mod memory;
pub mod model;
pub mod model_settings;
pub mod rmm_arena;
pub mod rmm_pool;
mod superblocks;
