//! The driver's functions, found by name before any is called.
//!
//! cudarc's own wrappers panic on a missing library or symbol, and a result code that its enum does
//! not know would be undefined behaviour. So its types are used, its search for the library too,
//! but the functions are looked up here and their codes stay integers.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use libloading::Library;
use libloading::os::unix;

use device::{DeviceCall, DeviceError, Result};

/// A driver's answer (`CUresult`).
pub(super) type Code = c_uint;

pub(super) const SUCCESS: Code = sys::CUresult::CUDA_SUCCESS as Code;
pub(super) const NOT_READY: Code = sys::CUresult::CUDA_ERROR_NOT_READY as Code;
const OUT_OF_MEMORY: Code = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as Code;
const DEINITIALIZED: Code = sys::CUresult::CUDA_ERROR_DEINITIALIZED as Code;
const CONTEXT_IS_DESTROYED: Code = sys::CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED as Code;

/// A function that not every driver has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Optional<F> {
    name: &'static str,
    function: Option<F>,
}

impl<F: Copy> Optional<F> {
    /// The function, or an error that names it.
    pub(super) fn get(&self, call: DeviceCall) -> Result<F> {
        self.function.ok_or_else(|| DeviceError::Unavailable {
            call,
            reason: format!("the CUDA driver has no function {}; update the driver", self.name),
        })
    }

    pub(super) fn is_present(&self) -> bool {
        self.function.is_some()
    }
}

macro_rules! functions {
    (
        required { $($required:ident: $required_name:literal($($required_arg:ty),*);)* }
        optional { $($optional:ident: $optional_name:literal($($optional_arg:ty),*);)* }
    ) => {
        /// The functions of the process's CUDA driver.
        #[derive(Debug)]
        pub(super) struct Driver {
            $(pub(super) $required: unsafe extern "C" fn($($required_arg),*) -> Code,)*
            $(pub(super) $optional: Optional<unsafe extern "C" fn($($optional_arg),*) -> Code>,)*
        }

        impl Driver {
            fn load(library: &Library) -> Result<Self> {
                Ok(Self {
                    // SAFETY: the type is the symbol's in cuda.h, with the enum it answers as an
                    // integer.
                    $($required: unsafe { symbol(library, $required_name) }.ok_or_else(|| {
                        DeviceError::Unavailable {
                            call: DeviceCall::Init,
                            reason: format!(
                                "the CUDA driver has no function {}; update the driver",
                                $required_name,
                            ),
                        }
                    })?,)*
                    $($optional: Optional {
                        name: $optional_name,
                        // SAFETY: the type is that of cuda.h here too, the enum again an integer.
                        function: unsafe { symbol(library, $optional_name) },
                    },)*
                })
            }
        }
    };
}

functions! {
    required {
        init: "cuInit"(c_uint);
        error_string: "cuGetErrorString"(Code, *mut *const c_char);
        device_get: "cuDeviceGet"(*mut sys::CUdevice, c_int);
        device_attribute: "cuDeviceGetAttribute"(*mut c_int, c_uint, sys::CUdevice);
        primary_retain: "cuDevicePrimaryCtxRetain"(*mut sys::CUcontext, sys::CUdevice);
        context_get: "cuCtxGetCurrent"(*mut sys::CUcontext);
        context_set: "cuCtxSetCurrent"(sys::CUcontext);
        context_synchronize: "cuCtxSynchronize"();
        stream_synchronize: "cuStreamSynchronize"(sys::CUstream);
        memory_info: "cuMemGetInfo_v2"(*mut usize, *mut usize);
        malloc: "cuMemAlloc_v2"(*mut sys::CUdeviceptr, usize);
        free: "cuMemFree_v2"(sys::CUdeviceptr);
        event_create: "cuEventCreate"(*mut sys::CUevent, c_uint);
        event_record: "cuEventRecord"(sys::CUevent, sys::CUstream);
        event_query: "cuEventQuery"(sys::CUevent);
        event_synchronize: "cuEventSynchronize"(sys::CUevent);
    }
    optional {
        device_uuid: "cuDeviceGetUuid"(*mut sys::CUuuid, sys::CUdevice);
        device_name: "cuDeviceGetName"(*mut c_char, c_int, sys::CUdevice);
        granularity: "cuMemGetAllocationGranularity"(
            *mut usize, *const sys::CUmemAllocationProp, c_uint
        );
        reserve: "cuMemAddressReserve"(
            *mut sys::CUdeviceptr, usize, usize, sys::CUdeviceptr, c_ulonglong
        );
        unreserve: "cuMemAddressFree"(sys::CUdeviceptr, usize);
        create: "cuMemCreate"(
            *mut sys::CUmemGenericAllocationHandle, usize, *const sys::CUmemAllocationProp,
            c_ulonglong
        );
        release: "cuMemRelease"(sys::CUmemGenericAllocationHandle);
        map: "cuMemMap"(
            sys::CUdeviceptr, usize, usize, sys::CUmemGenericAllocationHandle, c_ulonglong
        );
        unmap: "cuMemUnmap"(sys::CUdeviceptr, usize);
        set_access: "cuMemSetAccess"(
            sys::CUdeviceptr, usize, *const sys::CUmemAccessDesc, usize
        );
        export: "cuMemExportToShareableHandle"(
            *mut c_void, sys::CUmemGenericAllocationHandle, c_uint, c_ulonglong
        );
        import: "cuMemImportFromShareableHandle"(
            *mut sys::CUmemGenericAllocationHandle, *mut c_void, c_uint
        );
        can_access_peer: "cuDeviceCanAccessPeer"(*mut c_int, sys::CUdevice, sys::CUdevice);
        // The second form counts edges out; the third (12.3) answers where edges carry data too.
        capture_info_v2: "cuStreamGetCaptureInfo_v2"(
            sys::CUstream, *mut c_uint, *mut sys::cuuint64_t, *mut sys::CUgraph,
            *mut *const sys::CUgraphNode, *mut usize
        );
        capture_info_v3: "cuStreamGetCaptureInfo_v3"(
            sys::CUstream, *mut c_uint, *mut sys::cuuint64_t, *mut sys::CUgraph,
            *mut *const sys::CUgraphNode, *mut *const sys::CUgraphEdgeData, *mut usize
        );
        exchange_capture_mode: "cuThreadExchangeStreamCaptureMode"(*mut c_uint);
        node_dependencies: "cuGraphNodeGetDependencies"(
            sys::CUgraphNode, *mut sys::CUgraphNode, *mut usize
        );
    }
}

impl Driver {
    /// The process's driver, found and initialised once.
    pub(super) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        let driver = DRIVER.get_or_init(|| {
            let driver = Self::load(library()?)?;
            // SAFETY: initialising the driver again does nothing; 0 is the only flag there is.
            let code = unsafe { (driver.init)(0) };
            driver.check(DeviceCall::Init, code)?;
            Ok(driver)
        });
        driver.as_ref().map_err(Clone::clone)
    }

    /// An error unless the call succeeded.
    pub(super) fn check(&self, call: DeviceCall, code: Code) -> Result<()> {
        if code == SUCCESS { Ok(()) } else { Err(self.error(call, code)) }
    }

    /// As [`check`](Self::check), for calls that ask for memory or addresses.
    pub(super) fn check_memory(&self, call: DeviceCall, size_bytes: u64, code: Code) -> Result<()> {
        match code {
            OUT_OF_MEMORY => Err(DeviceError::OutOfMemory { call, size_bytes }),
            _ => self.check(call, code),
        }
    }

    /// As [`check`](Self::check), for calls that give something back or wait: after the driver has
    /// shut down there is nothing left to give back, and nothing left to wait for.
    pub(super) fn given_back(&self, call: DeviceCall, code: Code) -> Result<()> {
        if has_shut_down(code) { Ok(()) } else { self.check(call, code) }
    }

    fn error(&self, call: DeviceCall, code: Code) -> DeviceError {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the driver writes a pointer to one of its constant strings, or null.
        let answer = unsafe { (self.error_string)(code, &raw mut text) };
        let message = if answer == SUCCESS && !text.is_null() {
            // SAFETY: a constant string of the driver, which is never unloaded.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        } else {
            "the driver does not know this error".to_owned()
        };
        DeviceError::Driver { call, code, message }
    }
}

/// Whether the driver, or the context, is gone because the process ends.
pub(super) fn has_shut_down(code: Code) -> bool {
    matches!(code, DEINITIALIZED | CONTEXT_IS_DESTROYED)
}

/// The driver that the process already has, whatever its path, so that PyTorch and we use the same
/// one; else the first that cudarc finds.
fn library() -> Result<&'static Library> {
    static LOADED: OnceLock<Option<Library>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: nothing is loaded, so no initialiser runs.
        unsafe { unix::Library::open(Some("libcuda.so.1"), flags) }.ok().map(Library::from)
    });
    if let Some(library) = loaded {
        return Ok(library);
    }
    // SAFETY: loads the system's CUDA driver, whose initialisers may run on any thread.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError::Unavailable {
            call: DeviceCall::Init,
            reason: "no CUDA driver (libcuda.so.1) was found; install NVIDIA's driver, or set \
                     VRAMTAPE_CONF=device:sim to use the simulated device"
                .to_owned(),
        });
    }
    // SAFETY: the driver is loaded already, so no initialiser runs; it is there, so cudarc does not panic.
    Ok(unsafe { sys::culib() })
}

/// Looks a function up.
///
/// # Safety
///
/// `F` must be a function pointer of the symbol's own type.
pub(super) unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    // The library is never unloaded, so the copy may outlive this borrow.
    found.ok().map(|function| *function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_the_functions_is_an_error_that_names_the_first_missing_one() {
        // SAFETY: the C library is loaded already.
        let not_a_driver = unsafe { Library::new("libc.so.6") }.unwrap();
        let error = Driver::load(&not_a_driver).unwrap_err().to_string();
        assert!(error.contains("no function cuInit"), "{error}");
    }

    #[test]
    fn a_missing_optional_function_is_an_error_only_when_it_is_used() {
        let missing: Optional<fn()> = Optional { name: "cuMemCreate", function: None };
        let error = missing.get(DeviceCall::Create).unwrap_err();
        assert!(matches!(error, DeviceError::Unavailable { call: DeviceCall::Create, .. }));
        assert!(error.to_string().contains("cuMemCreate"), "{error}");
    }
}
