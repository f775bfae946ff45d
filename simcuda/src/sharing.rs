//! Memory and events of one process in another: CUDA IPC, and handles of physical memory as file descriptors.
//!
//! Device memory has no content, so what is shared is that it is there: its device, its size, and that it goes when
//! its owner frees it or ends. It is charged to the process that allocated it. Events need less: all work is done when
//! it is enqueued, so an event of another process is done.

use device::{Device, HandleType, PhysicalHandle, ShareableHandle};
use events::Addr;
use rustc_hash::FxHashMap;

use crate::abi::{Answer, Out, Status};
use crate::machine::{self, Machine};
use crate::shared_file::{Kind, SharedFile};
use crate::{event, memory};

/// `CUipcMemHandle` and `CUipcEventHandle`: 64 bytes that a program may send where it likes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    magic: [u8; 8],
    pid: u32,
    descriptor: i32,
    inode: u64,
    rest: [u8; 40],
}

const _: () = assert!(size_of::<Handle>() == 64);

const MAGIC: [u8; 8] = *b"simcuda\0";

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag there is.
const LAZY_PEER_ACCESS: u32 = 1;

/// The objects that this process shares, and those of others that it has open.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// By where the allocation starts.
    allocations: FxHashMap<u64, SharedFile>,
    /// By the event's handle.
    events: FxHashMap<u64, SharedFile>,
    /// By the handle's device and number there.
    physical: FxHashMap<(u16, PhysicalHandle), SharedFile>,
    /// By the address at which it is open.
    opened: FxHashMap<u64, Opened>,
}

/// An allocation of another process.
#[derive(Debug)]
struct Opened {
    /// Keeps the inode number from being given to another.
    file: SharedFile,
    handle: PhysicalHandle,
    size_bytes: u64,
    /// A process opens an allocation once; then it counts.
    times: u32,
}

impl Handle {
    fn of(file: &SharedFile) -> Self {
        let (pid, descriptor) = (std::process::id(), file.number());
        Self { magic: MAGIC, pid, descriptor, inode: file.says.inode, rest: [0; 40] }
    }

    /// The file of another process that this names. `gone` is the driver's answer where its owner has freed it or has
    /// ended; a process cannot open what is its own.
    fn open(&self, kind: Kind, gone: Status) -> Answer<SharedFile> {
        if self.magic != MAGIC {
            return Err(gone);
        }
        if self.pid == std::process::id() {
            return Err(Status::INVALID_CONTEXT);
        }
        let file = SharedFile::open(&SharedFile::path_of(self.pid, self.descriptor));
        file.filter(|file| file.says.kind == kind && file.says.inode == self.inode).ok_or(gone)
    }
}

/// Closes the files of memory and events that are no more.
impl Machine {
    pub(crate) fn unshare_allocation(&mut self, addr: u64) {
        self.sharing.allocations.remove(&addr);
    }

    pub(crate) fn unshare_event(&mut self, handle: u64) {
        self.sharing.events.remove(&handle);
    }

    pub(crate) fn unshare_dead_memory(&mut self) {
        let devices = &self.devices;
        let is_alive = |device: u16, handle| {
            devices.get(usize::from(device)).is_some_and(|device| device.is_alive(handle))
        };
        self.sharing.physical.retain(|&(device, handle), _| is_alive(device, handle));
    }
}

/// `cuIpcGetMemHandle`: of an allocation's start, as its documentation asks for. Mapped memory has no such handle.
pub(crate) fn get_memory(out: Out<Handle>, addr: u64) -> Answer {
    let handle = machine::with(|machine| {
        let device = machine.owner(addr)?;
        let size_bytes = device.allocation_bytes(Addr(addr)).ok_or(Status::INVALID_VALUE)?;
        let device = device.id().0;
        if let Some(file) = machine.sharing.allocations.get(&addr) {
            return Ok(Handle::of(file));
        }
        let file = SharedFile::new(Kind::Allocation, machine::physical(device)?, size_bytes)?;
        let handle = Handle::of(&file);
        machine.sharing.allocations.insert(addr, file);
        Ok(handle)
    })?;
    out.set(handle)
}

/// `cuIpcOpenMemHandle`.
pub(crate) fn open_memory(out: Out<u64>, handle: Handle, flags: u32) -> Answer {
    out.wanted()?;
    if flags != LAZY_PEER_ACCESS {
        return Err(Status::INVALID_VALUE);
    }
    machine::bind()?;
    let file = handle.open(Kind::Allocation, Status::INVALID_VALUE)?;
    let addr = machine::with(|machine| machine.attach(file))?;
    out.set(addr)
}

/// `cuIpcCloseMemHandle`.
pub(crate) fn close_memory(addr: u64) -> Answer {
    machine::with(|machine| machine.detach(addr))
}

impl Machine {
    /// Addresses for another process's allocation: those it has already, or new ones.
    fn attach(&mut self, file: SharedFile) -> Answer<u64> {
        let mut all = self.sharing.opened.iter_mut();
        if let Some((&addr, opened)) = all.find(|(_, it)| it.file.says.inode == file.says.inode) {
            opened.times += 1;
            return Ok(addr);
        }
        let device = self.device(machine::visible(file.says.device)?)?;
        let size_bytes = file.says.size_bytes;
        let addr = device.reserve(size_bytes)?;
        let handle = device.adopt(size_bytes)?;
        device.map(addr, size_bytes, handle)?;
        device.set_access(addr, size_bytes, device.id())?;
        let opened = Opened { file, handle, size_bytes, times: 1 };
        self.sharing.opened.insert(addr.0, opened);
        Ok(addr.0)
    }

    fn detach(&mut self, addr: u64) -> Answer {
        let opened = self.sharing.opened.get_mut(&addr).ok_or(Status::INVALID_VALUE)?;
        opened.times -= 1;
        if opened.times > 0 {
            return Ok(());
        }
        let (handle, size_bytes) = (opened.handle, opened.size_bytes);
        let device = self.owner(addr)?;
        device.unmap(Addr(addr), size_bytes)?;
        device.release(handle)?;
        device.unreserve(Addr(addr), size_bytes)?;
        self.sharing.opened.remove(&addr);
        Ok(())
    }
}

/// `cuMemExportToShareableHandle` as a file descriptor, which is the caller's to close.
pub(crate) fn export(out: Out<i32>, handle: u64) -> Answer {
    out.wanted()?;
    let (device, handle) = memory::split(handle);
    let descriptor = machine::with(|machine| {
        let owner = machine.device(device)?;
        // As the driver says it of memory that was made for no handle.
        owner.export(handle, HandleType::PosixFd).map_err(|_| Status::INVALID_VALUE)?;
        let size_bytes = owner.handle_bytes(handle).ok_or(Status::INVALID_VALUE)?;
        if let Some(file) = machine.sharing.physical.get(&(device, handle)) {
            return file.descriptor();
        }
        let file = SharedFile::new(Kind::Physical, machine::physical(device)?, size_bytes)?;
        let descriptor = file.descriptor()?;
        machine.sharing.physical.insert((device, handle), file);
        Ok(descriptor)
    })?;
    out.set(descriptor)
}

/// `cuMemImportFromShareableHandle` of a file descriptor, which stays the caller's.
pub(crate) fn import(out: Out<u64>, descriptor: i32) -> Answer {
    out.wanted()?;
    let path = format!("/proc/self/fd/{descriptor}");
    let file = SharedFile::open(&path).filter(|file| file.says.kind == Kind::Physical);
    let says = file.ok_or(Status::INVALID_VALUE)?.says;
    let handle = machine::with(|machine| {
        let mut ours = machine.sharing.physical.iter();
        if let Some((&(device, handle), _)) = ours.find(|(_, it)| it.says.inode == says.inode) {
            // The device's own name for what it exported is the handle's number.
            let name = ShareableHandle::PosixFd(handle.0 as i32);
            return Ok(memory::join(device, machine.device(device)?.import(name)?));
        }
        let device = machine::visible(says.device)?;
        Ok(memory::join(device, machine.device(device)?.adopt(says.size_bytes)?))
    })?;
    out.set(handle)
}

/// `cuIpcGetEventHandle`: of an event that was made for other processes.
pub(crate) fn get_event(out: Out<Handle>, event: u64) -> Answer {
    out.wanted()?;
    let device = machine::current_device();
    let handle = machine::with(|machine| {
        if !machine.events.is_for_processes(event) {
            return Err(Status::INVALID_HANDLE);
        }
        if let Some(file) = machine.sharing.events.get(&event) {
            return Ok(Handle::of(file));
        }
        let file = SharedFile::new(Kind::Event, machine::physical(device)?, 0)?;
        let handle = Handle::of(&file);
        machine.sharing.events.insert(event, file);
        Ok(handle)
    })?;
    out.set(handle)
}

/// `cuIpcOpenEventHandle`.
pub(crate) fn open_event(out: Out<u64>, handle: Handle) -> Answer {
    out.wanted()?;
    handle.open(Kind::Event, Status::INVALID_HANDLE)?;
    event::create(out, event::DISABLE_TIMING)
}
