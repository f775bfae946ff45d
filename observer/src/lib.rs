//! PyTorch's own allocator, followed through its trace: the entries converted to the events of a tape.
//!
//! A trace has the effects of PyTorch's allocator and not all of its inputs. The sizes of blocks and the two halves of
//! frees are inferred from the state of memory ([`entry`]), the causes of released segments from the entries around
//! them ([`cause`]), and the open private pools from the pools of allocations ([`scopes`]). There are two inputs: an
//! [`Observer`] gets the entries as they happen, and infers a cause within a few entries; the import of a snapshot has
//! the whole trace, and walks it back first.
#![forbid(unsafe_code)]

mod block_size;
pub mod cause;
pub mod entry;
mod memory_state;
pub mod scopes;

use std::mem;

use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, Category, Event, MarkKind, PoolId, StackId,
    StateError, StringId,
};

use allocator::size;
use cause::{Cause, FlushRules, allowed_bytes, collects_above_bytes, losses};
use entry::{MemoryKind, is_free_pair};
use events::Recorder;
use memory_state::MemoryState;
use recorder::{AnyRecorder, StateView, TraceAction, TraceEntry};
use settings::Config;

/// Follows one device.
pub struct Observer<R> {
    memory: MemoryState<R>,
    config: Config,
    /// What the device has in all, if that is known.
    total_bytes: Option<u64>,
    /// A free whose completion is the first entry of the window, or may be the next entry.
    requested: Option<TraceEntry>,
    /// Completions and losses; the next entry decides their cause.
    window: Vec<TraceEntry>,
    emptying: Option<Emptying>,
}

/// The program empties the cache.
struct Emptying {
    pool: PoolId,
    /// How many are at it.
    callers: u32,
    /// What happened meanwhile.
    entries: Vec<TraceEntry>,
}

impl<R: Recorder> Observer<R> {
    /// Begins with what is there, and writes to `recorder` from then on.
    ///
    /// # Errors
    /// When the segments of `base` contradict themselves.
    pub fn new(
        base: &BaseState,
        config: Config,
        total_bytes: Option<u64>,
        recorder: R,
    ) -> Result<Self, StateError> {
        Ok(Self {
            memory: MemoryState::new(base, recorder)?,
            config,
            total_bytes,
            requested: None,
            window: Vec::new(),
            emptying: None,
        })
    }

    /// One more entry of PyTorch's trace.
    pub fn see(&mut self, entry: &TraceEntry) {
        match &mut self.emptying {
            Some(emptying) => emptying.entries.push(*entry),
            None => self.follow(entry, false),
        }
    }

    /// The state that everything recorded until now led to.
    pub fn base_state(&self) -> BaseState {
        BaseState { settings: self.config.text.clone(), ..self.memory.state.base_state() }
    }

    /// The same without segments and blocks.
    pub fn base_without_memory(&self) -> BaseState {
        let settings = self.config.text.clone();
        BaseState { settings, ..self.memory.state.base_without_memory() }
    }

    /// Appends at most `max` live blocks from an address on, and returns the address to go on from; `None` at the end.
    pub fn live_blocks_from(
        &self,
        addr: u64,
        max: usize,
        into: &mut Vec<BlockState>,
    ) -> Option<u64> {
        let mut blocks = self.memory.state.live_blocks_from(Addr(addr));
        into.extend(blocks.by_ref().take(max));
        blocks.next().map(|block| block.addr.0)
    }

    /// Where events go.
    pub fn recorder(&self) -> &R {
        &self.memory.recorder
    }

    /// Where events go.
    pub fn recorder_mut(&mut self) -> &mut R {
        &mut self.memory.recorder
    }

    /// Entries that contradicted those before them, and are not on the tape.
    pub fn contradictions(&self) -> u64 {
        self.memory.contradictions
    }

    /// The cache is about to be emptied (`emptyCache`).
    pub fn begin_empty_cache(&mut self, pool: PoolId) {
        if let Some(emptying) = &mut self.emptying {
            emptying.callers += 1;
        } else {
            self.settle();
            self.emptying = Some(Emptying { pool, callers: 1, entries: Vec::new() });
        }
    }

    /// The cache is empty.
    pub fn end_empty_cache(&mut self) {
        let Some(emptying) = &mut self.emptying else { return };
        emptying.callers -= 1;
        if emptying.callers > 0 {
            return;
        }
        let Some(Emptying { pool, entries, .. }) = self.emptying.take() else { return };
        self.release_pools(&entries);
        self.memory.record(StackId::NONE, Event::EmptyCache { pool, inferred: false });
        for entry in &entries {
            self.follow(entry, true);
        }
        self.settle();
    }

    /// PyTorch's settings are these from here on.
    pub fn set_config(&mut self, config: Config) {
        self.settle();
        let text = self.memory.recorder.intern(&config.text);
        self.config = config;
        self.memory.record(StackId::NONE, Event::Settings { text });
    }

    /// The memory fraction is this from here on.
    pub fn set_memory_fraction(&mut self, fraction: f64) {
        self.settle();
        self.memory.record(StackId::NONE, Event::MemoryFraction { fraction });
    }

    /// Peaks, or else accumulated counters, were reset.
    pub fn reset(&mut self, peaks: bool) {
        self.settle();
        let event = if peaks { Event::ResetPeak } else { Event::ResetAccumulated };
        self.memory.record(StackId::NONE, event);
    }

    /// Says what the block at an address holds; false where none that is in use begins there.
    pub fn categorize(&mut self, addr: Addr, category: Category) -> bool {
        let block = self.memory.state.block_at(addr);
        let is_held = block.is_some_and(|block| block.status == BlockStatus::Allocated);
        if is_held {
            self.memory.record(StackId::NONE, Event::Category { addr, category });
        }
        is_held
    }

    /// Puts a mark on the tape.
    pub fn mark(&mut self, kind: MarkKind, name: StringId, stack: StackId) {
        self.memory.record(stack, Event::Mark { kind, name });
    }

    /// Writes what waited for its successor: a free counts as pending, segments as returned on request.
    pub fn settle(&mut self) {
        self.write_request(None);
        self.close_window(None);
    }

    fn follow(&mut self, entry: &TraceEntry, is_emptied: bool) {
        use TraceAction as Action;
        if self.write_request(Some(entry)) {
            self.window.push(*entry);
            return;
        }
        match entry.action {
            Action::FreeCompleted | Action::SegmentFree | Action::SegmentUnmap => {
                if is_emptied {
                    self.close_window(None);
                    self.record(entry, false);
                } else {
                    self.window.push(*entry);
                }
            }
            Action::FreeRequested => {
                self.close_window(None);
                self.requested = Some(*entry);
            }
            Action::Alloc => {
                self.close_window(self.was_flushed_for(entry).then_some(entry));
                self.record(entry, false);
            }
            Action::SegmentAlloc | Action::SegmentMap | Action::Oom => {
                self.close_window(Some(entry));
                self.record(entry, false);
            }
            Action::Snapshot => {
                self.close_window(None);
                self.record(entry, false);
            }
            Action::Annotate | Action::UserDefined => {}
        }
    }

    /// Writes the free that was requested last, unless `next` completes it: then they belong to the window.
    fn write_request(&mut self, next: Option<&TraceEntry>) -> bool {
        let Some(request) = self.requested.filter(|_| self.window.is_empty()) else { return false };
        if is_free_pair(&request, next) {
            return true;
        }
        self.requested = None;
        self.record(&request, false);
        false
    }

    /// Whether a request got memory that was not free before the window, without any being mapped: what was freed by
    /// waiting for other streams, of pages that stayed mapped because they are not free as a whole.
    fn was_flushed_for(&self, entry: &TraceEntry) -> bool {
        let free_bytes = || self.memory.state.free_bytes_at(entry.addr);
        let is_short = || free_bytes() < size::round(entry.size_bytes, &self.config);
        self.config.expandable_segments && !self.window.is_empty() && is_short()
    }

    /// Records an entry; of a request that `is_pair`, its completion too.
    fn record(&mut self, entry: &TraceEntry, is_pair: bool) {
        let kind = self.kind_of(entry);
        let allocates = matches!(entry.action, TraceAction::Alloc | TraceAction::Oom);
        if allocates || entry.action.is_segment_gain() {
            self.memory.enter(kind.pool);
        }
        let event = entry::event(&self.memory.state, entry, kind, is_pair, &self.config);
        if let Some(event) = event {
            self.memory.record(entry.stack, event);
        }
    }

    fn kind_of(&self, entry: &TraceEntry) -> MemoryKind {
        MemoryKind::of(&self.memory.state, entry).0
    }

    /// Private pools that lose segments have no users any more.
    fn release_pools(&mut self, window: &[TraceEntry]) {
        for (_, entry) in losses(window) {
            self.memory.release(self.kind_of(entry).pool);
        }
        self.memory.enter(PoolId::DEFAULT);
    }

    /// Writes the window, now that what comes next is known.
    fn close_window(&mut self, next: Option<&TraceEntry>) {
        let is_oom = next.is_some_and(|next| next.action == TraceAction::Oom);
        if self.window.is_empty() && !is_oom {
            return;
        }
        let mut entries = mem::take(&mut self.window);
        let cause = self.cause(&entries, next, is_oom);
        if let Some(request) = self.requested.take() {
            // Completed by the flush of a request that was refused, it may have been pending until then.
            let pending = matches!(cause, Some(Cause::Refused { .. }));
            self.record(&request, !pending);
            if !pending {
                entries.remove(0);
            }
        }
        let begin = cause.map_or(entries.len(), |cause| cause.first_entry(&entries));
        let (before, window) = entries.split_at(begin);
        for entry in before {
            self.record(entry, false);
        }
        self.release_pools(window);
        if let Some(event) = cause.and_then(Cause::event) {
            self.memory.record(StackId::NONE, event);
        }
        for entry in window {
            self.record(entry, false);
        }
        entries.clear();
        self.window = entries; // Its room is used again.
    }

    fn cause(
        &self,
        window: &[TraceEntry],
        next: Option<&TraceEntry>,
        is_oom: bool,
    ) -> Option<Cause> {
        let config = &self.config;
        let need_bytes = || {
            next.map(|next| match next.action {
                TraceAction::Oom | TraceAction::Alloc => {
                    size::segment_bytes(size::round(next.size_bytes, config), config)
                }
                _ => next.size_bytes,
            })
        };
        let fraction = self.memory.state.pools().memory_fraction;
        let limit_bytes = allowed_bytes(fraction, self.total_bytes);
        let rules = FlushRules {
            reserved_bytes: self.memory.state.reserved_bytes(),
            limit_bytes,
            collects_above_bytes: limit_bytes.and_then(|limit| collects_above_bytes(config, limit)),
            leaves_out_emptied: true,
        };
        let pools = losses(window).map(|(_, entry)| self.kind_of(entry).pool);
        rules.cause(window, pools, need_bytes, is_oom)
    }
}

impl StateView for Observer<AnyRecorder> {
    fn live_blocks_from(&self, place: u64, max: usize, into: &mut Vec<BlockState>) -> Option<u64> {
        Self::live_blocks_from(self, place, max, into)
    }

    fn base_without_memory(&self) -> BaseState {
        Self::base_without_memory(self)
    }

    fn recorder(&self) -> &AnyRecorder {
        Self::recorder(self)
    }
}
