//! The one simulated machine of this process: its devices, and the handles that CUDA programs hold.

use std::cell::{Cell, RefCell};
use std::env;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use device::{Device, HandleType};
use events::{Addr, DeviceId};
use rustc_hash::FxHashSet;
use sim_device::{EventPolicy, SimConfig, SimDevice};

use crate::abi::{Answer, Status};
use crate::address_range::AddressRange;
use crate::event::Events;
use crate::graph::Graphs;
use crate::host::HostMemory;
use crate::limit::{self, Limits};
use crate::settings::{Neighbour, Settings};
use crate::sharing::Sharing;
use crate::stream::Streams;
use crate::visible;

/// Devices and handles, behind one lock.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) devices: Vec<SimDevice>,
    pub(crate) streams: Streams,
    pub(crate) events: Events,
    pub(crate) graphs: Graphs,
    pub(crate) host: HostMemory,
    pub(crate) sharing: Sharing,
    /// Pairs (device, peer) with access enabled.
    pub(crate) peers: FxHashSet<(u16, u16)>,
    /// The limits of each device's context.
    pub(crate) limits: Vec<Limits>,
}

/// State that never changes after the start, readable without the lock.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) settings: Settings,
    /// The machine's numbers of the devices that this process sees, in its order.
    visible: Vec<u16>,
    pub(crate) addresses: AddressRange,
    machine: Mutex<Machine>,
}

static MACHINE: OnceLock<Option<Fixed>> = OnceLock::new();
/// Captures in progress on all devices: lets launches skip the lock when there are none.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);
/// Bit per device: whether its primary context is active.
static ACTIVE: AtomicU32 = AtomicU32::new(0);
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x10_0000);

thread_local! {
    /// The thread's device; `None` until it chooses one, which means device 0 without a current context.
    static CURRENT: Cell<Option<u16>> = const { Cell::new(None) };
    /// The devices below the current one (`cuCtxPushCurrent`).
    static BELOW: RefCell<Vec<Option<u16>>> = const { RefCell::new(Vec::new()) };
}

/// The machine, started on first use. Wrong settings are said once on stderr; every call then fails.
pub(crate) fn fixed() -> Answer<&'static Fixed> {
    let started = MACHINE.get_or_init(|| match start() {
        Ok(fixed) => Some(fixed),
        Err(message) => {
            eprintln!("simcuda: {message}");
            None
        }
    });
    started.as_ref().ok_or(Status::NOT_INITIALIZED)
}

fn start() -> Result<Fixed, String> {
    let settings = Settings::from_env()?;
    let addresses = AddressRange::reserve()?;
    let variable = env::var("CUDA_VISIBLE_DEVICES").ok();
    let visible = visible::visible(variable.as_deref(), settings.devices);
    let count = visible.len() as u16;
    let device = |ordinal: u16| -> Result<SimDevice, String> {
        let others = (0..count).filter(|&other| other != ordinal);
        let (base, length_bytes) = addresses.share(ordinal, count);
        let mut device = SimDevice::new(SimConfig {
            device: DeviceId(ordinal),
            base: Addr(base),
            length_bytes,
            events: EventPolicy::AfterQueries(settings.event_lag),
            peers: others.map(DeviceId).collect(),
            ..SimConfig::with_capacity(settings.memory_bytes)
        });
        if let Some(Neighbour { used_bytes, .. }) = settings.neighbour {
            // Memory without addresses, and never given back.
            device.create(used_bytes, HandleType::None).map_err(|error| error.to_string())?;
        }
        Ok(device)
    };
    let machine = Machine {
        devices: (0..count).map(device).collect::<Result<_, _>>()?,
        streams: Streams::default(),
        events: Events::default(),
        graphs: Graphs::default(),
        host: HostMemory::default(),
        sharing: Sharing::default(),
        peers: FxHashSet::default(),
        limits: vec![limit::DEFAULTS; usize::from(count)],
    };
    Ok(Fixed { settings, visible, addresses, machine: Mutex::new(machine) })
}

/// Runs `work` on the machine.
pub(crate) fn with<T>(work: impl FnOnce(&mut Machine) -> Answer<T>) -> Answer<T> {
    // After a panic the state is still the simulated driver's: each of its calls changes it only when it succeeds.
    let mut machine = fixed()?.machine.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut machine)
}

/// Runs `work` on the thread's current device.
pub(crate) fn with_current<T>(work: impl FnOnce(&mut SimDevice) -> Answer<T>) -> Answer<T> {
    bind()?;
    with(|machine| work(machine.device(current_device())?))
}

/// Makes device 0's context current for a thread that has none yet, as memory calls and launches do in CUDA.
pub(crate) fn bind() -> Answer {
    if chosen_device().is_some() { Ok(()) } else { choose_device(Some(0)) }
}

/// The thread's device.
pub(crate) fn current_device() -> u16 {
    chosen_device().unwrap_or(0)
}

/// The thread's device, if it chose one.
pub(crate) fn chosen_device() -> Option<u16> {
    CURRENT.try_with(Cell::get).unwrap_or(None)
}

/// Makes `device` the thread's device.
pub(crate) fn choose_device(device: Option<u16>) -> Answer {
    if let Some(device) = device {
        if device >= device_count()? {
            return Err(Status::INVALID_DEVICE);
        }
        activate(device)?;
    }
    // A thread that is ending has no current device any more.
    let _ = CURRENT.try_with(|current| current.set(device));
    Ok(())
}

/// Keeps `device` to come back to.
pub(crate) fn push_device(device: Option<u16>) {
    let _ = BELOW.try_with(|below| below.borrow_mut().push(device));
}

/// The device to come back to.
pub(crate) fn pop_device() -> Option<u16> {
    BELOW.try_with(|below| below.borrow_mut().pop()).unwrap_or(None).flatten()
}

/// How many devices this process sees.
pub(crate) fn device_count() -> Answer<u16> {
    Ok(fixed()?.visible.len() as u16)
}

/// The machine's number of a device of this process.
pub(crate) fn physical(ordinal: u16) -> Answer<u16> {
    fixed()?.visible.get(usize::from(ordinal)).copied().ok_or(Status::INVALID_DEVICE)
}

/// The device of this process that is number `physical` of the machine.
pub(crate) fn visible(physical: u16) -> Answer<u16> {
    let found = fixed()?.visible.iter().position(|&device| device == physical);
    found.map(|ordinal| ordinal as u16).ok_or(Status::INVALID_DEVICE)
}

/// A device number from C.
pub(crate) fn ordinal(device: i32) -> Answer<u16> {
    let devices = device_count()?;
    u16::try_from(device).ok().filter(|&device| device < devices).ok_or(Status::INVALID_DEVICE)
}

/// Makes the device's primary context, once: it takes the memory of a context.
pub(crate) fn activate(device: u16) -> Answer {
    if is_active(device) {
        return Ok(());
    }
    let context_bytes = fixed()?.settings.context_bytes;
    with(|machine| {
        // Another thread may have been first.
        if !is_active(device) {
            machine.device(device)?.take(context_bytes)?;
            ACTIVE.fetch_or(1 << device, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Whether the device's primary context is in use.
pub(crate) fn is_active(device: u16) -> bool {
    ACTIVE.load(Ordering::Relaxed) & (1 << device) != 0
}

/// A new handle number: unlike any other, and greater than all before it.
pub(crate) fn new_handle() -> u64 {
    NEXT_HANDLE.fetch_add(0x100, Ordering::Relaxed) as u64
}

/// Whether any stream captures. A thread sees the captures that it or a thread it synchronised with began.
pub(crate) fn any_capture() -> bool {
    CAPTURES.load(Ordering::Acquire) > 0
}

impl Machine {
    pub(crate) fn device(&mut self, device: u16) -> Answer<&mut SimDevice> {
        self.devices.get_mut(usize::from(device)).ok_or(Status::INVALID_DEVICE)
    }

    /// The device whose addresses include `addr`.
    pub(crate) fn owner(&mut self, addr: u64) -> Answer<&mut SimDevice> {
        let owner = self.devices.iter_mut().find(|device| device.owns(Addr(addr)));
        owner.ok_or(Status::INVALID_VALUE)
    }

    /// Recounts the captures after one began or ended.
    pub(crate) fn count_captures(&self) {
        let captures = self.devices.iter().map(SimDevice::captures_in_progress).sum();
        CAPTURES.store(captures, Ordering::Release);
    }
}
