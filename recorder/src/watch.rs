//! Watchers of every event as it happens: PyTorch's memory history and its trace trackers.
//!
//! They get it in PyTorch's terms (`c10::cuda::CUDACachingAllocator::TraceEntry`), on the thread that acts and under
//! the heap's lock. Without watchers, none of this is on an allocation's path.

use std::collections::HashMap;
use std::fmt;

use trace_format::{Addr, Event, PoolId, StackId, Stream, StringId};

use super::AnyRecorder;
use events::{BlockSlot, Recorder, Statistics};

/// What happened, in PyTorch's words and with its numbers (`TraceEntry::Action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceAction {
    /// Memory was handed out; the size is what was asked for.
    Alloc = 0,
    /// Memory was given back; the size is what was asked for.
    FreeRequested = 1,
    /// It is reusable.
    FreeCompleted = 2,
    /// A segment was obtained from the device.
    SegmentAlloc = 3,
    /// A segment was returned to the device.
    SegmentFree = 4,
    /// Memory was mapped into an expandable segment.
    SegmentMap = 5,
    /// Memory was taken out of an expandable segment.
    SegmentUnmap = 6,
    /// A snapshot was taken; the size is the active memory.
    Snapshot = 7,
    /// Memory could not be had; the size is the request's, rounded, and the address says how much the device had free.
    Oom = 8,
}

impl TraceAction {
    /// The action with PyTorch's number.
    pub fn from_number(number: i32) -> Option<Self> {
        let all = [
            Self::Alloc,
            Self::FreeRequested,
            Self::FreeCompleted,
            Self::SegmentAlloc,
            Self::SegmentFree,
            Self::SegmentMap,
            Self::SegmentUnmap,
            Self::Snapshot,
            Self::Oom,
        ];
        all.into_iter().find(|action| *action as i32 == number)
    }
}

/// One entry of PyTorch's allocation trace, without device and time, which the watcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What happened.
    pub action: TraceAction,
    /// Where.
    pub addr: Addr,
    /// How much.
    pub size_bytes: u64,
    /// The stream that the memory belongs to.
    pub stream: Stream,
    /// The pool that it belongs to.
    pub pool: PoolId,
    /// Whether this allocation is the first to cut the segment that begins there: PyTorch forgets the segment's stack.
    pub cuts_segment: bool,
    /// The stack of the call that did it.
    pub stack: StackId,
}

/// Called with every trace entry. It must not call the heap, which is locked.
pub trait Watcher: Send {
    /// One more entry.
    fn see(&mut self, entry: &TraceEntry);
}

/// A watcher's name, by which it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchId(pub u64);

type StreamAndPool = (Stream, PoolId);

/// A recorder and its watchers.
pub struct Watched {
    pub(super) recorder: AnyRecorder,
    watchers: Vec<(WatchId, Box<dyn Watcher>)>,
    /// Where each block that is not free belongs: PyTorch names it in the entry of its free, our event does not.
    places: HashMap<Addr, StreamAndPool>,
    /// Sizes of segments obtained since that no allocation has cut yet.
    whole: HashMap<Addr, u64>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watchers = self.watchers.len();
        f.debug_struct("Watched")
            .field("recorder", &self.recorder)
            .field("watchers", &watchers)
            .finish_non_exhaustive()
    }
}

impl Watched {
    pub(super) fn new(recorder: AnyRecorder, places: HashMap<Addr, StreamAndPool>) -> Self {
        Self { recorder, watchers: Vec::new(), places, whole: HashMap::new() }
    }

    pub(super) fn add(&mut self, id: WatchId, watcher: Box<dyn Watcher>) {
        self.watchers.push((id, watcher));
    }

    /// Whether there are no watchers left.
    pub(super) fn remove(&mut self, id: WatchId) -> bool {
        self.watchers.retain(|(other, _)| *other != id);
        self.watchers.is_empty()
    }

    /// [`Recorder::record_block`].
    #[cold]
    #[inline(never)]
    pub(super) fn see_block(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: &Event,
        statistics: &impl Statistics,
    ) {
        self.recorder.record_block(slot, stack, *event, statistics);
        self.tell(stack, event);
    }

    fn tell(&mut self, stack: StackId, event: &Event) {
        use TraceAction as Action;
        let entry = |action, addr, size_bytes, (stream, pool)| TraceEntry {
            action,
            addr,
            size_bytes,
            stream,
            pool,
            cuts_segment: false,
            stack,
        };
        let seen = match *event {
            Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } => {
                self.places.insert(addr, (stream, pool));
                let cuts_segment = self.whole.get(&addr).is_some_and(|whole| size_bytes < *whole);
                if cuts_segment {
                    self.whole.remove(&addr);
                }
                let alloc = entry(Action::Alloc, addr, requested_bytes, (stream, pool));
                TraceEntry { cuts_segment, ..alloc }
            }
            Event::Free { addr, requested_bytes, pending, .. } => {
                let place = self.place(addr, pending);
                let requested = entry(Action::FreeRequested, addr, requested_bytes, place);
                self.see(&requested);
                if pending {
                    return;
                }
                TraceEntry { action: Action::FreeCompleted, ..requested }
            }
            Event::FreeCompleted { addr, requested_bytes, .. } => {
                let place = self.place(addr, false);
                entry(Action::FreeCompleted, addr, requested_bytes, place)
            }
            Event::SegmentAlloc { addr, size_bytes, stream, pool, .. } => {
                self.whole.insert(addr, size_bytes);
                entry(Action::SegmentAlloc, addr, size_bytes, (stream, pool))
            }
            Event::SegmentFree { addr, size_bytes, stream, pool, .. } => {
                self.whole.remove(&addr);
                entry(Action::SegmentFree, addr, size_bytes, (stream, pool))
            }
            Event::SegmentMap { addr, size_bytes, stream, pool, .. } => {
                self.whole.insert(addr, size_bytes);
                entry(Action::SegmentMap, addr, size_bytes, (stream, pool))
            }
            Event::SegmentUnmap { addr, size_bytes, stream, pool, .. } => {
                self.whole.remove(&addr);
                entry(Action::SegmentUnmap, addr, size_bytes, (stream, pool))
            }
            Event::Oom { size_bytes, device_free_bytes, stream, pool, .. } => {
                entry(Action::Oom, Addr(device_free_bytes), size_bytes, (stream, pool))
            }
            Event::Snapshot { active_bytes } => {
                entry(Action::Snapshot, Addr(0), active_bytes, StreamAndPool::default())
            }
            _ => return,
        };
        self.see(&seen);
    }

    fn place(&mut self, addr: Addr, is_still_held: bool) -> StreamAndPool {
        let place =
            if is_still_held { self.places.get(&addr).copied() } else { self.places.remove(&addr) };
        place.unwrap_or_default()
    }

    fn see(&mut self, entry: &TraceEntry) {
        for (_, watcher) in &mut self.watchers {
            watcher.see(entry);
        }
    }
}

impl Recorder for Watched {
    fn record_block(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: Event,
        statistics: &impl Statistics,
    ) {
        self.see_block(slot, stack, &event, statistics);
    }

    fn copy_statistics(&mut self, statistics: &impl Statistics) {
        self.recorder.copy_statistics(statistics);
    }

    #[cold]
    #[inline(never)]
    fn record(&mut self, stack: StackId, event: Event) {
        self.recorder.record(stack, event);
        self.tell(stack, &event);
    }

    fn record_unobserved(&mut self, stack: StackId, event: Event) {
        self.recorder.record(stack, event);
    }

    fn intern(&mut self, text: &str) -> StringId {
        self.recorder.intern(text)
    }
}
