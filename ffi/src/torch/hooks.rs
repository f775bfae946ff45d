//! Completing PyTorch's two-function set-up.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use crate::abi;

/// The exports that PyTorch's optional hooks call; the layout of `VramtapeHooks` in `hooks.cpp`.
#[repr(C)]
struct Hooks {
    malloc: *const c_void,
    init: *const c_void,
    reset: *const c_void,
    memory_fraction: *const c_void,
    base_alloc: *const c_void,
    record_stream: *const c_void,
    begin_allocate_to_pool: *const c_void,
    end_allocate_to_pool: *const c_void,
    release_pool: *const c_void,
}

unsafe extern "C" {
    fn vramtape_torch_set_hooks(hooks: *const Hooks, obstacle: *mut *const c_char) -> bool;
}

/// Sets the hooks of PyTorch's current allocator if that is us. Whether there is nothing more to do:
/// where it cannot be done, says so, since memory would be used again too early. Not to be called
/// again then; setting them twice could meet a thread that calls one.
pub(crate) fn set_hooks() -> bool {
    let hooks = Hooks {
        malloc: abi::memory::vramtape_malloc as *const c_void,
        init: abi::hooks::vramtape_init as *const c_void,
        reset: abi::hooks::vramtape_empty_cache as *const c_void,
        memory_fraction: abi::hooks::vramtape_set_memory_fraction as *const c_void,
        base_alloc: abi::hooks::vramtape_base_alloc as *const c_void,
        record_stream: abi::hooks::vramtape_record_stream as *const c_void,
        begin_allocate_to_pool: abi::hooks::vramtape_begin_allocate_to_pool as *const c_void,
        end_allocate_to_pool: abi::hooks::vramtape_end_allocate_to_pool as *const c_void,
        release_pool: abi::hooks::vramtape_release_pool as *const c_void,
    };
    let mut obstacle = ptr::null();
    // SAFETY: the table is whole and outlives the call, each entry has the signature that PyTorch's
    // hook of that name has, and there is room for the obstacle.
    let is_done = unsafe { vramtape_torch_set_hooks(&raw const hooks, &raw mut obstacle) };
    if !obstacle.is_null() {
        // SAFETY: a constant string of hooks.cpp.
        let obstacle = unsafe { CStr::from_ptr(obstacle) }.to_string_lossy();
        tracing::warn!(
            "{obstacle}, so its hooks could not be set. Without them Tensor.record_stream and CUDA \
             graphs use memory again too early. Set them in Python, \
             allocator.allocator().set_record_stream_fn(address of vramtape_record_stream) and so \
             on for every set_* method, or let PyTorch call vramtape_malloc directly."
        );
    }
    is_done
}
