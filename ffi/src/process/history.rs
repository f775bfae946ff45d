//! PyTorch's memory history: the newest trace entries of each device, with their stacks
//! (`torch.cuda.memory._record_memory_history`).
//!
//! A log watches its device's heap, so an entry is written on the acting thread under the heap's lock, and what a
//! reader finds there while it holds that lock goes with the heap's state.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use allocator::heap::Allocation;
use recorder::{TraceAction, TraceEntry, WatchId, Watcher};
use trace_format::{Addr, DeviceId, PoolId, StackId, Stream};

use super::stacks::{self, Calls};
use super::{DEVICES_MAX, slot_of, watch};
use crate::error::Error;

/// Which entries have a stack, and whose (`RecordContext`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Context {
    /// No stacks.
    Never,
    /// Blocks that are not free have the stack of their allocation.
    State,
    /// Entries have it too.
    Alloc,
    /// Entries of frees and of what is returned to the device have a stack of their own.
    All,
}

/// The entries and stacks that the history keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub context: Context,
    /// Whether stacks have native frames too.
    pub is_native: bool,
    /// The newest so many entries of each device.
    pub entries_max: usize,
    /// A bit for each [`TraceAction`] that is not kept.
    pub skipped: u32,
}

/// A trace entry, as the history keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub action: TraceAction,
    pub addr: Addr,
    pub size_bytes: u64,
    pub stream: Stream,
    pub pool: PoolId,
    pub stack: StackId,
    pub time_us: u64,
    /// The metadata that the thread had set, or the annotation of the allocation.
    pub metadata: Option<Arc<str>>,
}

struct Log {
    options: Options,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The stacks of allocations and segments that are not given back: an entry without a stack has that one.
    allocations: HashMap<Addr, StackId>,
    segments: HashMap<Addr, StackId>,
}

/// The log of each device, from the first history on.
static LOGS: [OnceLock<Arc<Mutex<Log>>>; DEVICES_MAX] = [const { OnceLock::new() }; DEVICES_MAX];

/// The watch that writes the logs, while a history is kept.
static RUNNING: Mutex<Option<WatchId>> = Mutex::new(None);

/// The options for devices that open later.
static OPTIONS: Mutex<Options> =
    Mutex::new(Options { context: Context::Never, is_native: false, entries_max: 1, skipped: 0 });

thread_local! {
    static METADATA: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

struct Writer(Arc<Mutex<Log>>);

impl Watcher for Writer {
    fn see(&mut self, entry: &TraceEntry) {
        lock(&self.0).see(entry);
    }
}

impl Log {
    fn see(&mut self, seen: &TraceEntry) {
        let TraceEntry { action, addr, size_bytes, stream, pool, cuts_segment, mut stack, .. } =
            *seen;
        let or_of = |stacks: &HashMap<Addr, StackId>| match stack {
            StackId::NONE => stacks.get(&addr).copied().unwrap_or_default(),
            own => own,
        };
        match action {
            TraceAction::Alloc => {
                remember(&mut self.allocations, addr, stack);
                if cuts_segment {
                    self.segments.remove(&addr);
                }
            }
            TraceAction::SegmentAlloc => remember(&mut self.segments, addr, stack),
            TraceAction::FreeRequested => stack = or_of(&self.allocations),
            TraceAction::FreeCompleted => {
                stack = or_of(&self.allocations);
                self.allocations.remove(&addr);
            }
            TraceAction::SegmentFree => {
                stack = or_of(&self.segments);
                self.segments.remove(&addr);
            }
            _ => {}
        }
        let (pool, metadata) = (pool.unwrap_or_default(), metadata());
        self.add(Entry { action, addr, size_bytes, stream, pool, stack, time_us: 0, metadata });
    }

    fn add(&mut self, mut entry: Entry) {
        if self.options.skipped & (1 << entry.action as u8) != 0 {
            return;
        }
        if self.options.context < Context::Alloc {
            entry.stack = StackId::NONE;
        }
        entry.time_us = unix_us();
        while self.entries.len() >= self.options.entries_max {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

fn remember(stacks: &mut HashMap<Addr, StackId>, addr: Addr, stack: StackId) {
    if stack != StackId::NONE {
        stacks.insert(addr, stack);
    }
}

/// Keeps a history from here on, or goes on with other options.
pub(crate) fn start(options: Options, is_cleared: bool) -> Result<(), Error> {
    let mut running = lock(&RUNNING);
    let options = Options { entries_max: options.entries_max.max(1), ..options };
    let calls = match options.context {
        Context::Never => Calls::None,
        Context::State | Context::Alloc => Calls::Allocations,
        Context::All => Calls::All,
    };
    *lock(&OPTIONS) = options;
    for log in logs() {
        let mut log = lock(log);
        log.options = options;
        if is_cleared {
            log.entries.clear();
        }
    }
    stacks::want_for_history(calls, options.is_native);
    if running.is_none() {
        *running = Some(watch::begin(|device| Box::new(Writer(log_of(device))))?);
    }
    Ok(())
}

/// Keeps no history any more, and forgets the one so far (`enabled=None`).
pub(crate) fn stop() -> Result<(), Error> {
    let running = lock(&RUNNING).take();
    stacks::want_for_history(Calls::None, false);
    if let Some(id) = running {
        watch::end(id)?;
    }
    for log in logs() {
        let mut log = lock(log);
        log.entries.clear();
        log.allocations.clear();
        log.segments.clear();
    }
    Ok(())
}

/// Whether a history is being kept.
pub(crate) fn is_running() -> bool {
    lock(&RUNNING).is_some()
}

/// The device's entries, oldest first. To be called under the heap's lock, before the heap is looked at: the entry of
/// a snapshot is part of the next one.
pub(crate) fn entries(device: c_int) -> Vec<Entry> {
    log(device).map_or_else(Vec::new, |log| lock(log).entries.iter().cloned().collect())
}

/// The snapshot that was just taken under the heap's lock is one of this pool.
pub(crate) fn name_pool_of_snapshot(device: c_int, pool: PoolId) {
    if let Some(log) = log(device)
        && let Some(entry) = lock(log).entries.back_mut()
        && entry.action == TraceAction::Snapshot
    {
        entry.pool = pool;
    }
}

/// Adds what the program has to say of an allocation to the history, if one is kept.
pub(crate) fn annotate(device: c_int, addr: Addr, allocation: &Allocation, text: &str) {
    if !is_running() {
        return;
    }
    let Some(log) = log(device) else { return };
    let Allocation { requested_bytes: size_bytes, stream, pool, .. } = *allocation;
    let (action, metadata) = (TraceAction::Annotate, Some(Arc::from(text)));
    let stack = stacks::of_allocation(device, size_bytes as usize);
    lock(log).add(Entry { action, addr, size_bytes, stream, pool, stack, time_us: 0, metadata });
}

/// Sets the metadata of this thread's later entries.
pub(crate) fn set_metadata(text: &str) {
    // A thread that is ending has no entries any more.
    let _ = METADATA.try_with(|metadata| {
        metadata.replace((!text.is_empty()).then(|| Arc::from(text)));
    });
}

/// The metadata of this thread's entries.
pub(crate) fn metadata() -> Option<Arc<str>> {
    METADATA.try_with(|metadata| metadata.borrow().clone()).ok().flatten()
}

fn log_of(device: DeviceId) -> Arc<Mutex<Log>> {
    let new = || {
        let (options, entries) = (*lock(&OPTIONS), VecDeque::new());
        let (allocations, segments) = <_>::default();
        Arc::new(Mutex::new(Log { options, entries, allocations, segments }))
    };
    slot_of(&LOGS, device.0.into()).map_or_else(|_| new(), |slot| Arc::clone(slot.get_or_init(new)))
}

fn log(device: c_int) -> Option<&'static Arc<Mutex<Log>>> {
    slot_of(&LOGS, device).ok()?.get()
}

fn logs() -> impl Iterator<Item = &'static Arc<Mutex<Log>>> {
    LOGS.iter().filter_map(OnceLock::get)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in there is ever half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
