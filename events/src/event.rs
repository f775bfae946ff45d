//! The one event model: every input the allocator had, and every effect it caused.
//!
//! Inputs make a tape replayable; effects make it readable, and let a replay under the recorded configuration be
//! checked. Effects of one call stand before the input that caused them, in the order in which they happened, as in
//! PyTorch's trace: `SegmentAlloc` before the `Alloc` it served. The exception is [`Event::EmptyCache`], which stands
//! before the segments it returned, so that a reader knows the cause first.

use crate::ids::{Addr, PageNumber, PoolId, StackId, Stream, StringId, ThreadId};

/// One line of the tape: when, who, from where, and what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Nanoseconds since the Unix epoch; 0 where the source had no clock.
    pub time_ns: u64,
    /// The calling thread.
    pub thread: ThreadId,
    /// The call stack, if one was captured.
    pub stack: StackId,
    /// The event.
    pub event: Event,
}

/// The origin of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// A training step began.
    Step,
    /// A phase (forward, backward, optimizer) began.
    Phase,
    /// A named range began.
    RangeBegin,
    /// A named range ended.
    RangeEnd,
    /// A named moment.
    Instant,
    /// A call of a module (`torch.nn.Module`) began; the name is the module's path.
    ModuleBegin,
    /// A call of a module ended.
    ModuleEnd,
    /// The thread's backward pass reached the module; replaces the one before. The next [`MarkKind::Phase`] ends it.
    ModuleBackward,
    /// The thread's [`Event::Category`] records that follow are of blocks of this module. An empty name ends it.
    ModuleOwner,
}

impl MarkKind {
    /// Every kind, in the order of their codes on tape, in the ring and in the C interface.
    pub const ALL: [Self; 9] = [
        Self::Step,
        Self::Phase,
        Self::RangeBegin,
        Self::RangeEnd,
        Self::Instant,
        Self::ModuleBegin,
        Self::ModuleEnd,
        Self::ModuleBackward,
        Self::ModuleOwner,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Phase => "phase",
            Self::RangeBegin => "range_begin",
            Self::RangeEnd => "range_end",
            Self::Instant => "instant",
            Self::ModuleBegin => "module_begin",
            Self::ModuleEnd => "module_end",
            Self::ModuleBackward => "module_backward",
            Self::ModuleOwner => "module_owner",
        }
    }
}

/// The category of a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// A parameter of the model.
    Parameter,
    /// The gradient of a parameter.
    Gradient,
    /// State of the optimizer, such as Adam's moments.
    OptimizerState,
}

impl Category {
    /// Every category, in the order of their codes on tape.
    pub const ALL: [Self; 3] = [Self::Parameter, Self::Gradient, Self::OptimizerState];

    /// Its name, in words of `torch.profiler`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer_state",
        }
    }
}

/// The rule that decides whether a stream's allocations go to an open pool scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScopeFilter {
    /// The streams of one graph capture.
    Capture,
    /// All allocations of the opening thread.
    Thread,
    /// The source does not have it.
    Unknown,
}

/// An event: `I` marks inputs, `E` effects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// I: memory was requested and allocated.
    Alloc {
        /// Address of the block; unique among live blocks, otherwise without meaning to a replay.
        addr: Addr,
        /// Bytes asked for.
        requested_bytes: u64,
        /// Bytes of the block (rounded, after splitting).
        size_bytes: u64,
        /// Stream the memory belongs to.
        stream: Stream,
        /// Pool that was chosen.
        pool: PoolId,
    },
    /// I: memory was given back.
    Free {
        /// Address of the block.
        addr: Addr,
        /// Bytes asked for when it was allocated.
        requested_bytes: u64,
        /// Bytes of the block, as in its `Alloc`, so that the event can be undone.
        size_bytes: u64,
        /// False: reusable at once, both halves in one. True: other streams use it, and a `FreeCompleted` follows.
        pending: bool,
    },
    /// I: a stream other than the block's own uses the block (`Tensor.record_stream`).
    RecordStream {
        /// Address of the block.
        addr: Addr,
        /// The using stream.
        stream: Stream,
    },
    /// E: the last event of a pending free is done; the block is reusable.
    FreeCompleted {
        /// Address of the block.
        addr: Addr,
        /// Bytes asked for when it was allocated.
        requested_bytes: u64,
        /// Bytes of the block, as in its `Alloc`, so that the event can be undone.
        size_bytes: u64,
    },
    /// I: cached segments were asked back (`torch.cuda.empty_cache`, or a pool's end).
    EmptyCache {
        /// The default pool (and every freeable one), or one private pool.
        pool: PoolId,
        /// True where an importer inferred it from freed segments.
        inferred: bool,
    },
    /// I: a private pool was created, or its use count raised (`createOrIncrefPool`).
    PoolCreate {
        /// The pool.
        pool: PoolId,
        /// Whether the pool brings its own segment source (`MemPool(allocator=...)`).
        own_source: bool,
    },
    /// I: allocations of some streams go to this pool from here on; creates the pool or raises its use count.
    PoolBegin {
        /// The pool.
        pool: PoolId,
        /// Which allocations.
        filter: ScopeFilter,
    },
    /// I: the scope opened by `PoolBegin` ended.
    PoolEnd {
        /// The pool.
        pool: PoolId,
    },
    /// I: the pool's use count fell by one; at zero its cached segments may be returned.
    PoolRelease {
        /// The pool.
        pool: PoolId,
    },
    /// I: whether the pool's free blocks may serve others as a last resort before out of memory.
    PoolUseOnOom {
        /// The pool.
        pool: PoolId,
        /// On or off.
        enabled: bool,
    },
    /// I: the pool never splits a segment.
    PoolNoSplit {
        /// The pool.
        pool: PoolId,
    },
    /// I: a graph capture began on the pool's streams.
    CaptureBegin {
        /// The pool it allocates from.
        pool: PoolId,
    },
    /// I: the capture ended.
    CaptureEnd {
        /// The pool it allocated from.
        pool: PoolId,
    },
    /// I: settings changed at run time (the text of `PYTORCH_CUDA_ALLOC_CONF`).
    Settings {
        /// The configuration string.
        text: StringId,
    },
    /// I: the per-process memory fraction changed.
    MemoryFraction {
        /// In `[0, 1]`; 1 means no limit.
        fraction: f64,
    },
    /// I: peaks were reset to the current values.
    ResetPeak,
    /// I: accumulated counters were reset to zero.
    ResetAccumulated,
    /// E: a segment was obtained from the device.
    SegmentAlloc {
        /// Its address.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
        /// The stream it serves.
        stream: Stream,
        /// The pool it serves.
        pool: PoolId,
        /// Whether it serves large requests (over 1 MiB).
        is_large: bool,
    },
    /// E: a segment was returned to the device.
    SegmentFree {
        /// Its address.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
        /// The stream it served.
        stream: Stream,
        /// The pool it served.
        pool: PoolId,
        /// Whether it served large requests (over 1 MiB).
        is_large: bool,
    },
    /// E: physical memory was mapped into an expandable segment.
    SegmentMap {
        /// First mapped address.
        addr: Addr,
        /// Bytes mapped, whole pages.
        size_bytes: u64,
        /// The stream it serves.
        stream: Stream,
        /// The pool it serves.
        pool: PoolId,
        /// Whether it serves large requests (over 1 MiB).
        is_large: bool,
    },
    /// E: physical memory was taken out of an expandable segment.
    SegmentUnmap {
        /// First unmapped address.
        addr: Addr,
        /// Bytes unmapped, whole pages.
        size_bytes: u64,
        /// The stream it served.
        stream: Stream,
        /// The pool it served.
        pool: PoolId,
        /// Whether it served large requests (over 1 MiB).
        is_large: bool,
    },
    /// E: the device, or the memory fraction, refused `size_bytes` more. What stands between this and the `Alloc` or
    /// `Oom` that follows was done by the retry chain.
    DriverRefused {
        /// Bytes that were asked of the device.
        size_bytes: u64,
    },
    /// I and E: memory was asked for and could not be had.
    Oom {
        /// Bytes asked for.
        requested_bytes: u64,
        /// The same, rounded.
        size_bytes: u64,
        /// Bytes the device had free.
        device_free_bytes: u64,
        /// Stream it was asked for.
        stream: Stream,
        /// Pool it was asked of.
        pool: PoolId,
    },
    /// I: the program took a memory snapshot.
    Snapshot {
        /// Bytes active at that moment.
        active_bytes: u64,
    },
    /// I: a step, a phase or a named moment.
    Mark {
        /// The kind of mark.
        kind: MarkKind,
        /// Its name.
        name: StringId,
    },
    /// I: the program set the category of a block. It applies to the block's whole life, including earlier records;
    /// the last one counts.
    Category {
        /// Address of the block.
        addr: Addr,
        /// Its category.
        category: Category,
    },
    /// I: the device answered that it has done all work of a stream up to a moment.
    StreamPassed {
        /// The stream.
        stream: Stream,
        /// Frees of the default pool that became reusable since that moment, of all streams.
        frees: u64,
    },
    /// E: `stitch` mapped a physical page of 2 MiB at one more address. `SegmentMap` and `SegmentUnmap` say at which
    /// address its bytes have their home, or at which two; the others are ghosts.
    PageMap {
        /// Where it is mapped from here on.
        addr: Addr,
        /// The page.
        page: PageNumber,
    },
    /// E: `stitch` ended a mapping.
    PageUnmap {
        /// Where the page was mapped.
        addr: Addr,
        /// The page.
        page: PageNumber,
    },
    /// E: this many records are missing here.
    Lost {
        /// How many.
        count: u64,
    },
}

impl Event {
    /// The event's name, PyTorch's action name where it has one.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Alloc { .. } => "alloc",
            Self::Free { .. } => "free",
            Self::RecordStream { .. } => "record_stream",
            Self::FreeCompleted { .. } => "free_completed",
            Self::EmptyCache { .. } => "empty_cache",
            Self::PoolCreate { .. } => "pool_create",
            Self::PoolBegin { .. } => "pool_begin",
            Self::PoolEnd { .. } => "pool_end",
            Self::PoolRelease { .. } => "pool_release",
            Self::PoolUseOnOom { .. } => "pool_use_on_oom",
            Self::PoolNoSplit { .. } => "pool_no_split",
            Self::CaptureBegin { .. } => "capture_begin",
            Self::CaptureEnd { .. } => "capture_end",
            Self::Settings { .. } => "settings",
            Self::MemoryFraction { .. } => "memory_fraction",
            Self::ResetPeak => "reset_peak",
            Self::ResetAccumulated => "reset_accumulated",
            Self::SegmentAlloc { .. } => "segment_alloc",
            Self::SegmentFree { .. } => "segment_free",
            Self::SegmentMap { .. } => "segment_map",
            Self::SegmentUnmap { .. } => "segment_unmap",
            Self::DriverRefused { .. } => "driver_refused",
            Self::Oom { .. } => "oom",
            Self::Snapshot { .. } => "snapshot",
            Self::Mark { .. } => "mark",
            Self::Category { .. } => "category",
            Self::StreamPassed { .. } => "stream_passed",
            Self::PageMap { .. } => "page_map",
            Self::PageUnmap { .. } => "page_unmap",
            Self::Lost { .. } => "lost",
        }
    }
}
