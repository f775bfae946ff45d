//! Memory.

use std::ffi::c_int;

use device::HandleType;
use sim_device::SimConfig;

use crate::abi::{Answer, In, Out, Status, driver};
use crate::sharing::{self};
use crate::{copy, machine, memory, not_simulated};

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    kind: u32,
    id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AllocationProperties {
    kind: u32,
    handle_types: u32,
    location: Location,
    win32_metadata: usize,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AccessDescription {
    location: Location,
    flags: u32,
}

const _: () = assert!(size_of::<AllocationProperties>() == 32);
const _: () = assert!(size_of::<AccessDescription>() == 12);

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: u32 = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const POSIX_FD: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`: refused as on a GPU without NVLink fabric; PyTorch then asks for a file descriptor.
const FABRIC: u32 = 8;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_WRITE: u32 = 3;

/// The device that is meant; only memory of devices is simulated.
fn device_at(location: Location) -> Answer<u16> {
    if location.kind != ON_DEVICE {
        not_simulated("memory of the host or of a NUMA node in cuMem functions");
        return Err(Status::NOT_SUPPORTED);
    }
    machine::ordinal(location.id)
}

driver! {
    fn cuMemAlloc_v2(out: Out<u64>, size_bytes: usize) {
        if size_bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        memory::allocate(out, size_bytes)
    }

    fn cuMemGetAddressRange_v2(start: Out<u64>, size_bytes: Out<usize>, addr: u64) {
        let (found, found_bytes) = memory::range_of(addr)?;
        start.set_if_wanted(found.0);
        size_bytes.set_if_wanted(found_bytes as usize);
        Ok(())
    }

    /// The alignment and the address that are wished for are not: addresses come as the simulated device gives them.
    fn cuMemAddressReserve(
        out: Out<u64>, size_bytes: usize, alignment: usize, _wanted: u64, _flags: u64,
    ) {
        if alignment as u64 > SimConfig::GRANULARITY_BYTES {
            not_simulated("cuMemAddressReserve with an alignment above 2 MiB");
            return Err(Status::NOT_SUPPORTED);
        }
        memory::reserve(out, size_bytes)
    }

    fn cuMemCreate(
        out: Out<u64>, size_bytes: usize, properties: In<AllocationProperties>, _flags: u64,
    ) {
        let properties = properties.get()?;
        if properties.kind != PINNED {
            return Err(Status::INVALID_VALUE);
        }
        if properties.handle_types & FABRIC != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let shares = properties.handle_types & POSIX_FD != 0;
        let share = if shares { HandleType::PosixFd } else { HandleType::None };
        memory::create(out, size_bytes, device_at(properties.location)?, share)
    }

    fn cuMemMap(addr: u64, size_bytes: usize, offset_bytes: usize, handle: u64, _flags: u64) {
        if offset_bytes != 0 {
            return Err(Status::INVALID_VALUE);
        }
        memory::map(addr, size_bytes, handle)
    }

    fn cuMemSetAccess(
        addr: u64, size_bytes: usize, descriptions: In<AccessDescription>, count: usize,
    ) {
        for description in descriptions.list(count)? {
            if description.flags != READ_WRITE {
                not_simulated("cuMemSetAccess with other flags than reading and writing");
                return Err(Status::NOT_SUPPORTED);
            }
            memory::set_access(addr, size_bytes, device_at(description.location)?)?;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: Out<u64>, location: In<Location>, addr: u64) {
        let can_access = memory::has_access(addr, device_at(location.get()?)?)?;
        flags.set(if can_access { READ_WRITE.into() } else { 0 })
    }

    fn cuMemGetAllocationGranularity(
        out: Out<usize>, _properties: In<AllocationProperties>, _recommended: u32,
    ) {
        out.set(SimConfig::GRANULARITY_BYTES as usize)
    }

    fn cuMemGetAllocationPropertiesFromHandle(out: Out<AllocationProperties>, handle: u64) {
        let (device, share) = memory::handle_properties(handle)?;
        out.set(AllocationProperties {
            kind: PINNED,
            handle_types: if share == HandleType::PosixFd { POSIX_FD } else { 0 },
            location: Location { kind: ON_DEVICE, id: c_int::from(device) },
            win32_metadata: 0,
            flags: [0; 8],
        })
    }

    fn cuMemExportToShareableHandle(out: Out<c_int>, handle: u64, kind: u32, _flags: u64) {
        if kind != POSIX_FD {
            return Err(Status::NOT_SUPPORTED);
        }
        sharing::export(out, handle)
    }

    /// A descriptor travels as the pointer's value.
    fn cuMemImportFromShareableHandle(out: Out<u64>, descriptor: u64, kind: u32) {
        if kind != POSIX_FD {
            return Err(Status::NOT_SUPPORTED);
        }
        sharing::import(out, i32::try_from(descriptor).map_err(|_| Status::INVALID_VALUE)?)
    }

    /// Only ever device memory, which has no content: the value does not matter.
    fn cuMemsetD32Async(addr: u64, _value: u32, count: usize, stream: u64) {
        copy::fill_device_async(addr, count * 4, stream)
    }
}
