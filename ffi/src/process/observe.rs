//! PyTorch's own allocator, observed: a recording without a heap of ours.
//!
//! PyTorch reports each entry with its lock of the device held. Nothing here calls PyTorch or waits for Python, so
//! the locks are taken in one order: PyTorch's, then the start's, then the process's, then the device's recording.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use observer::Observer;
use recorder::{AnyRecorder, TraceAction, TraceEntry};
use settings::Config;
use trace_format::{
    Addr, BaseState, Category, DeviceId, DeviceMeta, Meta, PoolId, PoolState, SegmentState, StackId,
};

use super::recording::{self, Recording, Subject};
use super::{DEVICES_MAX, Process, heaps, signals, slot_of, stacks, tape, with};
use crate::any_device::AnyDevice;
use crate::error::Error;

/// A device of PyTorch's allocator.
pub(super) struct Observed(Mutex<Observer<AnyRecorder>>);

impl Observed {
    pub(super) fn lock(&self) -> MutexGuard<'_, Observer<AnyRecorder>> {
        // An entry is followed as a whole or its panic ends the process.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static DEVICES: [OnceLock<&'static Observed>; DEVICES_MAX] =
    [const { OnceLock::new() }; DEVICES_MAX];

static STAGE: AtomicU8 = AtomicU8::new(OFF);
const OFF: u8 = 0;
const STARTING: u8 = 1;
const ON: u8 = 2;

/// While starting: each device's trace entries since the snapshot.
static WAITING: Mutex<BTreeMap<c_int, Vec<TraceEntry>>> = Mutex::new(BTreeMap::new());

fn waiting() -> MutexGuard<'static, BTreeMap<c_int, Vec<TraceEntry>>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices that are observed.
fn devices() -> impl Iterator<Item = &'static Observed> {
    DEVICES.iter().filter_map(|slot| slot.get().copied())
}

/// Whether any is.
pub(super) fn is_any() -> bool {
    devices().next().is_some()
}

/// Prepares for the entry of the snapshot that the recording begins with.
pub(crate) fn begin() -> Result<(), Error> {
    with(|_| match heaps().next() {
        None => Ok(()),
        Some(_) => Err(Error::value("vramtape allocates in this process, and records already")),
    })?;
    match STAGE.compare_exchange(OFF, STARTING, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::value("PyTorch's allocator is observed already")),
    }
}

/// One more entry.
pub(crate) fn see(device: c_int, entry: &TraceEntry) -> Result<(), Error> {
    if STAGE.load(Ordering::Acquire) == OFF {
        return Ok(());
    }
    let entry = &sampled(entry);
    let slot = slot_of(&DEVICES, device)?;
    if slot.get().is_none() && !belongs_to_recording(device, entry) {
        return Ok(());
    }
    let observed = match slot.get() {
        Some(observed) => observed,
        None => open(device, BaseState::default())?,
    };
    follow(observed, device, std::slice::from_ref(entry));
    Ok(())
}

/// The entry with its stack, or without one if sampling skips its call. Segment entries always keep their stack: they
/// are few.
fn sampled(entry: &TraceEntry) -> TraceEntry {
    use TraceAction::{Alloc, FreeRequested};
    let is_sampled = matches!(entry.action, Alloc | FreeRequested) && entry.stack != StackId::NONE;
    let stack =
        if is_sampled { stacks::sampled(entry.stack, entry.size_bytes) } else { entry.stack };
    TraceEntry { stack, ..*entry }
}

/// Records the entries, after their stacks.
fn follow(observed: &Observed, device: c_int, entries: &[TraceEntry]) {
    for entry in entries {
        stacks::write_observed(device, entry.stack);
    }
    let mut observer = observed.lock();
    for entry in entries {
        observer.see(entry);
    }
}

/// Whether an entry of a device that is not open is to be recorded now. While starting, it is kept if the snapshot was
/// taken, and part of the snapshot if not.
fn belongs_to_recording(device: c_int, entry: &TraceEntry) -> bool {
    if STAGE.load(Ordering::Acquire) != STARTING {
        return STAGE.load(Ordering::Acquire) == ON && entry.action != TraceAction::Snapshot;
    }
    let mut waiting = waiting();
    if STAGE.load(Ordering::Acquire) == ON || is_open(device) {
        return true; // Meanwhile.
    }
    match waiting.get_mut(&device) {
        Some(entries) => entries.push(*entry),
        None if entry.action == TraceAction::Snapshot => {
            waiting.insert(device, Vec::new());
        }
        None => {}
    }
    false
}

fn is_open(device: c_int) -> bool {
    slot_of(&DEVICES, device).is_ok_and(|slot| slot.get().is_some())
}

/// Opens a device with its segments at the snapshot.
pub(crate) fn base(device: c_int, fraction: f64, segments: Vec<SegmentState>) -> Result<(), Error> {
    let pools = PoolState::of_segments(&segments);
    let memory_fraction = (fraction < 1.0).then_some(fraction);
    let base = BaseState { segments, pools, memory_fraction, ..BaseState::default() };
    let mut waiting = waiting();
    let entries = waiting.remove(&device).unwrap_or_default();
    follow(open(device, base)?, device, &entries);
    Ok(())
}

/// Devices without memory are opened by their first entry from here on.
pub(crate) fn ready() -> Result<(), Error> {
    let mut waiting = waiting();
    for (device, entries) in std::mem::take(&mut *waiting) {
        let is_used = entries.iter().any(|entry| entry.action != TraceAction::Snapshot);
        if is_used {
            follow(open(device, BaseState::default())?, device, &entries);
        }
    }
    STAGE.store(ON, Ordering::Release);
    Ok(())
}

/// The forked child of an observed process records nothing.
pub(super) fn after_fork_child() {
    if is_any() {
        STAGE.store(OFF, Ordering::Release);
    }
}

pub(crate) fn empty_cache(pool: PoolId, begins: bool) {
    for observed in devices() {
        let mut observer = observed.lock();
        if begins {
            observer.begin_empty_cache(pool);
        } else {
            observer.end_empty_cache();
        }
    }
}

pub(crate) fn memory_fraction(fraction: f64, device: c_int) -> Result<(), Error> {
    if STAGE.load(Ordering::Acquire) == ON {
        open(device, BaseState::default())?.lock().set_memory_fraction(fraction);
    }
    Ok(())
}

pub(crate) fn reset(device: c_int, peaks: bool) -> Result<(), Error> {
    if let Some(observed) = slot_of(&DEVICES, device)?.get() {
        observed.lock().reset(peaks);
    }
    Ok(())
}

/// Records what blocks hold: how many of the addresses are blocks of the device.
pub(crate) fn categorize(device: c_int, category: Category, addrs: &[u64]) -> Result<usize, Error> {
    let Some(observed) = slot_of(&DEVICES, device)?.get() else { return Ok(0) };
    let known = addrs.iter().filter(|addr| observed.lock().categorize(Addr(**addr), category));
    Ok(known.count())
}

/// PyTorch's settings changed.
pub(super) fn set_config(config: &Config) {
    devices().for_each(|observed| observed.lock().set_config(config.clone()));
}

/// The facts on a tape that are inferred while PyTorch's allocator is observed.
pub(super) fn inferred() -> Vec<String> {
    if STAGE.load(Ordering::Acquire) == OFF {
        return Vec::new();
    }
    vec![
        "PyTorch's own allocator was observed: sizes of blocks follow from its rules, scopes of private pools are as \
         short as their allocations allow, and the cause of a segment's release is inferred from the entries after it"
            .to_owned(),
    ]
}

/// Writes entries that wait for a later one: a tape or the process is about to end, or a reader wants all until now.
pub(super) fn settle() {
    devices().for_each(|observed| observed.lock().settle());
}

#[cold]
fn open(device: c_int, base: BaseState) -> Result<&'static Observed, Error> {
    let slot = slot_of(&DEVICES, device)?;
    with(|process| {
        if let Some(observed) = slot.get() {
            return Ok(*observed);
        }
        let id = DeviceId(device as u16);
        process.try_tape(id);
        let observed = make(process, id, base)?;
        signals::arm();
        Ok(*slot.get_or_init(|| observed))
    })
}

fn make(process: &mut Process, id: DeviceId, base: BaseState) -> Result<&'static Observed, Error> {
    // PyTorch has made the device's context; the driver's handle of it lives as long as the process.
    let device: &mut AnyDevice = Box::leak(Box::new(super::open::device(process, id)?));
    let config = process.first_config().clone();
    let fraction = config.per_process_memory_fraction;
    let base = BaseState {
        memory_fraction: base.memory_fraction.or((fraction < 1.0).then_some(fraction)),
        ..base
    };
    let meta = DeviceMeta { memory_fraction: base.memory_fraction, ..device.meta()? };
    let mut recorder = recording::make(&process.settings, id)?;
    let is_mid_run = !base.segments.is_empty();
    if let AnyRecorder::Ring(ring) = &mut recorder
        && is_mid_run
    {
        ring.begin_with(&base);
    }
    let ring = recorder.ring().map(std::sync::Arc::clone);
    if let Some(ring) = &ring {
        stacks::attach_ring(id.0.into(), ring);
        ring.describe(&Meta { devices: vec![meta.clone()], ..process.meta() });
    }
    let is_changed = config != process.config;
    let observer = Observer::new(&base, config, meta.total_bytes, recorder);
    let mut observer = observer.map_err(|error| {
        Error::runtime(format_args!("PyTorch's snapshot contradicts itself: {error}"))
    })?;
    if is_changed {
        observer.set_config(process.config.clone());
    }
    let observed: &Observed = Box::leak(Box::new(Observed(Mutex::new(observer))));
    if let Some(ring) = ring {
        let recording = Recording { subject: Subject::Observed(observed), ring, device: meta };
        process.record_on_tape(&recording);
        process.recordings.push(recording);
    }
    if is_mid_run {
        // What is recorded from now on shall not be a part of the state they begin with.
        tape::wait(process.request_flushes())?;
    }
    Ok(observed)
}
