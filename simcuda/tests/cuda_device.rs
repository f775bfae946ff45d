//! The allocator's `CudaDevice` over the stand-in: every call of the seam through a real driver
//! interface.

use std::env;
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::thread;

use cuda_device::CudaDevice;
use device::{CaptureMode, Device, DeviceCall, DeviceError, HandleType, ShareableHandle};
use events::{DeviceId, Stream};
use libloading::Library;

const PAGE_BYTES: u64 = 2 << 20;

/// The stand-in, loaded by its path; its SONAME makes it the process's driver.
fn driver() -> &'static Library {
    static DRIVER: OnceLock<Library> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let path = env::current_exe().expect("this test's path").with_file_name("libsimcuda.so");
        // SAFETY: the stand-in's initialisers may run on any thread.
        unsafe { Library::new(&path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    })
}

fn device() -> CudaDevice {
    driver();
    CudaDevice::open(DeviceId(0)).expect("the stand-in has a device 0")
}

/// Calls a driver function that takes a pointer.
fn call(name: &str, pointer: *mut c_void) {
    type Function = unsafe extern "C" fn(*mut c_void) -> c_uint;
    // SAFETY: the functions that the tests name have this signature.
    let function = unsafe { driver().get::<Function>(name.as_bytes()) };
    // SAFETY: the caller gives what the function asks for.
    let code = unsafe { function.expect("the stand-in has the function")(pointer) };
    assert_eq!(code, 0, "{name}");
}

/// Calls a driver function that takes a pointer and a number.
fn call_with(name: &str, pointer: *mut c_void, number: c_uint) {
    type Function = unsafe extern "C" fn(*mut c_void, c_uint) -> c_uint;
    // SAFETY: the functions that the tests name have this signature.
    let function = unsafe { driver().get::<Function>(name.as_bytes()) };
    // SAFETY: the caller gives what the function asks for.
    let code = unsafe { function.expect("the stand-in has the function")(pointer, number) };
    assert_eq!(code, 0, "{name}");
}

fn current_context() -> *mut c_void {
    let mut context = ptr::null_mut::<c_void>();
    call("cuCtxGetCurrent", (&raw mut context).cast());
    context
}

#[test]
fn memory_is_the_drivers_and_refusals_name_the_call() {
    let mut device = device();
    assert!(!device.name().is_empty());
    let addr = device.malloc(3 << 20).expect("there is memory");
    let info = device.memory_info().expect("the driver knows its memory");
    assert!(info.free_bytes <= info.total_bytes - (3 << 20), "{info:?}");
    let too_much = info.total_bytes + 1;
    assert_eq!(
        device.malloc(too_much),
        Err(DeviceError::OutOfMemory { call: DeviceCall::Malloc, size_bytes: too_much })
    );
    device.free(addr).expect("it was allocated");
    let again = device.free(addr);
    assert!(matches!(again, Err(DeviceError::Driver { call: DeviceCall::Free, .. })), "{again:?}");
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    driver();
    let error = CudaDevice::open(DeviceId(99)).map(|_| ()).expect_err("there is no device 99");
    assert!(matches!(error, DeviceError::Driver { call: DeviceCall::Init, .. }), "{error}");
}

#[test]
fn addresses_and_physical_memory_come_together_and_part() {
    let mut device = device();
    assert_eq!(device.granularity_bytes(), PAGE_BYTES);
    let range = device.reserve(16 * PAGE_BYTES).expect("there are addresses");
    let page = device.create(PAGE_BYTES, HandleType::None).expect("there is memory");
    device.map(range, PAGE_BYTES, page).expect("the range is free");
    device.set_access(range, PAGE_BYTES, DeviceId(0)).expect("it is mapped");
    let twice = device.map(range, PAGE_BYTES, page);
    assert!(matches!(twice, Err(DeviceError::Driver { call: DeviceCall::Map, .. })), "{twice:?}");
    device.unmap(range, PAGE_BYTES).expect("it is mapped");
    device.release(page).expect("it was created");
    device.unreserve(range, 16 * PAGE_BYTES).expect("it is reserved");
    let gone = device.map(range, PAGE_BYTES, page);
    assert!(gone.is_err(), "{gone:?}");
}

#[test]
fn physical_memory_goes_out_and_comes_back_as_a_descriptor() {
    let mut device = device();
    let page = device.create(PAGE_BYTES, HandleType::PosixFd).expect("there is memory");
    let shared = device.export(page, HandleType::PosixFd).expect("it was created to be shared");
    let imported = device.import(shared).expect("it is open");
    assert_eq!(imported, page, "one process's own memory is not there twice");
    device.close(shared);
    device.release(imported).expect("it was imported");
    device.release(page).expect("it was created");
    let closed = device.import(shared);
    assert!(
        matches!(closed, Err(DeviceError::Driver { call: DeviceCall::Import, .. })),
        "{closed:?}"
    );
}

#[test]
fn memory_that_is_not_for_sharing_is_refused_and_the_call_named() {
    let mut device = device();
    let page = device.create(PAGE_BYTES, HandleType::None).expect("there is memory");
    let refused = device.export(page, HandleType::PosixFd);
    assert!(
        matches!(refused, Err(DeviceError::Driver { call: DeviceCall::Export, .. })),
        "{refused:?}"
    );
    let refused = device.import(ShareableHandle::PosixFd(-1));
    assert!(
        matches!(refused, Err(DeviceError::Driver { call: DeviceCall::Import, .. })),
        "{refused:?}"
    );
    let unshared = device.export(page, HandleType::None);
    assert!(matches!(unshared, Err(DeviceError::Unavailable { .. })), "{unshared:?}");
    device.release(page).expect("it was created");
}

#[test]
fn events_come_back_to_the_pool() {
    let mut device = device();
    let event = device.event_record(Stream(0)).expect("the default stream is there");
    device.event_synchronize(event).expect("an event that was recorded");
    assert_eq!(device.event_query(event), Ok(true));
    device.event_release(event);
    assert_eq!(device.event_record(Stream(0)), Ok(event), "an idle event is used again");
    device.stream_synchronize(Stream(0)).expect("the default stream is there");
    device.device_synchronize().expect("the device is there");
}

#[test]
fn a_threads_current_context_is_as_it_was() {
    driver();
    thread::spawn(|| {
        let before = current_context();
        let mut device = device();
        let addr = device.malloc(1).expect("there is memory");
        device.free(addr).expect("it was allocated");
        assert_eq!(current_context(), before);
    })
    .join()
    .expect("the thread's checks hold");
}

#[test]
fn captures_are_seen_while_they_last() {
    let mut device = device();
    let mut context = ptr::null_mut::<c_void>();
    call_with("cuDevicePrimaryCtxRetain", (&raw mut context).cast(), 0);
    call("cuCtxSetCurrent", context);
    let mut handle = ptr::null_mut::<c_void>();
    call_with("cuStreamCreate", (&raw mut handle).cast(), 0);
    let stream = Stream(handle.expose_provenance() as u64);

    assert_eq!(device.capture(stream), Ok(None));
    call_with("cuStreamBeginCapture_v2", handle, THREAD_LOCAL);
    let capture = device.capture(stream).expect("the stream is there").expect("it captures");
    assert_eq!(capture.terminals, [], "nothing was captured yet");
    let relaxed = device.exchange_capture_mode(CaptureMode::Relaxed).expect("threads have modes");
    assert_eq!(device.exchange_capture_mode(relaxed), Ok(CaptureMode::Relaxed));
    let mut graph = ptr::null_mut::<c_void>();
    end_capture(handle, &raw mut graph);
    assert_eq!(device.capture(stream), Ok(None));
}

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: the other tests' calls do not disturb.
const THREAD_LOCAL: c_uint = 1;

fn end_capture(stream: *mut c_void, graph: *mut *mut c_void) {
    type Function = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_uint;
    // SAFETY: `Function` is the type in cuda.h, with pointers for the stream and the graph.
    let function = unsafe { driver().get::<Function>(b"cuStreamEndCapture") };
    // SAFETY: the stream is open, and there is room for the graph.
    let code = unsafe { function.expect("the stand-in has the function")(stream, graph) };
    assert_eq!(code, 0, "cuStreamEndCapture");
}
