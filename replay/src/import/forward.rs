//! Writes the records of a trace, front to back, with the sizes and pairs that its entries leave open.

use observer::entry::{self, is_free_pair};
use settings::Config;
use trace_format::{Event, MarkKind, Record, StackId, State, StringId, ThreadId};

use super::flush::Flush;
use super::insert::Insert;
use super::walk_back::Walked;
use crate::snapshot::{Stacks, TraceEntry};

/// The records of one device.
pub(super) struct Written {
    pub(super) records: Vec<Record>,
    pub(super) notes: Option<String>,
}

pub(super) fn write(
    entries: &[TraceEntry],
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
        let is_pair = !next_is_flushed && is_free_pair(entry, entries.get(at + 1));
        let event = entry::event(&writer.state, entry, walked.kinds[at], is_pair, config);
        let event = event.unwrap_or_else(|| mark(entry, stacks));
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
}

/// The program's mark in the trace.
fn mark(entry: &TraceEntry, stacks: &Stacks) -> Event {
    let frame = stacks.frames_of(entry.stack).next();
    let name = frame.map_or(StringId(0), |frame| frame.name);
    Event::Mark { kind: MarkKind::Instant, name }
}
