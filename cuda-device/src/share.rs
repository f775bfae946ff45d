//! Sharing: handles for other processes, and other devices' reach.

use std::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use cudarc::driver::sys::{self, CUmemAllocationHandleType};
use events::DeviceId;

use super::CudaDevice;
use super::context::device_handle;
use device::{DeviceCall, DeviceError, HandleType, PhysicalHandle, Result, ShareableHandle};

/// The driver's name of a way to share.
pub(super) fn handle_type(share: HandleType) -> CUmemAllocationHandleType {
    match share {
        HandleType::None => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        HandleType::PosixFd => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        HandleType::Fabric => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC,
    }
}

/// Gives back an exported handle. A fabric handle is a plain number and holds nothing.
pub(super) fn close(handle: ShareableHandle) {
    if let ShareableHandle::PosixFd(descriptor) = handle {
        // SAFETY: the driver gave this descriptor to the caller of `export`, who closes it once.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}

impl CudaDevice {
    pub(super) fn export_pages(
        &self,
        handle: PhysicalHandle,
        share: HandleType,
    ) -> Result<ShareableHandle> {
        match share {
            HandleType::None => Err(DeviceError::Unavailable {
                call: DeviceCall::Export,
                reason: "memory that is not shared has no handle; ask for a file descriptor or a \
                         fabric handle"
                    .to_owned(),
            }),
            HandleType::PosixFd => {
                let mut descriptor: c_int = -1;
                self.export_to(handle, share, (&raw mut descriptor).cast())?;
                Ok(ShareableHandle::PosixFd(descriptor))
            }
            HandleType::Fabric => {
                let mut bytes = [0; 64];
                self.export_to(handle, share, (&raw mut bytes).cast())?;
                Ok(ShareableHandle::Fabric(bytes))
            }
        }
    }

    /// Writes the handle to `out`, which has room for one of this kind.
    fn export_to(&self, handle: PhysicalHandle, share: HandleType, out: *mut c_void) -> Result<()> {
        let export = self.driver.export.get(DeviceCall::Export)?;
        let kind = handle_type(share).0;
        // SAFETY: the driver writes a handle of this kind, for which both callers have room.
        let code = self.in_context(|_| unsafe { export(out, handle.0, kind, 0) });
        self.driver.check(DeviceCall::Export, code)
    }

    pub(super) fn import_pages(&self, handle: ShareableHandle) -> Result<PhysicalHandle> {
        match handle {
            // A descriptor travels as the pointer's value.
            ShareableHandle::PosixFd(descriptor) => self
                .import_from(HandleType::PosixFd, ptr::without_provenance_mut(descriptor as usize)),
            ShareableHandle::Fabric(mut bytes) => {
                self.import_from(HandleType::Fabric, (&raw mut bytes).cast())
            }
        }
    }

    /// Imports from `source`, which is what this kind of handle asks for.
    fn import_from(&self, share: HandleType, source: *mut c_void) -> Result<PhysicalHandle> {
        let import = self.driver.import.get(DeviceCall::Import)?;
        let kind = handle_type(share).0;
        let mut imported = 0;
        // SAFETY: both callers give a source of this kind that outlives the call.
        let code = self.in_context(|_| unsafe { import(&raw mut imported, source, kind) });
        self.driver.check(DeviceCall::Import, code)?;
        Ok(PhysicalHandle(imported))
    }

    pub(super) fn reaches_peer(&self, peer: DeviceId) -> Result<bool> {
        let can_access_peer = self.driver.can_access_peer.get(DeviceCall::CanAccessPeer)?;
        let other: sys::CUdevice = device_handle(self.driver, peer)?;
        let mut answer: c_int = 0;
        // SAFETY: both devices are ones that the driver named; the answer is an integer.
        let code = unsafe { can_access_peer(&raw mut answer, self.context.device, other) };
        self.driver.check(DeviceCall::CanAccessPeer, code)?;
        Ok(answer != 0)
    }
}
