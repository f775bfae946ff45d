//! `libvramtape.so`: the allocator behind the C ABI that PyTorch calls.
//!
//! The exports are in [`abi`], a file for each group; `include/vramtape.h` is made from them. An
//! export checks its arguments, makes one call and answers; what it cannot do is recorded
//! ([`abi::error`]) and, where PyTorch is the caller, raised as the exception that PyTorch's own
//! allocator would raise.

pub mod abi;
mod any_device;
mod error;
mod guard;
mod log;
mod pinned;
mod process;
mod snapshot;
mod torch;
