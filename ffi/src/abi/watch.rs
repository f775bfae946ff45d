//! Callbacks for trace entries and out-of-memory errors.

use std::ffi::{c_char, c_int, c_void};

use recorder::{TraceEntry, WatchId, Watcher};
use trace_format::DeviceId;

use super::done;
use super::text::{copy_out, read};
use crate::error::Error;
use crate::guard;
use crate::process::oom::{self, Occasion};
use crate::process::{self, oom_dir, watch};

/// One entry of PyTorch's allocation trace (`c10::cuda::CUDACachingAllocator::TraceEntry`).
#[repr(C)]
pub struct VramtapeTraceEntry {
    /// PyTorch's number: 0 alloc, 1 free requested, 2 free completed, 3 segment alloc, 4 segment
    /// free, 5 segment map, 6 segment unmap, 7 snapshot, 8 out of memory.
    pub action: c_int,
    /// The device.
    pub device: c_int,
    /// The address; for out of memory, the bytes that the device has free.
    pub address: u64,
    /// Bytes: requested (alloc and free), of the segment, active in total (snapshot), or requested and
    /// rounded (out of memory).
    pub size: u64,
    /// The stream that the memory belongs to.
    pub stream: u64,
    /// The first number of its pool.
    pub pool_0: u64,
    /// The second.
    pub pool_1: u64,
    /// Whether this is the first allocation that splits the segment at `address`. The segment loses its
    /// stack then.
    pub cuts_segment: bool,
    /// The number of its stack, as `vramtape_observe_stack` gave it; 0 for none.
    pub stack: u32,
}

struct Caller {
    function: unsafe extern "C" fn(user: *mut c_void, entry: *const VramtapeTraceEntry),
    user: *mut c_void,
    device: DeviceId,
}

// SAFETY: the caller promised that the function may be called on any thread.
unsafe impl Send for Caller {}

impl Watcher for Caller {
    fn see(&mut self, entry: &TraceEntry) {
        let pool = entry.pool.unwrap_or_default();
        let entry = VramtapeTraceEntry {
            action: entry.action as c_int,
            device: self.device.0.into(),
            address: entry.addr.0,
            size: entry.size_bytes,
            stream: entry.stream.0,
            pool_0: pool.0,
            pool_1: pool.1,
            cuts_segment: entry.cuts_segment,
            stack: entry.stack.0,
        };
        // SAFETY: the caller promised that both stay valid until `vramtape_unwatch` has returned.
        unsafe { (self.function)(self.user, &raw const entry) }
    }
}

/// Calls `watcher` with every later trace entry of every device, on the acting thread and with the
/// device's lock held: it must not call this library. Returns the watcher's number, or -1.
///
/// # Safety
///
/// `watcher` is NULL, which is an error, or may be called with `user` on any thread until
/// `vramtape_unwatch` has returned. It must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_watch(
    watcher: Option<unsafe extern "C" fn(user: *mut c_void, entry: *const VramtapeTraceEntry)>,
    user: *mut c_void,
) -> i64 {
    guard::answer(-1, || {
        let function =
            watcher.ok_or_else(|| Error::value("the watcher is NULL; expected a function"))?;
        let user = user.expose_provenance();
        let id = watch::begin(move |device| {
            let user = std::ptr::with_exposed_provenance_mut(user);
            Box::new(Caller { function, user, device })
        })?;
        Ok(id.0 as i64)
    })
}

/// Removes the watcher that `vramtape_watch` gave this number.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_unwatch(number: i64) -> c_int {
    done(|| watch::end(WatchId(number as u64)))
}

/// Calls `observer` at every out of memory, on the requesting thread and without this library's locks,
/// before that request fails (PyTorch's `OutOfMemoryObserver`): the device, bytes of the requested
/// segment, bytes that may be used, bytes that the device has free. It cannot be removed.
///
/// # Safety
///
/// `observer` is NULL, which is an error, or may be called with `user` on any thread until the
/// process ends. It must not throw. It may wait for Python, and is not called once a Python
/// interpreter of the process is ending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_add_oom_observer(
    observer: Option<
        unsafe extern "C-unwind" fn(
            user: *mut c_void,
            device: c_int,
            segment_bytes: u64,
            allowed_bytes: u64,
            device_free_bytes: u64,
        ),
    >,
    user: *mut c_void,
) -> c_int {
    add_observer(Occasion::OutOfMemory, observer, user)
}

/// As `vramtape_add_oom_observer`, for requests refused before the device was asked
/// (`throw_on_cudamalloc_oom`, PyTorch's `OomRejectionObserver`): the device, bytes of the segment
/// that it would have taken, bytes held from the device, the device's memory.
///
/// # Safety
///
/// As for `vramtape_add_oom_observer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_add_oom_rejection_observer(
    observer: Option<
        unsafe extern "C-unwind" fn(
            user: *mut c_void,
            device: c_int,
            segment_bytes: u64,
            reserved_bytes: u64,
            device_total_bytes: u64,
        ),
    >,
    user: *mut c_void,
) -> c_int {
    add_observer(Occasion::Rejection, observer, user)
}

/// Sets the folder in which the process's first out of memory is saved (`oom_dir` in `VRAMTAPE_CONF`).
///
/// # Safety
///
/// `folder` is NULL, which is an error, or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_set_oom_dir(folder: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller vouches that `folder` is NULL or a terminated string.
        oom_dir::set(unsafe { read(folder, "the folder") }?)
    })
}

/// The path of the tape that was made of the process's first out of memory, which is on this device, or an empty text:
/// where there is no `oom_dir`, the tape cannot be written, or an earlier call took it. For an observer of
/// out of memory. Buffer and answer are those of `vramtape_stats`; a buffer that is too small loses the path.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_oom_tape(
    device: c_int,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    guard::answer(-1, || {
        process::used(device)?;
        let path = oom_dir::take(DeviceId(device as u16));
        let text = path.map(|path| path.display().to_string()).unwrap_or_default();
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&text, buffer, capacity) })
    })
}

fn add_observer(occasion: Occasion, observer: Option<oom::Function>, user: *mut c_void) -> c_int {
    done(|| {
        let function =
            observer.ok_or_else(|| Error::value("the observer is NULL; expected a function"))?;
        oom::add(oom::Observer { occasion, function, user })
    })
}
