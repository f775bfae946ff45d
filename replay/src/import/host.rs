//! Pinned host memory of a snapshot: PyTorch's history of its blocks as the readings that a tape has.

use trace_format::{Event, HostReading, MarkKind};

use super::insert::Insert;
use crate::snapshot::{HostBlock, Stacks, TraceAction, TraceEntry};

/// A reading where memory was pinned or unpinned, and the last one, as moments between the entries of a device. The
/// history may have lost its first events, so it is walked back from the blocks at the end.
pub(super) fn moments(
    trace: &[TraceEntry],
    blocks: &[HostBlock],
    entries: &[TraceEntry],
    stacks: &mut Stacks,
) -> Vec<Insert> {
    let mut reading = before(trace, blocks);
    let mut before = 0;
    let mut moments = Vec::new();
    for (at, entry) in trace.iter().enumerate() {
        take(&mut reading, entry);
        let is_last = at + 1 == trace.len();
        if is_last || matches!(entry.action, TraceAction::SegmentAlloc | TraceAction::SegmentFree) {
            while entries.get(before).is_some_and(|of_device| of_device.time_us <= entry.time_us) {
                before += 1;
            }
            let name = stacks.add_string(&reading.mark());
            let event = Event::Mark { kind: MarkKind::Instant, name };
            moments.push(Insert { before, time_us: Some(entry.time_us), event });
        }
    }
    if trace.is_empty() && !blocks.is_empty() {
        let name = stacks.add_string(&reading.mark());
        moments.push(Insert::new(entries.len(), Event::Mark { kind: MarkKind::Instant, name }));
    }
    moments
}

/// What there was before the first event.
fn before(trace: &[TraceEntry], blocks: &[HostBlock]) -> HostReading {
    let active = || blocks.iter().filter(|block| block.is_active);
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let mut reading = HostReading {
        reserved_bytes: sum(&mut blocks.iter().map(|block| block.size_bytes)),
        blocks: blocks.len() as u64,
        active_bytes: Some(sum(&mut active().map(|block| block.size_bytes))),
        active_blocks: Some(active().count() as u64),
        is_per_block: true,
        ..HostReading::default()
    };
    for entry in trace.iter().rev() {
        change(&mut reading, entry, true);
    }
    reading.reserved_bytes_peak = reading.reserved_bytes;
    reading.active_bytes_peak = reading.active_bytes;
    reading
}

fn take(reading: &mut HostReading, entry: &TraceEntry) {
    change(reading, entry, false);
    reading.reserved_bytes_peak = reading.reserved_bytes_peak.max(reading.reserved_bytes);
    reading.active_bytes_peak = reading.active_bytes_peak.max(reading.active_bytes);
}

/// Does an event, or undoes it.
fn change(reading: &mut HostReading, entry: &TraceEntry, is_undone: bool) {
    let add = |number: &mut u64, by: u64, is_more: bool| {
        let is_more = is_more != is_undone;
        *number = if is_more { number.saturating_add(by) } else { number.saturating_sub(by) };
    };
    let is_more = matches!(entry.action, TraceAction::SegmentAlloc | TraceAction::Alloc);
    match entry.action {
        TraceAction::SegmentAlloc | TraceAction::SegmentFree => {
            add(&mut reading.reserved_bytes, entry.size_bytes, is_more);
            add(&mut reading.blocks, 1, is_more);
        }
        TraceAction::Alloc | TraceAction::FreeCompleted => {
            reading.active_bytes.iter_mut().for_each(|bytes| add(bytes, entry.size_bytes, is_more));
            reading.active_blocks.iter_mut().for_each(|blocks| add(blocks, 1, is_more));
        }
        _ => {} // A requested free is in use until it is complete.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::{Addr, StackId, Stream};

    fn entry(action: TraceAction, size_bytes: u64, time_us: u64) -> TraceEntry {
        let (addr, stream, stack) = (Addr(1), Stream(0), StackId::NONE);
        TraceEntry {
            action,
            addr,
            size_bytes,
            stream,
            pool: None,
            time_us,
            cuts_segment: false,
            stack,
        }
    }

    #[test]
    fn a_history_that_lost_its_start_is_walked_back_from_the_end() {
        use TraceAction::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree};
        // Before it: a free block of 4 bytes and an active one of 2.
        let trace = [
            entry(Alloc, 4, 10),
            entry(SegmentAlloc, 8, 20),
            entry(Alloc, 8, 20),
            entry(FreeRequested, 8, 30),
            entry(FreeCompleted, 8, 40),
            entry(SegmentFree, 8, 50),
        ];
        let blocks = [(4, true), (2, true)];
        let blocks = blocks.map(|(size_bytes, is_active)| HostBlock { size_bytes, is_active });
        let entries = [entry(Alloc, 1, 15), entry(Alloc, 1, 45)];
        let mut stacks = Stacks::default();
        let moments = moments(&trace, &blocks, &entries, &mut stacks);
        let places: Vec<_> = moments.iter().map(|moment| (moment.before, moment.time_us)).collect();
        assert_eq!(places, [(1, Some(20)), (2, Some(50))]);
        let readings: Vec<_> = moments
            .iter()
            .map(|moment| match moment.event {
                Event::Mark { name, .. } => HostReading::of_mark(stacks.text(name)).unwrap(),
                _ => panic!("{moment:?}"),
            })
            .collect();
        let held =
            |reading: &HostReading| (reading.reserved_bytes, reading.active_bytes, reading.blocks);
        assert_eq!(held(&readings[0]), (14, Some(6), 3));
        assert_eq!(held(&readings[1]), (6, Some(6), 2));
        assert_eq!(
            (readings[1].reserved_bytes_peak, readings[1].active_bytes_peak),
            (14, Some(14))
        );
        assert!(readings[1].is_per_block);
    }
}
