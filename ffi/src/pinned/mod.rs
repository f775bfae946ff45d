//! Pinned host memory, counted where PyTorch calls the CUDA runtime for it: PyTorch's own host allocator serves it on
//! every route, and has no hook for a block. PyTorch calls the runtime with none of its locks. Calls of libraries that
//! are loaded after the watch began are not seen.

mod ledger;
mod slots;

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{process, ptr};

use trace_format::{Addr, HostCall, HostReading, StackId};

use crate::guard;
use crate::process::{stacks, tape};
use ledger::Ledger;

const SUCCESS: c_int = 0;
/// `cudaErrorMemoryAllocation`.
const OUT_OF_MEMORY: c_int = 2;
/// `cudaErrorUnknown`.
const UNKNOWN: c_int = 999;

type HostAlloc = unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int;
type MallocHost = unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int;
type HostRegister = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int;
type Release = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The CUDA runtime's functions.
struct Runtime {
    host_alloc: HostAlloc,
    malloc_host: MallocHost,
    host_register: HostRegister,
    free_host: Release,
    host_unregister: Release,
}

/// The watch of this process; a forked child has none.
struct Watch {
    runtime: Runtime,
    process_id: u32,
    ledger: Mutex<Ledger>,
}

static WATCH: OnceLock<Option<Watch>> = OnceLock::new();

/// Begins to watch, once. Does nothing where PyTorch's CUDA runtime is not loaded.
pub(crate) fn watch() {
    let mut is_new = false;
    let watch = WATCH.get_or_init(|| {
        is_new = true;
        let runtime = Runtime::loaded()?;
        Some(Watch { runtime, process_id: process::id(), ledger: Mutex::default() })
    });
    if is_new && watch.is_some() {
        let slots = slots::redirect(&[
            (c"cudaHostAlloc", host_alloc as *const () as usize),
            (c"cudaMallocHost", malloc_host as *const () as usize),
            (c"cudaHostRegister", host_register as *const () as usize),
            (c"cudaFreeHost", free_host as *const () as usize),
            (c"cudaHostUnregister", host_unregister as *const () as usize),
        ]);
        tracing::debug!("calls for pinned host memory are seen at {slots} places");
    }
}

/// Pinned host memory now; `None` without a watch.
pub(crate) fn reading() -> Option<HostReading> {
    let watch = of_this_process()?;
    Some(watch.ledger.lock().unwrap_or_else(PoisonError::into_inner).reading())
}

fn of_this_process() -> Option<&'static Watch> {
    let watch = WATCH.get()?.as_ref()?;
    // A lock that another thread of the parent had stays locked in the child.
    (watch.process_id == process::id()).then_some(watch)
}

impl Runtime {
    /// The functions that PyTorch's calls reach: of the libraries that all others see, or of the runtime's own.
    fn loaded() -> Option<Self> {
        Self::of(libc::RTLD_DEFAULT).or_else(|| {
            let path = slots::loaded("libcudart.so")?;
            // SAFETY: a terminated path of a library that is loaded already: no code of it runs.
            let library =
                unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
            if library.is_null() { None } else { Self::of(library) }
        })
    }

    fn of(library: *mut c_void) -> Option<Self> {
        Some(Self {
            // SAFETY: the type that the runtime's documentation declares.
            host_alloc: unsafe { function(library, c"cudaHostAlloc") }?,
            // SAFETY: as above.
            malloc_host: unsafe { function(library, c"cudaMallocHost") }?,
            // SAFETY: as above.
            host_register: unsafe { function(library, c"cudaHostRegister") }?,
            // SAFETY: as above.
            free_host: unsafe { function(library, c"cudaFreeHost") }?,
            // SAFETY: as above.
            host_unregister: unsafe { function(library, c"cudaHostUnregister") }?,
        })
    }
}

/// A function of an open library, or of `RTLD_DEFAULT`.
///
/// # Safety
///
/// `F` is the type of a pointer to the function of this name.
unsafe fn function<F>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: an open library, which stays open, or none, and a terminated name.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the caller vouches for the type.
    (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
}

/// The runtime, for a call that came by a redirected slot.
fn runtime() -> Option<&'static Runtime> {
    Some(&WATCH.get()?.as_ref()?.runtime)
}

/// Counts a call and puts it on the tape. It never fails: a program that can pin its memory goes on.
fn note(call: HostCall) {
    guard::answer((), || {
        let Some(watch) = of_this_process() else { return Ok(()) };
        // Before the ledger's lock: the capture may wait for Python's.
        let is_of_interest = !matches!(call, HostCall::Unpinned { .. });
        let stack = if is_of_interest { stacks::of_observed() } else { StackId::NONE };
        let mut ledger = watch.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match ledger.take(call) {
            // With the lock, so that the tape has the calls in the order of their sums.
            Some(reading) => tape::mark_call(&reading.mark(), stack),
            None => Ok(()),
        }
    });
}

/// The answer of a call that pins memory at `addr`.
fn answered(code: c_int, addr: *mut c_void, size_bytes: usize) -> c_int {
    let size_bytes = size_bytes as u64;
    match code {
        SUCCESS => note(HostCall::Pinned { addr: Addr(addr.addr() as u64), size_bytes }),
        OUT_OF_MEMORY => note(HostCall::Refused { size_bytes }),
        _ => {}
    }
    code
}

unsafe extern "C" fn host_alloc(to: *mut *mut c_void, size_bytes: usize, flags: c_uint) -> c_int {
    let Some(runtime) = runtime() else { return UNKNOWN };
    // SAFETY: the caller's own arguments.
    let code = unsafe { (runtime.host_alloc)(to, size_bytes, flags) };
    // SAFETY: the runtime has written there if it succeeded.
    let addr = if code == SUCCESS { unsafe { *to } } else { ptr::null_mut() };
    answered(code, addr, size_bytes)
}

unsafe extern "C" fn malloc_host(to: *mut *mut c_void, size_bytes: usize) -> c_int {
    let Some(runtime) = runtime() else { return UNKNOWN };
    // SAFETY: the caller's own arguments.
    let code = unsafe { (runtime.malloc_host)(to, size_bytes) };
    // SAFETY: the runtime has written there if it succeeded.
    let addr = if code == SUCCESS { unsafe { *to } } else { ptr::null_mut() };
    answered(code, addr, size_bytes)
}

unsafe extern "C" fn host_register(addr: *mut c_void, size_bytes: usize, flags: c_uint) -> c_int {
    let Some(runtime) = runtime() else { return UNKNOWN };
    // SAFETY: the caller's own arguments.
    let code = unsafe { (runtime.host_register)(addr, size_bytes, flags) };
    answered(code, addr, size_bytes)
}

unsafe extern "C" fn free_host(addr: *mut c_void) -> c_int {
    // SAFETY: the caller's own argument.
    unsafe { release(addr, |runtime| runtime.free_host) }
}

unsafe extern "C" fn host_unregister(addr: *mut c_void) -> c_int {
    // SAFETY: the caller's own argument.
    unsafe { release(addr, |runtime| runtime.host_unregister) }
}

/// # Safety
///
/// `addr` is what the caller passed to the function of the runtime.
unsafe fn release(addr: *mut c_void, of: impl Fn(&Runtime) -> Release) -> c_int {
    let Some(runtime) = runtime() else { return UNKNOWN };
    // Before the call, after which another thread may pin memory at the same address.
    let call = HostCall::Unpinned { addr: Addr(addr.addr() as u64), size_bytes: 0 };
    note(call);
    // SAFETY: the caller's own argument.
    unsafe { of(runtime)(addr) }
}
