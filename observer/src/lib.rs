//! The trace entries of PyTorch's own allocator, converted to the events of a tape.
//!
//! A trace tracker gets the effects of PyTorch's allocator and not all of its inputs. The sizes of blocks are inferred
//! from the state of memory ([`block_size`]), the open private pools from the pools of allocations ([`pools`]), and the
//! causes of released segments from the entries that follow ([`window`]). An importer of a snapshot infers the same
//! from the whole trace; here a cause has to be known within a few entries.

pub mod block_size;
mod books;
mod pools;
mod window;

use std::mem;

use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, Category, Event, MarkKind, PoolId, StackId,
    StateError, StringId,
};

use allocator::size;
use books::Books;
use events::Recorder;
use pools::Pools;
use recorder::{AnyRecorder, StateView, TraceAction, TraceEntry};
use settings::Config;

/// The pool of an entry that names none: PyTorch before 2.8.
pub const UNKNOWN_POOL: PoolId = PoolId(u64::MAX, u64::MAX);

/// Follows one device.
pub struct Observer<R> {
    books: Books<R>,
    pools: Pools,
    config: Config,
    memory_fraction: Option<f64>,
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
            books: Books::new(base, recorder)?,
            pools: Pools::new(base),
            config,
            memory_fraction: base.memory_fraction,
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
        BaseState { segments: self.books.state.segments(), ..self.base_without_memory() }
    }

    /// The same without segments and blocks.
    pub fn base_without_memory(&self) -> BaseState {
        BaseState {
            settings: self.config.text.clone(),
            memory_fraction: self.memory_fraction,
            ..self.pools.base_state()
        }
    }

    /// Appends at most `max` live blocks from an address on, and returns the address to go on from; `None` at the end.
    pub fn live_blocks_from(
        &self,
        addr: u64,
        max: usize,
        into: &mut Vec<BlockState>,
    ) -> Option<u64> {
        let mut blocks = self.books.state.live_blocks_from(Addr(addr));
        into.extend(blocks.by_ref().take(max));
        blocks.next().map(|block| block.addr.0)
    }

    /// Where events go.
    pub fn recorder(&self) -> &R {
        &self.books.recorder
    }

    /// Where events go.
    pub fn recorder_mut(&mut self) -> &mut R {
        &mut self.books.recorder
    }

    /// Entries that contradicted those before them, and are not on the tape.
    pub fn contradictions(&self) -> u64 {
        self.books.contradictions
    }

    /// The cache is about to be emptied (`emptyCache`).
    pub fn begin_to_empty(&mut self, pool: PoolId) {
        if let Some(emptying) = &mut self.emptying {
            emptying.callers += 1;
        } else {
            self.settle();
            self.emptying = Some(Emptying { pool, callers: 1, entries: Vec::new() });
        }
    }

    /// The cache is empty.
    pub fn end_to_empty(&mut self) {
        let Some(emptying) = &mut self.emptying else { return };
        emptying.callers -= 1;
        if emptying.callers > 0 {
            return;
        }
        let Some(Emptying { pool, entries, .. }) = self.emptying.take() else { return };
        self.let_go(&entries);
        self.books.record(StackId::NONE, Event::EmptyCache { pool, inferred: false });
        for entry in &entries {
            self.follow(entry, true);
        }
        self.settle();
    }

    /// PyTorch's settings are these from here on.
    pub fn set_config(&mut self, config: Config) {
        self.settle();
        let text = self.books.recorder.intern(&config.text);
        self.config = config;
        self.books.record(StackId::NONE, Event::Settings { text });
    }

    /// The memory fraction is this from here on.
    pub fn set_memory_fraction(&mut self, fraction: f64) {
        self.settle();
        self.memory_fraction = Some(fraction);
        self.books.record(StackId::NONE, Event::MemoryFraction { fraction });
    }

    /// Peaks, or else accumulated counters, were reset.
    pub fn reset(&mut self, peaks: bool) {
        self.settle();
        let event = if peaks { Event::ResetPeak } else { Event::ResetAccumulated };
        self.books.record(StackId::NONE, event);
    }

    /// Says what the block at an address holds; false where none that is in use begins there.
    pub fn categorize(&mut self, addr: Addr, category: Category) -> bool {
        let block = self.books.state.block_at(addr);
        let is_held = block.is_some_and(|block| block.status == BlockStatus::Allocated);
        if is_held {
            self.books.record(StackId::NONE, Event::Category { addr, category });
        }
        is_held
    }

    /// Puts a mark on the tape.
    pub fn mark(&mut self, kind: MarkKind, name: StringId) {
        self.books.record(StackId::NONE, Event::Mark { kind, name });
    }

    /// Writes what waited for its successor: a free counts as pending, segments as returned on request.
    pub fn settle(&mut self) {
        if self.window.is_empty()
            && let Some(request) = self.requested.take()
        {
            self.free(&request, true);
        }
        self.close_window(None);
    }

    fn follow(&mut self, entry: &TraceEntry, is_emptied: bool) {
        use TraceAction as Action;
        if self.window.is_empty()
            && let Some(request) = self.requested.take()
        {
            if entry.action == Action::FreeCompleted && entry.addr == request.addr {
                self.requested = Some(request);
                self.window.push(*entry);
                return;
            }
            self.free(&request, true);
        }
        match entry.action {
            Action::FreeCompleted | Action::SegmentFree | Action::SegmentUnmap if !is_emptied => {
                self.window.push(*entry);
            }
            Action::FreeCompleted | Action::SegmentFree | Action::SegmentUnmap => {
                self.close_window(None);
                self.lose(entry);
            }
            Action::FreeRequested => {
                self.close_window(None);
                self.requested = Some(*entry);
            }
            Action::Alloc => {
                self.close_window(self.was_flushed_for(entry).then_some(entry));
                self.alloc(entry);
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                self.close_window(Some(entry));
                self.gain(entry);
            }
            Action::Oom => {
                self.close_window(Some(entry));
                self.out_of_memory(entry);
            }
            Action::Snapshot => {
                self.close_window(None);
                let event = Event::Snapshot { active_bytes: entry.size_bytes };
                self.books.record(entry.stack, event);
            }
        }
    }

    /// Whether a request got memory that was not free before the window, without any being mapped: what was freed by
    /// waiting for other streams, of pages that stayed mapped because they are not free as a whole.
    fn was_flushed_for(&self, entry: &TraceEntry) -> bool {
        let free_bytes = || self.books.state.free_bytes_at(entry.addr);
        let is_short = || free_bytes() < size::round(entry.size_bytes, &self.config);
        self.config.expandable_segments && !self.window.is_empty() && is_short()
    }

    fn alloc(&mut self, entry: &TraceEntry) {
        let TraceEntry { addr, size_bytes: requested_bytes, stream, stack, .. } = *entry;
        let pool = self.pool_of(entry);
        self.pools.enter(pool, &mut self.books);
        let state = &self.books.state;
        let size_bytes = block_size::allocated(state, addr, requested_bytes, &self.config);
        let event = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
        self.books.record(stack, event);
    }

    fn free(&mut self, entry: &TraceEntry, pending: bool) {
        let addr = entry.addr;
        match self.books.state.block_at(addr) {
            Some(block) => {
                let (requested_bytes, size_bytes) = (block.requested_bytes, block.size_bytes);
                let event = Event::Free { addr, requested_bytes, size_bytes, pending };
                self.books.record(entry.stack, event);
            }
            None => self.books.contradict(),
        }
    }

    /// The completion of a free, or memory that went back to the device.
    fn lose(&mut self, entry: &TraceEntry) {
        let TraceEntry { action, addr, size_bytes, stream, stack, .. } = *entry;
        if action == TraceAction::FreeCompleted {
            self.complete(entry);
            return;
        }
        let pool = self.pool_of(entry);
        let segment = self.books.state.segment_at(addr);
        let is_large = segment.is_none_or(|segment| segment.is_large);
        let event = match action {
            TraceAction::SegmentFree => {
                Event::SegmentFree { addr, size_bytes, stream, pool, is_large }
            }
            _ => Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large },
        };
        self.books.record(stack, event);
        self.pools.forget_if_gone(pool, &self.books.state);
    }

    fn complete(&mut self, entry: &TraceEntry) {
        let addr = entry.addr;
        match self.books.state.block_at(addr) {
            Some(block) => {
                let (requested_bytes, size_bytes) = (block.requested_bytes, block.size_bytes);
                let event = Event::FreeCompleted { addr, requested_bytes, size_bytes };
                self.books.record(entry.stack, event);
            }
            None => self.books.contradict(),
        }
    }

    fn gain(&mut self, entry: &TraceEntry) {
        let TraceEntry { action, addr, size_bytes, stream, stack, .. } = *entry;
        let pool = self.pool_of(entry);
        self.pools.enter(pool, &mut self.books);
        let is_large = size_bytes != size::SMALL_SEGMENT_BYTES;
        let event = match action {
            TraceAction::SegmentAlloc => {
                Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large }
            }
            _ => Event::SegmentMap { addr, size_bytes, stream, pool, is_large },
        };
        self.books.record(stack, event);
    }

    fn out_of_memory(&mut self, entry: &TraceEntry) {
        let TraceEntry { addr, size_bytes, stream, stack, .. } = *entry;
        let pool = self.pool_of(entry);
        self.pools.enter(pool, &mut self.books);
        // PyTorch gives the rounded request only.
        let (requested_bytes, device_free_bytes) = (size_bytes, addr.0);
        let event = Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool };
        self.books.record(stack, event);
    }

    /// The entry's pool: as it says, else that of the memory it is about.
    fn pool_of(&self, entry: &TraceEntry) -> PoolId {
        if entry.pool != UNKNOWN_POOL {
            return entry.pool;
        }
        self.books.state.segment_at(entry.addr).map_or(PoolId::DEFAULT, |segment| segment.pool)
    }

    /// Private pools that lose segments have no users any more.
    fn let_go(&mut self, entries: &[TraceEntry]) {
        for entry in entries.iter().filter(|entry| window::is_loss(entry)) {
            let pool = self.pool_of(entry);
            self.pools.release(pool, &mut self.books);
        }
        self.pools.enter(PoolId::DEFAULT, &mut self.books);
    }

    /// Writes the window, now that what comes next is known.
    fn close_window(&mut self, next: Option<&TraceEntry>) {
        let is_oom = next.is_some_and(|next| next.action == TraceAction::Oom);
        if self.window.is_empty() && !is_oom {
            return;
        }
        let mut entries = mem::take(&mut self.window);
        let pools = entries.iter().filter(|entry| window::is_loss(entry));
        let pools: Vec<_> = pools.map(|entry| self.pool_of(entry)).collect();
        let cause = window::cause(
            &entries,
            &pools,
            next,
            &window::Known {
                config: &self.config,
                reserved_bytes: self.books.state.reserved_bytes(),
                allowed_bytes: self.allowed_bytes(),
            },
        );
        if let Some(request) = self.requested.take() {
            // Completed by the flush of a request that was refused, it may have been pending until then.
            let pending = matches!(cause, window::Cause::Refused { .. });
            self.free(&request, pending);
            if !pending {
                entries.remove(0);
            }
        }
        let begin = cause.first_entry(&entries);
        for entry in &entries[..begin] {
            self.lose(entry);
        }
        self.let_go(&entries[begin..]);
        if let Some(event) = cause.event() {
            self.books.record(StackId::NONE, event);
        }
        for entry in &entries[begin..] {
            self.lose(entry);
        }
        entries.clear();
        self.window = entries; // Its room is used again.
    }

    fn allowed_bytes(&self) -> Option<u64> {
        let fraction = self.memory_fraction.filter(|fraction| *fraction < 1.0)?;
        Some((fraction * self.total_bytes? as f64) as u64)
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
