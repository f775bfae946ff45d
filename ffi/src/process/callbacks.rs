//! Free-memory callbacks: code that gives memory back when a heap's pools have none.

use std::ffi::c_void;

use super::Heap;

/// A caller's function, and what it is called with.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub function: unsafe extern "C-unwind" fn(user: *mut c_void) -> bool,
    pub user: *mut c_void,
}

// SAFETY: the caller promised that the function may be called on any thread.
unsafe impl Send for Callback {}
// SAFETY: it never changes, and the caller promised that any thread may call the function.
unsafe impl Sync for Callback {}

impl Callback {
    pub(super) fn add_to(self, heap: &Heap) {
        heap.on_miss(Box::new(move || self.call()));
    }

    fn call(self) -> bool {
        // SAFETY: the caller promised that both stay valid until the process ends. It may wait for Python.
        stacks::call_program(|| unsafe { (self.function)(self.user) }).unwrap_or(false)
    }
}
