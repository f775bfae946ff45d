//! The primary context, and making it current.

use std::ffi::{CStr, c_int};
use std::ptr;

use cudarc::driver::sys;
use events::DeviceId;

use super::CudaDevice;
use super::driver::{Code, Driver, SUCCESS};
use device::{DeviceCall, Result};

/// A device and its primary context, retained for the life of the process.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: sys::CUdevice,
    handle: sys::CUcontext,
}

// SAFETY: the handle names an object of the driver, which any thread may use.
unsafe impl Send for Context {}

impl Context {
    pub(super) fn retain(driver: &Driver, id: DeviceId) -> Result<Self> {
        let device = device_handle(driver, id)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the device is one that the driver named; the handle is written before it is read.
        let code = unsafe { (driver.primary_retain)(&raw mut handle, device) };
        driver.check(DeviceCall::Init, code)?;
        Ok(Self { device, handle })
    }

    /// The device's product name; empty where the driver does not say.
    pub(super) fn device_name(&self, driver: &Driver) -> String {
        let mut name = [0; 256];
        let Ok(device_name) = driver.device_name.get(DeviceCall::Init) else {
            return String::new();
        };
        // SAFETY: the driver writes at most 256 bytes, the closing zero included.
        let code = unsafe { device_name(name.as_mut_ptr().cast(), 256, self.device) };
        match CStr::from_bytes_until_nul(&name) {
            Ok(name) if code == SUCCESS => name.to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }

    /// The UUID of the GPU; `None` where the driver does not say.
    pub(super) fn device_uuid(&self, driver: &Driver) -> Option<[u8; 16]> {
        let device_uuid = driver.device_uuid.get(DeviceCall::Init).ok()?;
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: the driver writes the 16 bytes; the device is one that it named.
        let code = unsafe { device_uuid(&raw mut uuid, self.device) };
        (code == SUCCESS).then(|| uuid.bytes.map(|byte| byte as u8))
    }

    /// Whether the network card may reach physical memory that `cuMemCreate` makes, if it is asked
    /// to allow that.
    pub(super) fn is_rdma_capable(&self, driver: &Driver) -> bool {
        const ATTRIBUTE: sys::CUdevice_attribute =
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        self.attribute(driver, ATTRIBUTE).is_some_and(|answer| answer != 0)
    }

    /// Where the GPU is on its buses: domain, bus, device.
    pub(super) fn pci_address(&self, driver: &Driver) -> (c_int, c_int, c_int) {
        use sys::CUdevice_attribute as Attribute;
        let ask = |attribute| self.attribute(driver, attribute).unwrap_or(0);
        (
            ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
            ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
            ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
        )
    }

    fn attribute(&self, driver: &Driver, attribute: sys::CUdevice_attribute) -> Option<c_int> {
        let mut answer: c_int = 0;
        // SAFETY: the answer is an integer; the device is one that the driver named.
        let code =
            unsafe { (driver.device_attribute)(&raw mut answer, attribute as u32, self.device) };
        driver.check(DeviceCall::Init, code).is_ok().then_some(answer)
    }
}

/// The driver's handle of the device with this ordinal.
pub(super) fn device_handle(driver: &Driver, id: DeviceId) -> Result<sys::CUdevice> {
    let mut device = 0;
    // SAFETY: the driver checks the ordinal, and writes the handle where it is valid.
    let code = unsafe { (driver.device_get)(&raw mut device, c_int::from(id.0)) };
    driver.check(DeviceCall::Init, code)?;
    Ok(device)
}

impl CudaDevice {
    /// Makes a call with this device's context current, and answers its code, or the code with
    /// which the context could not be made current. What was current before is put back.
    pub(super) fn in_context(&self, call: impl FnOnce(&Driver) -> Code) -> Code {
        let mut before = ptr::null_mut();
        // SAFETY: the driver writes the thread's current context, or null.
        let code = unsafe { (self.driver.context_get)(&raw mut before) };
        if code != SUCCESS {
            return code;
        }
        if before == self.context.handle {
            return call(self.driver);
        }
        // SAFETY: the primary context is retained for the life of the process.
        let code = unsafe { (self.driver.context_set)(self.context.handle) };
        if code != SUCCESS {
            return code;
        }
        let answer = call(self.driver);
        // SAFETY: it was current on this thread a moment ago, and null means none.
        let restored = unsafe { (self.driver.context_set)(before) };
        if answer == SUCCESS { restored } else { answer }
    }
}
