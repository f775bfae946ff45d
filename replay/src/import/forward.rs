//! Writes the records of a trace, front to back, with the sizes and pairs that its entries leave open.

use allocator::size;
use observer::block_size;
use settings::Config;
use trace_format::{
    Addr, BlockStatus, Event, MarkKind, PoolId, Record, StackId, State, StringId, ThreadId,
};

use super::flush::Flush;
use super::insert::Insert;
use super::walk_back::{Kind, Walked, is_pair, segment_event};
use crate::snapshot::{Action, Entry, Stacks};

/// The records of one device.
pub(super) struct Written {
    pub(super) records: Vec<Record>,
    pub(super) notes: Option<String>,
}

pub(super) fn write(
    entries: &[Entry],
    walked: &Walked,
    flushes: &[Flush],
    inserts: &[Insert],
    stacks: &Stacks,
    config: &Config,
) -> Written {
    let mut writer = Writer {
        state: walked.base.clone(),
        records: Vec::with_capacity(entries.len() + inserts.len()),
        misfits: 0,
        first_misfit: None,
    };
    let mut inserts = inserts.iter().peekable();
    let mut flushes = flushes.iter().filter(|flush| flush.waited()).peekable();
    let mut at = 0;
    while at <= entries.len() {
        let entry = entries.get(at);
        let time_us = entry.or(entries.last()).map_or(0, |entry| entry.time_us);
        while let Some(insert) = inserts.next_if(|insert| insert.before <= at) {
            let time_us = insert.time_us.unwrap_or(time_us);
            writer.push(at, time_us, StackId::NONE, insert.event);
        }
        let Some(entry) = entry else { break };
        while flushes.next_if(|flush| flush.window.end <= at).is_some() {}
        // A completion in a window is that flush's doing, even directly after its request.
        let next_is_flushed = flushes.peek().is_some_and(|flush| flush.window.start == at + 1);
        let is_pair = !next_is_flushed && is_pair(entry, entries.get(at + 1));
        let event = writer.event(entry, walked.kinds[at], is_pair, stacks, config);
        writer.push(at, entry.time_us, entry.stack, event);
        at += if is_pair { 2 } else { 1 };
    }
    let notes = writer.first_misfit.map(|first| {
        format!("{} events contradict those before them (the first is {first})", writer.misfits)
    });
    Written { records: writer.records, notes }
}

struct Writer {
    state: State,
    records: Vec<Record>,
    misfits: u64,
    first_misfit: Option<String>,
}

impl Writer {
    fn push(&mut self, at: usize, time_us: u64, stack: StackId, event: Event) {
        let time_ns = time_us.saturating_mul(1000);
        let record = Record { time_ns, thread: ThreadId(0), stack, event };
        if let Err(error) = self.state.apply(&record) {
            self.misfits += 1;
            self.first_misfit.get_or_insert_with(|| format!("event {at}: {error}"));
        }
        self.records.push(record);
    }

    /// The event of an entry, or of an entry and the completion that follows it.
    fn event(
        &self,
        entry: &Entry,
        kind: Kind,
        is_pair: bool,
        stacks: &Stacks,
        config: &Config,
    ) -> Event {
        let addr = Addr(entry.addr);
        let is_free = matches!(entry.action, Action::FreeRequested | Action::FreeCompleted);
        let live = if is_free { self.state.block_at(addr) } else { None };
        let requested_bytes = live.map_or(entry.size, |block| block.requested_bytes);
        let size_bytes =
            || live.map_or_else(|| size::round(entry.size, config), |block| block.size_bytes);
        match entry.action {
            Action::Alloc => Event::Alloc {
                addr,
                requested_bytes: entry.size,
                size_bytes: block_size::allocated(&self.state, addr, entry.size, config),
                stream: entry.stream,
                pool: kind.pool,
            },
            Action::FreeRequested => {
                Event::Free { addr, requested_bytes, size_bytes: size_bytes(), pending: !is_pair }
            }
            // A completion whose request was not recorded is the whole free.
            Action::FreeCompleted
                if live.is_some_and(|block| block.status == BlockStatus::Allocated) =>
            {
                Event::Free { addr, requested_bytes, size_bytes: size_bytes(), pending: false }
            }
            Action::FreeCompleted => {
                Event::FreeCompleted { addr, requested_bytes, size_bytes: size_bytes() }
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap => segment_event(entry, kind),
            Action::Snapshot => Event::Snapshot { active_bytes: entry.size },
            // PyTorch gives the rounded request only.
            Action::Oom => Event::Oom {
                requested_bytes: entry.size,
                size_bytes: entry.size,
                device_free_bytes: entry.addr,
                stream: entry.stream,
                pool: entry.pool.unwrap_or(PoolId::DEFAULT),
            },
            Action::UserDefined | Action::Annotate => {
                let frame = stacks.frames_of(entry.stack).next();
                let name = frame.map_or(StringId(0), |frame| frame.name);
                Event::Mark { kind: MarkKind::Instant, name }
            }
        }
    }
}
