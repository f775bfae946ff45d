//! Who uses a GPU's memory, as NVML says: for the sentence about that in PyTorch's out of memory
//! (`reportProcessMemoryInfo`).
//!
//! The library is loaded by the first out of memory. Where it is not there, or does not answer,
//! nothing is said.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::driver::symbol;
use device::ProcessMemory;

/// An answer (`nvmlReturn_t`).
type Code = c_uint;

const SUCCESS: Code = 0;
const INSUFFICIENT_SIZE: Code = 7;

/// Processes start and end between two queries.
const ATTEMPTS: u32 = 4;

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    pid: c_uint,
    used_bytes: u64,
}

/// `nvmlDevice_t`.
type Device = *mut c_void;

/// The functions of the machine's NVML, initialised.
#[derive(Debug)]
struct Nvml {
    by_pci: unsafe extern "C" fn(*const c_char, *mut Device) -> Code,
    running: unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> Code,
    /// Keeps the functions where they are.
    _library: Library,
}

impl Nvml {
    fn get() -> Option<&'static Self> {
        static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
        NVML.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        // SAFETY: loads the system's NVML, whose initialisers may run on any thread.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: the type is the symbol's in nvml.h, with the enum it answers as an integer.
        let init = unsafe { symbol::<unsafe extern "C" fn() -> Code>(&library, "nvmlInit_v2") }?;
        // SAFETY: the field has the symbol's type in nvml.h, with the enum it answers as an integer.
        let by_pci = unsafe { symbol(&library, "nvmlDeviceGetHandleByPciBusId_v2") }?;
        // SAFETY: this field too has the symbol's type in nvml.h, with the enum it answers as an integer.
        let running = unsafe { symbol(&library, "nvmlDeviceGetComputeRunningProcesses") }?;
        // SAFETY: NVML counts how often it is initialised; it stays so until the process ends.
        let code = unsafe { init() };
        (code == SUCCESS).then_some(Self { by_pci, running, _library: library })
    }

    fn processes(&self, pci: &str) -> Option<Vec<Process>> {
        let pci = CString::new(pci).ok()?;
        let mut device = ptr::null_mut();
        // SAFETY: the text ends with a zero and outlives the call; the handle is written.
        let code = unsafe { (self.by_pci)(pci.as_ptr(), &raw mut device) };
        if code != SUCCESS {
            return None;
        }
        let mut processes = vec![Process::default(); 8];
        for _ in 0..ATTEMPTS {
            let mut count = processes.len() as c_uint;
            let (room, list) = (&raw mut count, processes.as_mut_ptr());
            // SAFETY: NVML writes no more processes than there is room for, and how many there are.
            let code = unsafe { (self.running)(device, room, list) };
            match code {
                SUCCESS => {
                    processes.truncate(count as usize);
                    return Some(processes);
                }
                INSUFFICIENT_SIZE => processes.resize(count as usize, Process::default()),
                _ => return None,
            }
        }
        None
    }
}

/// Memory of each process on the GPU with this PCI address, in NVML's order; empty where that is unknown.
pub(super) fn processes(domain: i32, bus: i32, device: i32) -> Vec<ProcessMemory> {
    let pci = format!("{domain:08X}:{bus:02X}:{device:02X}.0");
    let found = Nvml::get().and_then(|nvml| nvml.processes(&pci)).unwrap_or_default();
    let own = std::process::id();
    found
        .into_iter()
        .map(|Process { pid, used_bytes }| ProcessMemory { pid, used_bytes, is_own: pid == own })
        .collect()
}
