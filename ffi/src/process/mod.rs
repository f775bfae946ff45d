//! The state of the process: its settings, and a heap for each device that was used.
//!
//! A call finds its heap by one load from an array that changes no more once the heap is there:
//! nothing process-wide is locked or written on the way of an allocation.

pub(crate) mod autograd;
mod callbacks;
pub(crate) mod descriptors;
pub(crate) mod exit;
mod fork;
mod helper;
pub(crate) mod history;
pub(crate) mod observe;
pub(crate) mod oom;
pub(crate) mod oom_dir;
mod oom_lines;
mod open;
mod plan;
pub(crate) mod program;
mod recording;
pub(crate) mod signals;
pub(crate) mod stacks;
pub(crate) mod tape;
mod tape_name;
pub(crate) mod uncached;
pub(crate) mod watch;

use std::env;
use std::ffi::{OsString, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use allocator::heap::{AllocError, HeapError};
use allocator::stats::Stats;
use recorder::AnyRecorder;
use settings::{Config, Environment, RecordMode, Settings, TapePath};
use shared_heap::SharedHeap;
use trace_format::Addr;

pub(crate) use callbacks::Callback;
pub(crate) use open::{heap, heap_for};

use oom::Observer;
use program::Program;
use recording::Recording;
use tape::Tape;
use watch::Watch;

use crate::any_device::AnyDevice;
use crate::error::Error;
use crate::{log, torch};

/// One device's allocator. Never freed: threads use it until the very end of the process.
pub(crate) type Heap = SharedHeap<AnyDevice, AnyRecorder>;

/// PyTorch counts devices in a signed byte.
const DEVICES_MAX: usize = 128;

static HEAPS: [OnceLock<&'static Heap>; DEVICES_MAX] = [const { OnceLock::new() }; DEVICES_MAX];

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// State that all devices share. Read when a heap is opened, never by an allocation.
struct Process {
    /// The settings in `VRAMTAPE_CONF` when the process began.
    settings: Settings,
    /// PyTorch's settings in force.
    config: Config,
    /// Those at the time when CUDA began. PyTorch makes all devices then: their memory fraction and what their
    /// statistics call `max_split_size` are of that time, whenever they are first used.
    first_config: Option<Config>,
    /// The description of the program in its tapes.
    program: Program,
    callbacks: Vec<Callback>,
    /// Watchers of every event.
    watches: Vec<Watch>,
    /// Observers of out of memory.
    observers: Vec<Observer>,
    /// Whether PyTorch's hooks are set, or cannot be.
    are_hooks_set: bool,
    recordings: Vec<Recording>,
    /// Where tapes go; none while no tape is written.
    tape_path: Option<TapePath>,
    tapes: Vec<Tape>,
    /// Why there is none where one was to be written.
    tape_warnings: Vec<String>,
}

impl Process {
    fn begin() -> Result<Self, Error> {
        log::start()?;
        let variable = |name: &str| env::var_os(name).map(OsString::into_encoded_bytes);
        let environment = Environment::read(variable, torch::running())?;
        for warning in environment.warnings {
            tracing::warn!("{warning}");
        }
        fork::register()?;
        exit::register()?;
        let Environment { mut config, settings, .. } = environment;
        config.plan = plan::read(&settings)?;
        if settings.record != RecordMode::Off {
            stacks::start(&settings.stacks);
        }
        let is_on_tape = settings.record == RecordMode::File;
        let tape_path = is_on_tape.then(|| settings.tape.clone());
        let (callbacks, recordings, tapes) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            program: Program::new(&settings),
            settings,
            config,
            first_config: None,
            callbacks,
            watches: Vec::new(),
            observers: Vec::new(),
            are_hooks_set: false,
            recordings,
            tape_path,
            tapes,
            tape_warnings: Vec::new(),
        })
    }

    /// The settings that devices begin with: those at CUDA's initialization, or else at the first device's.
    fn first_config(&mut self) -> &Config {
        self.first_config.get_or_insert_with(|| self.config.clone())
    }

    /// The same, without fixing them.
    fn first_config_so_far(&self) -> &Config {
        self.first_config.as_ref().unwrap_or(&self.config)
    }
}

/// Whether the settings were read; they do not change any more then.
pub(crate) fn has_begun() -> bool {
    lock().is_some()
}

fn lock() -> MutexGuard<'static, Option<Process>> {
    // Nothing in there is ever half changed.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` with the process's state, which begins with the first such call.
fn with<T>(body: impl FnOnce(&mut Process) -> Result<T, Error>) -> Result<T, Error> {
    let mut guard = lock();
    let process = match &mut *guard {
        Some(process) => process,
        none => none.insert(Process::begin()?),
    };
    body(process)
}

fn slot(device: c_int) -> Result<&'static OnceLock<&'static Heap>, Error> {
    slot_of(&HEAPS, device)
}

fn slot_of<T>(slots: &'static [T; DEVICES_MAX], device: c_int) -> Result<&'static T, Error> {
    usize::try_from(device).ok().and_then(|index| slots.get(index)).ok_or_else(|| {
        Error::value(format!("device {device} is not a device; expected 0 to {}", DEVICES_MAX - 1))
    })
}

/// The device's heap, if it was ever used.
pub(crate) fn used(device: c_int) -> Result<Option<&'static Heap>, Error> {
    Ok(slot(device)?.get().copied())
}

/// One more than the last device that was used.
pub(crate) fn devices_used() -> c_int {
    HEAPS.iter().rposition(|slot| slot.get().is_some()).map_or(0, |last| last as c_int + 1)
}

/// The heaps of all devices that were used, in order.
pub(crate) fn heaps() -> impl Iterator<Item = &'static Heap> {
    HEAPS.iter().filter_map(|slot| slot.get().copied())
}

/// Makes a call on the heap that handed `addr` out: some of PyTorch's hooks do not say which.
pub(crate) fn owner<T>(
    addr: Addr,
    call: impl Fn(&'static Heap) -> Result<T, AllocError>,
) -> Result<T, Error> {
    for heap in heaps() {
        match call(heap) {
            Err(AllocError::Heap(HeapError::UnknownPointer { .. })) => {}
            answer => return Ok(answer?),
        }
    }
    Err(Error::value(format!(
        "{addr} is not an allocation of any device: unknown pointer or freed already"
    )))
}

/// The error of a free. An address that its heap does not know may lie in another one, which it says then.
#[cold]
pub(crate) fn not_freed(error: AllocError) -> Error {
    let AllocError::Heap(HeapError::UnknownPointer { addr }) = error else { return error.into() };
    let knows = |heap: &Heap| {
        heap.lock().is_ok_and(|heap| {
            matches!(heap.base_allocation(addr), Ok(_) | Err(HeapError::Expandable { .. }))
        })
    };
    match HEAPS.iter().position(|slot| slot.get().is_some_and(|heap| knows(heap))) {
        None => error.into(),
        Some(device) => Error::value(format!(
            "{addr} is an allocation of device {device}, not of the one named"
        )),
    }
}

/// CUDA begins: the settings are checked now, so that a mistake shows before the first allocation, and every device
/// begins with them.
pub(crate) fn begin_devices() -> Result<(), Error> {
    with(|process| {
        process.first_config();
        Ok(())
    })
}

/// PyTorch's hooks are not to be set: its allocator is one that calls us by itself.
pub(crate) fn need_no_hooks() -> Result<(), Error> {
    with(|process| {
        process.are_hooks_set = true;
        Ok(())
    })
}

/// Changes PyTorch's settings from here on, as `PYTORCH_CUDA_ALLOC_CONF` would have set them.
pub(crate) fn set_settings(text: &str) -> Result<(), Error> {
    with(|process| {
        let parsed = process.config.reparse(text)?;
        for warning in parsed.warnings {
            tracing::warn!("{warning}");
        }
        for heap in heaps() {
            heap.lock()?.set_config(parsed.config.clone());
        }
        observe::set_config(&parsed.config);
        process.config = parsed.config;
        Ok(())
    })
}

/// The text of PyTorch's settings in force.
pub(crate) fn settings_text() -> Result<String, Error> {
    with(|process| Ok(process.config.text.clone()))
}

/// PyTorch's settings in force.
pub(crate) fn config() -> Result<Config, Error> {
    with(|process| Ok(process.config.clone()))
}

/// Statistics of a device that was never used.
pub(crate) fn unused_stats() -> Result<Stats, Error> {
    with(|process| {
        let config = process.first_config_so_far();
        Ok(Stats::new(config.compat, config.max_split_size_bytes))
    })
}

/// Adds a callback to every heap, those still to be opened included.
pub(crate) fn add_callback(callback: Callback) -> Result<(), Error> {
    ::stacks::hold_end_for_calls();
    with(|process| {
        process.callbacks.push(callback);
        for heap in heaps() {
            callback.add_to(heap);
        }
        Ok(())
    })
}
