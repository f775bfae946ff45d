//! The addresses a recorded device answered with, for the simulated one: ties in the best-fit order then break alike.

use std::collections::{BTreeMap, VecDeque};

use allocator::heap::{BaseRange, base_ranges};
use sim_device::SimDevice;
use trace_format::{Addr, BaseState, Event, PageNumber, PoolId, Record, Stream};

/// Recorded segment addresses, in the order in which the device was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Answers to `cudaMalloc`.
    pub malloc: VecDeque<Addr>,
    /// Answers to `cuMemAddressReserve`: where each expandable segment begins.
    pub reserve: VecDeque<Addr>,
}

impl Script {
    /// The addresses on a tape, those of its start first.
    pub fn from_tape(
        base: &BaseState,
        records: &[Record],
        large_page_bytes: u64,
        reserve_bytes: u64,
    ) -> Self {
        let plain = base.segments.iter().filter(|segment| !segment.is_expandable);
        let mut script =
            Self { malloc: plain.map(|segment| segment.addr).collect(), reserve: VecDeque::new() };
        let mut hulls = Hulls::default();
        for range in base_ranges(base, large_page_bytes, reserve_bytes) {
            script.reserve.push_back(range.addr);
            hulls.begin(&range);
        }
        base.pages.iter().for_each(|(addr, _)| hulls.map_page(*addr));
        for record in records {
            match record.event {
                Event::SegmentAlloc { addr, .. } => script.malloc.push_back(addr),
                Event::SegmentMap { addr, size_bytes, stream, pool, is_large }
                    if hulls.map(addr, size_bytes, (stream, pool, is_large)) =>
                {
                    // The first home of a run whose pages all had theirs elsewhere may be an end of a page.
                    script.reserve.push_back(Addr(addr.0 - addr.0 % PageNumber::PAGE_BYTES));
                }
                Event::SegmentUnmap { addr, size_bytes, .. } => hulls.unmap(addr, size_bytes),
                Event::PageMap { addr, .. } => hulls.map_page(addr),
                _ => {}
            }
        }
        script
    }

    /// The lowest address on it, where the simulated device's addresses may begin.
    pub fn lowest(&self) -> Option<Addr> {
        self.malloc.iter().chain(&self.reserve).min().copied()
    }

    /// Hands the script to a device.
    pub fn give_to(self, device: &mut SimDevice) {
        device.set_scripts(self.malloc, self.reserve);
    }
}

/// The stream, pool and kind that an expandable segment serves as long as it lives.
type Kind = (Stream, PoolId, bool);

/// The range of each expandable segment that was ever mapped, by its first address.
#[derive(Default)]
struct Hulls(BTreeMap<u64, Hull>);

struct Hull {
    end: u64,
    mapped_bytes: u64,
    kind: Kind,
}

impl Hulls {
    /// A segment of the start; its first pages may be unmapped, and pages between others.
    fn begin(&mut self, range: &BaseRange<'_>) {
        let end = range.runs.last().map_or(range.addr.0, |run| run.addr.0 + run.size_bytes);
        let mapped_bytes = range.runs.iter().map(|run| run.size_bytes).sum();
        let kind = (range.stream, range.pool, range.is_large);
        self.0.insert(range.addr.0, Hull { end, mapped_bytes, kind });
    }

    /// Maps pages; true if a new segment begins with them. A segment grows without holes beyond its hull, and its
    /// addresses reach far further than it grows, so that no other begins where it ends.
    fn map(&mut self, addr: Addr, size_bytes: u64, kind: Kind) -> bool {
        let end = addr.0.saturating_add(size_bytes);
        if let Some((_, hull)) = self.0.range_mut(..=addr.0).next_back()
            && hull.kind == kind
            && addr.0 <= hull.end
        {
            hull.end = hull.end.max(end);
            hull.mapped_bytes = hull.mapped_bytes.saturating_add(size_bytes);
            return false;
        }
        self.0.insert(addr.0, Hull { end, mapped_bytes: size_bytes, kind });
        true
    }

    /// A page is mapped in a segment, or behind it: not all of its bytes may have their home there.
    fn map_page(&mut self, addr: Addr) {
        let hull = self.0.range_mut(..=addr.0).next_back().map(|(_, hull)| hull);
        if let Some(hull) = hull.filter(|hull| addr.0 <= hull.end) {
            hull.end = hull.end.max(addr.0.saturating_add(PageNumber::PAGE_BYTES));
        }
    }

    /// Unmaps pages; with its last page a segment ends.
    fn unmap(&mut self, addr: Addr, size_bytes: u64) {
        if let Some((&base, hull)) = self.0.range_mut(..=addr.0).next_back() {
            hull.mapped_bytes = hull.mapped_bytes.saturating_sub(size_bytes);
            if hull.mapped_bytes == 0 {
                self.0.remove(&base);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trace_format::{StackId, ThreadId};

    use super::*;

    #[test]
    fn a_run_never_begins_at_the_end_of_a_page() {
        let map = |addr, size_bytes| {
            let (stream, pool) = (Stream(0), PoolId::DEFAULT);
            Event::SegmentMap { addr: Addr(addr), size_bytes, stream, pool, is_large: true }
        };
        let unmap = |addr, size_bytes| {
            let (stream, pool) = (Stream(0), PoolId::DEFAULT);
            Event::SegmentUnmap { addr: Addr(addr), size_bytes, stream, pool, is_large: true }
        };
        let page = PageNumber::PAGE_BYTES;
        // All pages have their homes elsewhere, and then the end of one has it here.
        let events = [map(8 * page, page), unmap(8 * page, page), map(8 * page + 512, page - 512)];
        let record =
            |event| Record { time_ns: 0, thread: ThreadId(0), stack: StackId::NONE, event };
        let records = events.map(record);
        let script = Script::from_tape(&BaseState::default(), &records, 20 << 20, 1 << 30);
        assert!(script.reserve.iter().all(|addr| addr.0 == 8 * page), "{:?}", script.reserve);
    }

    #[test]
    fn pages_behind_one_with_another_home_begin_no_segment() {
        let page = |slot: u64| Addr(slot * PageNumber::PAGE_BYTES);
        let map = |slot| Event::PageMap { addr: page(slot), page: PageNumber(slot as u32) };
        let home = |slot| Event::SegmentMap {
            addr: page(slot),
            size_bytes: PageNumber::PAGE_BYTES,
            stream: Stream(0),
            pool: PoolId::DEFAULT,
            is_large: true,
        };
        // The last bytes of the page at slot 2 get their home there after the whole pages behind it.
        let events = [map(1), home(1), map(2), map(3), home(3)];
        let record =
            |event| Record { time_ns: 0, thread: ThreadId(0), stack: StackId::NONE, event };
        let records = events.map(record);
        let script = Script::from_tape(&BaseState::default(), &records, 20 << 20, 1 << 30);
        assert_eq!(script.reserve, [page(1)]);
    }
}
