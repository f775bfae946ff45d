//! Memory: `cuMemAlloc`, and addresses apart from the physical memory behind them.

use cudarc::driver::sys;
use events::{Addr, DeviceId};

use super::CudaDevice;
use super::context::device_handle;
use super::share::handle_type;
use device::{DeviceCall, HandleType, MemoryInfo, PhysicalHandle, Result};

/// The page of drivers that cannot say (those without virtual memory management).
const USUAL_PAGE_BYTES: u64 = 2 << 20;

impl CudaDevice {
    pub(super) fn free_and_total(&self) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written before they are read.
        let code = self.in_context(|d| unsafe { (d.memory_info)(&raw mut free, &raw mut total) });
        self.driver.check(DeviceCall::MemoryInfo, code)?;
        Ok(MemoryInfo { free_bytes: free as u64, total_bytes: total as u64 })
    }

    pub(super) fn allocate(&self, size_bytes: u64) -> Result<Addr> {
        let mut addr = 0;
        // SAFETY: the driver writes the address of memory that is ours from here on.
        let code = self.in_context(|d| unsafe { (d.malloc)(&raw mut addr, size_bytes as usize) });
        self.driver.check_memory(DeviceCall::Malloc, size_bytes, code)?;
        Ok(Addr(addr))
    }

    pub(super) fn deallocate(&self, addr: Addr) -> Result<()> {
        // SAFETY: the heap gives back what `allocate` gave it, once; the driver refuses other
        // addresses.
        let code = self.in_context(|d| unsafe { (d.free)(addr.0) });
        self.driver.given_back(DeviceCall::Free, code)
    }

    pub(super) fn smallest_page_bytes(&self) -> Result<u64> {
        const SMALLEST: u32 =
            sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM as u32;
        if !self.driver.granularity.is_present() {
            return Ok(USUAL_PAGE_BYTES);
        }
        let granularity = self.driver.granularity.get(DeviceCall::Init)?;
        let properties = self.properties(HandleType::None);
        let mut bytes = 0;
        let code = self.in_context(|_| {
            // SAFETY: the properties are whole and outlive the call; the answer is written before
            // it is read.
            unsafe { granularity(&raw mut bytes, &raw const properties, SMALLEST) }
        });
        self.driver.check(DeviceCall::Init, code)?;
        Ok(bytes as u64)
    }

    pub(super) fn reserve_range(&self, size_bytes: u64) -> Result<Addr> {
        let reserve = self.driver.reserve.get(DeviceCall::Reserve)?;
        let mut addr = 0;
        let code = self.in_context(|_| {
            // SAFETY: any alignment and any place will do; the address is written before it is
            // read.
            unsafe { reserve(&raw mut addr, size_bytes as usize, 0, 0, 0) }
        });
        self.driver.check_memory(DeviceCall::Reserve, size_bytes, code)?;
        Ok(Addr(addr))
    }

    pub(super) fn unreserve_range(&self, addr: Addr, size_bytes: u64) -> Result<()> {
        let unreserve = self.driver.unreserve.get(DeviceCall::Unreserve)?;
        // SAFETY: the driver refuses a range that is not reserved as a whole, or that is still
        // mapped.
        let code = self.in_context(|_| unsafe { unreserve(addr.0, size_bytes as usize) });
        self.driver.given_back(DeviceCall::Unreserve, code)
    }

    pub(super) fn create_pages(
        &self,
        size_bytes: u64,
        share: HandleType,
    ) -> Result<PhysicalHandle> {
        let create = self.driver.create.get(DeviceCall::Create)?;
        let properties = self.properties(share);
        let mut handle = 0;
        let code = self.in_context(|_| {
            // SAFETY: the properties are whole and outlive the call; the handle is written before
            // it is read.
            unsafe { create(&raw mut handle, size_bytes as usize, &raw const properties, 0) }
        });
        self.driver.check_memory(DeviceCall::Create, size_bytes, code)?;
        Ok(PhysicalHandle(handle))
    }

    pub(super) fn release_pages(&self, handle: PhysicalHandle) -> Result<()> {
        let release = self.driver.release.get(DeviceCall::Release)?;
        // SAFETY: the driver refuses a handle that it did not give out; mapped memory lives on
        // until it is unmapped.
        let code = self.in_context(|_| unsafe { release(handle.0) });
        self.driver.given_back(DeviceCall::Release, code)
    }

    pub(super) fn map_pages(
        &self,
        addr: Addr,
        size_bytes: u64,
        handle: PhysicalHandle,
    ) -> Result<()> {
        let map = self.driver.map.get(DeviceCall::Map)?;
        // SAFETY: the driver refuses a range that is not reserved or already mapped, and a handle
        // of another size.
        let code = self.in_context(|_| unsafe { map(addr.0, size_bytes as usize, 0, handle.0, 0) });
        self.driver.check_memory(DeviceCall::Map, size_bytes, code)
    }

    pub(super) fn unmap_pages(&self, addr: Addr, size_bytes: u64) -> Result<()> {
        let unmap = self.driver.unmap.get(DeviceCall::Unmap)?;
        // SAFETY: the heap has waited for the stream that used the range; the driver refuses one
        // that is not mapped.
        let code = self.in_context(|_| unsafe { unmap(addr.0, size_bytes as usize) });
        self.driver.given_back(DeviceCall::Unmap, code)
    }

    pub(super) fn allow_access(&self, addr: Addr, size_bytes: u64, peer: DeviceId) -> Result<()> {
        let set_access = self.driver.set_access.get(DeviceCall::SetAccess)?;
        let access = sys::CUmemAccessDesc {
            location: device_location(device_handle(self.driver, peer)?),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let code = self.in_context(|_| {
            // SAFETY: one whole description, which outlives the call.
            unsafe { set_access(addr.0, size_bytes as usize, &raw const access, 1) }
        });
        self.driver.check_memory(DeviceCall::SetAccess, size_bytes, code)
    }

    /// Pinned memory of this device.
    fn properties(&self, share: HandleType) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: handle_type(share),
            location: device_location(self.context.device),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: u8::from(self.rdma_capable),
                usage: 0,
                reserved: [0; 4],
            },
        }
    }
}

fn device_location(device: sys::CUdevice) -> sys::CUmemLocation {
    let type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    sys::CUmemLocation { type_, id: device }
}
