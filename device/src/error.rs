//! What a device can answer instead of memory.

use alloc::string::String;

use core::fmt;

/// The call that failed, by the driver's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceCall {
    /// Loading the driver and making its context current.
    Init,
    /// `cuMemGetInfo`.
    MemoryInfo,
    /// `cuMemAlloc`.
    Malloc,
    /// `cuMemFree`.
    Free,
    /// `cuMemAddressReserve`.
    Reserve,
    /// `cuMemAddressFree`.
    Unreserve,
    /// `cuMemCreate`.
    Create,
    /// `cuMemRelease`.
    Release,
    /// `cuMemMap`.
    Map,
    /// `cuMemUnmap`.
    Unmap,
    /// `cuMemSetAccess`.
    SetAccess,
    /// `cuMemExportToShareableHandle`.
    Export,
    /// `cuMemImportFromShareableHandle`.
    Import,
    /// `cuDeviceCanAccessPeer`.
    CanAccessPeer,
    /// `cuEventCreate` and `cuEventRecord`.
    EventRecord,
    /// `cuEventQuery`.
    EventQuery,
    /// `cuEventSynchronize`.
    EventSynchronize,
    /// `cuStreamSynchronize`.
    StreamSynchronize,
    /// `cuCtxSynchronize`.
    DeviceSynchronize,
    /// `cuStreamGetCaptureInfo`.
    Capture,
    /// `cuGraphNodeGetDependencies`.
    Dependencies,
    /// `cuThreadExchangeStreamCaptureMode`.
    ExchangeCaptureMode,
}

/// The answer of a device; of something else where the error is named.
pub type Result<T, E = DeviceError> = core::result::Result<T, E>;

/// A device's refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is not that much memory (or address space) left.
    #[error("{call} of {size_bytes} bytes: out of memory")]
    OutOfMemory {
        /// The call that was refused.
        call: DeviceCall,
        /// The bytes it asked for.
        size_bytes: u64,
    },
    /// The driver failed in another way.
    #[error("{call} failed: {message} (driver error {code})")]
    Driver {
        /// The call that failed.
        call: DeviceCall,
        /// The driver's code (`CUresult`).
        code: u32,
        /// The driver's own words.
        message: String,
    },
    /// The driver lacks something this call needs.
    #[error("{call} is not available: {reason}")]
    Unavailable {
        /// The call that cannot be made.
        call: DeviceCall,
        /// What is missing and what to do.
        reason: String,
    },
}

impl fmt::Display for DeviceCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "driver initialisation",
            Self::MemoryInfo => "cuMemGetInfo",
            Self::Malloc => "cuMemAlloc",
            Self::Free => "cuMemFree",
            Self::Reserve => "cuMemAddressReserve",
            Self::Unreserve => "cuMemAddressFree",
            Self::Create => "cuMemCreate",
            Self::Release => "cuMemRelease",
            Self::Map => "cuMemMap",
            Self::Unmap => "cuMemUnmap",
            Self::SetAccess => "cuMemSetAccess",
            Self::Export => "cuMemExportToShareableHandle",
            Self::Import => "cuMemImportFromShareableHandle",
            Self::CanAccessPeer => "cuDeviceCanAccessPeer",
            Self::EventRecord => "cuEventRecord",
            Self::EventQuery => "cuEventQuery",
            Self::EventSynchronize => "cuEventSynchronize",
            Self::StreamSynchronize => "cuStreamSynchronize",
            Self::DeviceSynchronize => "cuCtxSynchronize",
            Self::Capture => "cuStreamGetCaptureInfo",
            Self::Dependencies => "cuGraphNodeGetDependencies",
            Self::ExchangeCaptureMode => "cuThreadExchangeStreamCaptureMode",
        })
    }
}
