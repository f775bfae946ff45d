//! The invariants of `stitch`, from outside: the heap's segments, the device's mappings, and the program's own list of
//! blocks. It shares no code with the strategy.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use device::{Device, DeviceCall, EventId, PhysicalHandle};
use events::{BlockState, BlockStatus, SegmentState};
use trace_format::{Addr, DeviceId, PoolId, Stream};

use crate::support::{MIB, TestHeap};

const PAGE_BYTES: u64 = 2 * MIB;
/// The streams that a program requests memory on.
pub(super) const STREAMS: [Stream; 3] = [Stream(0), Stream(16), Stream(32)];

/// Bytes of a page that are in the heap's segments, at a slot, and those of them that blocks hold.
#[derive(Clone, Debug)]
struct Home {
    slot: Addr,
    bytes: Range<u64>,
    stream: Stream,
    used: Vec<Range<u64>>,
}

/// What was there after the call before.
#[derive(Default)]
pub(super) struct Checker {
    homes: HashMap<PhysicalHandle, Vec<Home>>,
    /// For each stream, the number of the last call after which all of its work was done.
    done: HashMap<Stream, u64>,
    /// For each page, the number of the last call that freed a block in it.
    freed: HashMap<PhysicalHandle, u64>,
    /// For each slot of a block that was freed, its page, the stream, and the number of the last such call.
    used: HashMap<Addr, (PhysicalHandle, Stream, u64)>,
    call: u64,
    /// The calls after which a page had two homes.
    pub(super) parted_calls: u64,
    /// An event of each stream behind the call before, which is done if the device has waited for the stream since.
    marks: HashMap<Stream, EventId>,
}

impl Checker {
    /// A block of a stream is about to be freed.
    pub(super) fn frees(
        &mut self,
        heap: &mut TestHeap,
        addr: Addr,
        size_bytes: u64,
        stream: Stream,
    ) {
        let call = self.call;
        for (slot, page) in pages_of(heap, addr, size_bytes) {
            self.freed.insert(page, call);
            self.used.insert(slot, (page, stream, call));
        }
    }

    /// Fails where an invariant is broken after a call; `live` are the program's blocks with their sizes.
    pub(super) fn check(&mut self, heap: &mut TestHeap, live: &BTreeMap<Addr, u64>) {
        for (&stream, &event) in &self.marks {
            if heap.device_mut().event_query(event).expect("it is recorded") {
                self.done.insert(stream, self.call);
            }
        }
        // 5: a slot is unmapped only after all work that used it is done.
        self.used.retain(|slot, (page, stream, call)| {
            let is_mapped = heap.device_mut().mapped_at(*slot) == Some(*page);
            let is_done = *call < self.done.get(stream).copied().unwrap_or(0);
            assert!(
                is_mapped || is_done,
                "{slot} was unmapped before {stream:?} had passed its last use"
            );
            is_mapped
        });
        self.call += 1;
        let segments: Vec<SegmentState> = heap.segments(PoolId::DEFAULT);
        let (runs, plain): (Vec<_>, Vec<_>) = segments.iter().partition(|one| one.is_expandable);

        // 9: live blocks are disjoint. 1 and 3: so are their bytes. 8: each of them is mapped with access.
        let mut end = Addr(0);
        let mut bytes: HashMap<PhysicalHandle, Vec<(u64, u64)>> = HashMap::new();
        for (&addr, &size_bytes) in live {
            assert!(addr >= end, "blocks overlap at {addr}");
            end = Addr(addr.0 + size_bytes);
            if plain.iter().any(|one| one.addr <= addr && addr.0 < one.addr.0 + one.size_bytes) {
                continue;
            }
            let mut at = addr.0;
            while at < end.0 {
                let next = (at / PAGE_BYTES + 1) * PAGE_BYTES;
                let page = heap.device_mut().mapped_at(Addr(at)).expect("a live block is mapped");
                assert!(
                    heap.device_mut().accessible(Addr(at), DeviceId(0)),
                    "{addr} is accessible"
                );
                bytes.entry(page).or_default().push((at % PAGE_BYTES, next.min(end.0) - at));
                at = next;
            }
        }
        for (page, used) in &mut bytes {
            used.sort_unstable();
            let are_apart = used.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0);
            assert!(are_apart, "{page:?}: two blocks share a byte: {used:?}");
        }

        // 2: every byte of a page has one home, in one or two places, and the blocks of the runs tile the homes.
        let mut homes: HashMap<PhysicalHandle, Vec<Home>> = HashMap::new();
        for run in &runs {
            let sum: u64 = run.blocks.iter().map(|block| block.size_bytes).sum();
            assert_eq!(sum, run.size_bytes, "blocks tile the homes at {}", run.addr);
            for (slot, bytes) in slots_of(run.addr, run.size_bytes) {
                let page = heap.device_mut().mapped_at(slot).expect("a home is mapped");
                let home = Home { slot, bytes, stream: run.stream, used: Vec::new() };
                homes.entry(page).or_default().push(home);
            }
            // The next call may complete the frees that wait.
            let held = |block: &&BlockState| block.status == BlockStatus::Allocated;
            for block in run.blocks.iter().filter(held) {
                for (slot, bytes) in slots_of(block.addr, block.size_bytes) {
                    let page = heap.device_mut().mapped_at(slot).expect("a home is mapped");
                    let homes = homes.get_mut(&page).expect("entered above");
                    let home = homes.iter_mut().find(|home| home.slot == slot);
                    home.expect("a block is in a home").used.push(bytes);
                }
            }
        }
        for (page, homes) in &mut homes {
            homes.sort_unstable_by_key(|home| home.bytes.start);
            let ends = homes.iter().map(|home| home.bytes.end);
            let begins = homes.iter().map(|home| home.bytes.start).chain([PAGE_BYTES]);
            assert!([0].into_iter().chain(ends).eq(begins), "{page:?} has other homes: {homes:?}");
            let are_of_one = homes.iter().all(|home| home.stream == homes[0].stream);
            assert!(are_of_one && homes.len() <= 2, "{page:?}: {homes:?}");
        }

        self.parted_calls += u64::from(homes.values().any(|homes| homes.len() == 2));

        // 4: bytes move only when they are free, and to another stream only when their own has passed the free.
        for (page, homes) in &homes {
            let Some(before) = self.homes.get(page) else { continue };
            for old in before {
                for used in &old.used {
                    let is_there = |home: &Home| {
                        home.slot == old.slot
                            && home.bytes.start <= used.start
                            && used.end <= home.bytes.end
                    };
                    assert!(homes.iter().any(is_there), "{used:?} of {page:?} moved in use");
                }
            }
            if before[0].stream != homes[0].stream {
                assert!(before.iter().all(|home| home.used.is_empty()), "{page:?} moved in use");
                let done = self.done.get(&before[0].stream).copied().unwrap_or(0);
                let freed = self.freed.get(page).copied().unwrap_or(0);
                assert!(freed < done, "{page:?} changed streams before its own had passed");
            }
        }

        // 7: reserved is pages, wherever they are mapped. 10: as many exist as the device says.
        let plain_bytes: u64 = plain.iter().map(|segment| segment.size_bytes).sum();
        let page_bytes = homes.len() as u64 * PAGE_BYTES;
        assert_eq!(
            heap.reserved_bytes(),
            page_bytes + plain_bytes,
            "reserved is pages and segments"
        );
        let counts = heap.device_mut().counts();
        let made = counts.of(DeviceCall::Create) - counts.of(DeviceCall::Release);
        assert!(made >= homes.len() as u64, "{made} pages exist, {} have a home", homes.len());
        let mapped = heap.device_mut().mapping_count() as u64;
        assert!(mapped >= homes.len() as u64, "{mapped} mappings");
        self.homes = homes;
        self.release_marks(heap);
        for stream in STREAMS {
            let event = heap.device_mut().event_record(stream).expect("it is not captured");
            self.marks.insert(stream, event);
        }
    }

    pub(super) fn release_marks(&mut self, heap: &mut TestHeap) {
        self.marks.drain().for_each(|(_, event)| heap.device_mut().event_release(event));
    }

    /// 11: the limits hold.
    pub(super) fn check_limit(heap: &mut TestHeap, limit_bytes: u64) {
        assert!(heap.reserved_bytes() <= limit_bytes, "more is reserved than allowed");
        let memory = heap.device_mut().memory_info().expect("the device answers");
        assert!(memory.free_bytes <= memory.total_bytes, "more is used than there is");
    }
}

/// The slots that a range of addresses touches, and which bytes of each.
fn slots_of(addr: Addr, size_bytes: u64) -> impl Iterator<Item = (Addr, Range<u64>)> {
    let end = addr.0 + size_bytes;
    let slots = addr.0 / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
    slots.map(move |slot| {
        let start = slot * PAGE_BYTES;
        (Addr(start), addr.0.saturating_sub(start)..(end - start).min(PAGE_BYTES))
    })
}

/// The slots that a block touches, with the pages there.
fn pages_of(heap: &mut TestHeap, addr: Addr, size_bytes: u64) -> Vec<(Addr, PhysicalHandle)> {
    let slots = slots_of(addr, size_bytes);
    slots.filter_map(|(slot, _)| Some((slot, heap.device_mut().mapped_at(slot)?))).collect()
}
