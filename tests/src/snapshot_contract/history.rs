//! The undo-replay invariant. PyTorch's viewer shows any moment by undoing events from the final segments; where an
//! event does not find its block or segment, it throws.

use std::collections::BTreeMap;
use std::fmt;

use replay::snapshot::{Segment, Snapshot, TraceAction, TraceEntry};
use trace_format::{Addr, BlockStatus, Stream};

use super::fault::{Faults, Rule};

/// A device's memory at both ends of its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// CUDA ordinal of the device.
    pub device: usize,
    /// Events in its trace.
    pub events: usize,
    /// Reserved before the first event; zero if the trace covers the whole run.
    pub start_reserved_bytes: u64,
    /// Bytes asked for and live before the first event.
    pub start_requested_bytes: u64,
    /// Reserved after the last event.
    pub end_reserved_bytes: u64,
    /// Bytes asked for and live after the last event.
    pub end_requested_bytes: u64,
}

pub(super) fn check(snapshot: &Snapshot, faults: &mut Faults) -> Vec<Span> {
    let undo = |(device, entries): (usize, &Vec<TraceEntry>)| {
        let segments = snapshot.segments.iter().filter(|s| s.device as usize == device);
        let mut memory = Memory::default();
        for segment in segments {
            memory.add(segment, faults);
        }
        let (end_reserved_bytes, end_requested_bytes) = memory.totals();
        let mut later_us = u64::MAX;
        for (at, entry) in entries.iter().enumerate().rev() {
            let place = format_args!("device_traces[{device}][{at}]");
            if entry.time_us > later_us {
                faults.add(Rule::Order, place, "later than the event after it");
            }
            later_us = entry.time_us;
            if let Err(what) = memory.undo(entry) {
                let what = format_args!("{} {:#x}: {what}", entry.action.name(), entry.addr.0);
                faults.add(Rule::Undo, place, what);
            }
        }
        let (start_reserved_bytes, start_requested_bytes) = memory.totals();
        Span {
            device,
            events: entries.len(),
            start_reserved_bytes,
            start_requested_bytes,
            end_reserved_bytes,
            end_requested_bytes,
        }
    };
    snapshot.traces.iter().enumerate().map(undo).collect()
}

/// Segments and live blocks of one device, by address.
#[derive(Default)]
struct Memory {
    segments: BTreeMap<u64, Mapped>,
    blocks: BTreeMap<u64, Live>,
}

#[derive(Clone, Copy)]
struct Mapped {
    size: u64,
    stream: Stream,
    is_expandable: bool,
}

#[derive(Clone, Copy)]
struct Live {
    requested_size: u64,
    is_pending: bool,
}

type Outcome = Result<(), &'static str>;

impl Memory {
    fn add(&mut self, segment: &Segment, faults: &mut Faults) {
        let Segment { address, total_size: size, stream, is_expandable, .. } = *segment;
        if self.map(address, Mapped { size, stream, is_expandable }).is_err() {
            let place = format_args!("the segment at {address:#x}");
            faults.add(Rule::Tiling, place, "overlaps another");
        }
        for block in segment.blocks.iter().filter(|b| b.status != BlockStatus::Inactive) {
            let is_pending = block.status == BlockStatus::PendingFree;
            let live = Live { requested_size: block.requested_size, is_pending };
            self.blocks.insert(block.address, live);
        }
    }

    fn totals(&self) -> (u64, u64) {
        let reserved = self.segments.values().map(|segment| segment.size).sum();
        (reserved, self.blocks.values().map(|block| block.requested_size).sum())
    }

    fn undo(&mut self, entry: &TraceEntry) -> Outcome {
        let TraceEntry { addr: Addr(addr), size_bytes: size, stream, .. } = *entry;
        match entry.action {
            TraceAction::Alloc => {
                let live = self.block(addr, size)?;
                if live.is_pending {
                    return Err("the block is already freed after it");
                }
                self.inside(addr, size, stream)?;
                self.blocks.remove(&addr);
                Ok(())
            }
            TraceAction::FreeRequested => {
                self.block(addr, size)?;
                self.blocks.insert(addr, Live { requested_size: size, is_pending: false });
                Ok(())
            }
            TraceAction::FreeCompleted => {
                self.inside(addr, size, stream)?;
                self.nothing_live(addr, size)?;
                self.blocks.insert(addr, Live { requested_size: size, is_pending: true });
                Ok(())
            }
            TraceAction::SegmentAlloc | TraceAction::SegmentMap => self.unmap(entry),
            TraceAction::SegmentFree | TraceAction::SegmentUnmap => {
                let is_expandable = entry.action == TraceAction::SegmentUnmap;
                self.map(addr, Mapped { size, stream, is_expandable })
            }
            TraceAction::Snapshot
            | TraceAction::Oom
            | TraceAction::UserDefined
            | TraceAction::Annotate => Ok(()),
        }
    }

    /// The live block that starts at `addr`, of the event's requested size.
    fn block(&self, addr: u64, requested_size: u64) -> Result<Live, &'static str> {
        let live = *self.blocks.get(&addr).ok_or("no live block starts there")?;
        if live.requested_size == requested_size {
            Ok(live)
        } else {
            Err("the block there has another requested size")
        }
    }

    fn inside(&self, addr: u64, size: u64, stream: Stream) -> Outcome {
        let (start, segment) = self.holding(addr, size)?;
        debug_assert!(start <= addr);
        if segment.stream == stream { Ok(()) } else { Err("its segment serves another stream") }
    }

    /// The segment that holds all of a range.
    fn holding(&self, addr: u64, size: u64) -> Result<(u64, Mapped), &'static str> {
        let end = addr.checked_add(size).ok_or("it reaches past the address space")?;
        match self.segments.range(..=addr).next_back() {
            Some((&start, &segment)) if end <= start + segment.size => Ok((start, segment)),
            _ => Err("it lies in no segment"),
        }
    }

    fn nothing_live(&self, addr: u64, size: u64) -> Outcome {
        let end = addr.checked_add(size).ok_or("it reaches past the address space")?;
        match self.blocks.range(..end).next_back() {
            Some((&block, live))
                if block.saturating_add(live.requested_size) > addr || block == addr =>
            {
                Err("a live block is in the way")
            }
            _ => Ok(()),
        }
    }

    fn map(&mut self, addr: u64, mut range: Mapped) -> Outcome {
        let end = addr.checked_add(range.size).ok_or("it reaches past the address space")?;
        let mut start = addr;
        if let Some((&previous, &before)) = self.segments.range(..end).next_back() {
            if previous + before.size > addr {
                return Err("a segment is in the way");
            }
            if previous + before.size == addr && before.joins(range) {
                start = previous;
                range.size += before.size;
            }
        }
        if let Some(&after) = self.segments.get(&end)
            && after.joins(range)
        {
            self.segments.remove(&end);
            range.size += after.size;
        }
        self.segments.insert(start, range);
        Ok(())
    }

    fn unmap(&mut self, entry: &TraceEntry) -> Outcome {
        let TraceEntry { addr: Addr(addr), size_bytes: size, stream, .. } = *entry;
        let (start, segment) = self.holding(addr, size)?;
        let is_expandable = entry.action == TraceAction::SegmentMap;
        if (segment.is_expandable, segment.stream) != (is_expandable, stream) {
            return Err("the segment there is of another kind or stream");
        }
        if !is_expandable && (start, segment.size) != (addr, size) {
            return Err("the segment there has another size");
        }
        self.nothing_live(addr, size)?;
        self.segments.remove(&start);
        let end = addr + size;
        let rest = start + segment.size - end;
        for (at, size) in [(start, addr - start), (end, rest)] {
            if size > 0 {
                self.segments.insert(at, Mapped { size, ..segment });
            }
        }
        Ok(())
    }
}

impl Mapped {
    /// Whether two neighbours are parts of one expandable segment, as a snapshot shows them.
    fn joins(self, other: Self) -> bool {
        self.is_expandable && other.is_expandable && self.stream == other.stream
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "device {}: {} events, reserved {} -> {}, requested {} -> {}",
            self.device,
            self.events,
            self.start_reserved_bytes,
            self.end_reserved_bytes,
            self.start_requested_bytes,
            self.end_requested_bytes
        )
    }
}
