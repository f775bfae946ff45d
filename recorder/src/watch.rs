//! Watchers of every event as it happens: PyTorch's memory history and its trace trackers.
//!
//! They get it in PyTorch's terms (`c10::cuda::CUDACachingAllocator::TraceEntry`), on the thread that acts and under
//! the heap's lock. Without watchers, none of this is on an allocation's path.

use std::collections::HashMap;
use std::fmt;

use trace_format::{Addr, Event, PoolId, StackId, Stream, StringId};

use super::AnyRecorder;
use events::{BlockSlot, Recorder, Statistics};

/// The action of an entry, in PyTorch's words and with its numbers (`TraceEntry::Action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceAction {
    /// A block was allocated; the size is the requested size.
    Alloc = 0,
    /// A block was given back; the size is the requested size.
    FreeRequested = 1,
    /// A block became reusable.
    FreeCompleted = 2,
    /// A segment was obtained from the device.
    SegmentAlloc = 3,
    /// A segment was returned to the device.
    SegmentFree = 4,
    /// Memory was mapped into an expandable segment.
    SegmentMap = 5,
    /// Memory was taken out of an expandable segment.
    SegmentUnmap = 6,
    /// A snapshot was taken; the size is the active bytes.
    Snapshot = 7,
    /// Out of memory; the address is what the device had free, the size the rounded request.
    Oom = 8,
    /// Metadata was attached to a live block (`_annotate_tensor` of PyTorch 2.15); in a snapshot, the stack's first
    /// frame holds it.
    Annotate = 9,
    /// A mark of PyTorch before 2.5, in snapshots only; the stack's first frame names it.
    UserDefined = 10,
}

impl TraceAction {
    /// All actions, by number.
    pub const ALL: [Self; 11] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::Oom,
        Self::Annotate,
        Self::UserDefined,
    ];

    /// The action that a trace tracker gets with PyTorch's number.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|action| *action as i32 == number && !action.is_mark())
    }

    /// Its name in a snapshot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
            Self::Annotate => "annotate",
            Self::UserDefined => "user_defined",
        }
    }

    /// Whether it is about an address.
    pub fn has_addr(self) -> bool {
        !matches!(self, Self::Oom | Self::Snapshot) && !self.is_mark()
    }

    /// Whether it maps memory into the process.
    pub fn is_segment_gain(self) -> bool {
        matches!(self, Self::SegmentAlloc | Self::SegmentMap)
    }

    /// Whether it gives memory back to the device.
    pub fn is_segment_loss(self) -> bool {
        matches!(self, Self::SegmentFree | Self::SegmentUnmap)
    }

    /// Whether the program put it into the trace.
    pub fn is_mark(self) -> bool {
        matches!(self, Self::Annotate | Self::UserDefined)
    }
}

/// One entry of PyTorch's allocation trace, of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The action.
    pub action: TraceAction,
    /// Address of the block or segment; bytes free on the device for [`TraceAction::Oom`].
    pub addr: Addr,
    /// Size, as the action defines it.
    pub size_bytes: u64,
    /// Stream of the block or segment.
    pub stream: Stream,
    /// Its pool. A trace tracker's entries have none before PyTorch 2.8, a snapshot's before 2.12.
    pub pool: Option<PoolId>,
    /// Microseconds since the Unix epoch; 0 for an entry that is seen as it happens, and where there is no clock.
    pub time_us: u64,
    /// Whether this allocation is the first to cut the segment that begins there: PyTorch forgets the segment's stack.
    /// Only watchers of a heap get it.
    pub cuts_segment: bool,
    /// The call stack.
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
            pool: Some(pool),
            time_us: 0,
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
