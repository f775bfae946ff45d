//! The device seam: raw memory and stream order, nothing else.
//!
//! The allocator core is generic over [`Device`]; it never knows whether a real GPU answers. Two implementations:
//! `cuda-device` (the driver API through cudarc, the only place it appears) and `sim-device` (an address space, a
//! capacity, events that complete on request, and injectable faults).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod error;

use alloc::vec::Vec;

pub use error::{DeviceCall, DeviceError, Result};
use events::{Addr, DeviceId, Stream};

/// A chunk of physical memory made by [`Device::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PhysicalHandle(pub u64);

/// An event recorded on a stream. Events come from a pool inside the device and go back with `event_release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId(pub u64);

/// A stream capture in progress (`cudaStreamGetCaptureInfo`'s id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptureId(pub u64);

/// A node of a graph being captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphNode(pub u64);

/// A thread's stream capture mode (`cudaStreamCaptureMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// Unsafe calls of any thread invalidate a capture.
    Global,
    /// Unsafe calls of this thread invalidate its captures.
    ThreadLocal,
    /// Unsafe calls are allowed.
    Relaxed,
}

/// What a capturing stream's graph looks like now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Which capture.
    pub id: CaptureId,
    /// The nodes that the stream's next operation will depend on.
    pub terminals: Vec<GraphNode>,
}

/// Memory of a device as the driver sees it, all processes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes not in use by anybody.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// What one process uses of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Its number.
    pub pid: u32,
    /// Bytes of the whole process.
    pub used_bytes: u64,
    /// Whether it is this process.
    pub is_own: bool,
}

/// How physical memory may be shared with other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandleType {
    /// Not at all.
    #[default]
    None,
    /// By a POSIX file descriptor.
    PosixFd,
    /// Over the NVLink fabric.
    Fabric,
}

/// A handle to physical memory that another process can import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareableHandle {
    /// A file descriptor, which its owner [closes](Device::close).
    PosixFd(i32),
    /// A fabric handle (`CUmemFabricHandle`).
    Fabric([u8; 64]),
}

/// Raw memory and stream order of one device.
///
/// Sizes are bytes. `reserve`, `map`, `unmap` and `set_access` take multiples of the page size that the caller uses,
/// itself a multiple of [`granularity_bytes`](Device::granularity_bytes). An out-of-memory answer is
/// [`DeviceError::OutOfMemory`]; every other failure is an error that names the call.
#[allow(clippy::missing_errors_doc, reason = "the trait says once how calls fail")]
pub trait Device: Send {
    /// Which device this is.
    fn id(&self) -> DeviceId;
    /// Free and total memory.
    fn memory_info(&mut self) -> Result<MemoryInfo>;
    /// What each process uses of the device, where that is known: for the words of an out of memory, and slow.
    fn processes(&mut self) -> Vec<ProcessMemory> {
        Vec::new()
    }
    /// Smallest unit of physical memory for `create`.
    fn granularity_bytes(&self) -> u64;

    /// `cudaMalloc`.
    fn malloc(&mut self, size_bytes: u64) -> Result<Addr>;
    /// `cudaFree`; waits for the device.
    fn free(&mut self, addr: Addr) -> Result<()>;

    /// `cuMemAddressReserve`.
    fn reserve(&mut self, size_bytes: u64) -> Result<Addr>;
    /// `cuMemAddressFree`.
    fn unreserve(&mut self, addr: Addr, size_bytes: u64) -> Result<()>;
    /// `cuMemCreate`.
    fn create(&mut self, size_bytes: u64, share: HandleType) -> Result<PhysicalHandle>;
    /// `cuMemRelease`.
    fn release(&mut self, handle: PhysicalHandle) -> Result<()>;
    /// `cuMemMap` of the whole handle at `addr`.
    fn map(&mut self, addr: Addr, size_bytes: u64, handle: PhysicalHandle) -> Result<()>;
    /// `cuMemUnmap` of a range that was mapped whole.
    fn unmap(&mut self, addr: Addr, size_bytes: u64) -> Result<()>;
    /// `cuMemSetAccess`: reading and writing for `peer` (or this device itself).
    fn set_access(&mut self, addr: Addr, size_bytes: u64, peer: DeviceId) -> Result<()>;
    /// `cuMemExportToShareableHandle`; the handle is the caller's to close.
    fn export(&mut self, handle: PhysicalHandle, share: HandleType) -> Result<ShareableHandle>;
    /// `cuMemImportFromShareableHandle`; the handle stays the caller's.
    fn import(&mut self, handle: ShareableHandle) -> Result<PhysicalHandle>;
    /// Gives back a handle that `export` made. What was imported from it stays.
    fn close(&mut self, handle: ShareableHandle);
    /// Whether this device can reach `peer`'s memory.
    fn can_access_peer(&mut self, peer: DeviceId) -> Result<bool>;

    /// Records an event (timing off) on `stream`.
    fn event_record(&mut self, stream: Stream) -> Result<EventId>;
    /// Whether everything before the event is done. Illegal while a stream of this thread captures.
    fn event_query(&mut self, event: EventId) -> Result<bool>;
    /// Waits for the event.
    fn event_synchronize(&mut self, event: EventId) -> Result<()>;
    /// Gives the event back to the device's pool.
    fn event_release(&mut self, event: EventId);
    /// Waits for all work of a stream.
    fn stream_synchronize(&mut self, stream: Stream) -> Result<()>;
    /// Waits for all work of the device.
    fn device_synchronize(&mut self) -> Result<()>;

    /// The capture that `stream` takes part in, if any.
    fn capture(&mut self, stream: Stream) -> Result<Option<Capture>>;
    /// The nodes that `node` depends on.
    fn dependencies(&mut self, node: GraphNode) -> Result<Vec<GraphNode>>;
    /// Sets the thread's capture mode and returns the one before (`cudaThreadExchangeStreamCaptureMode`).
    fn exchange_capture_mode(&mut self, mode: CaptureMode) -> Result<CaptureMode>;
}
