//! The envelopes of private pools, by the rules of PyTorch's viewer since pull request 180515.

use std::collections::BTreeMap;

use replay::import::RunLimits;
use replay::tape::{Device, Tape};
use trace_format::{
    Addr, BlockState, BlockStatus, DeviceId, Event, PoolId, Record, SegmentState, StackId, State,
    Stream, ThreadId,
};

use crate::decode::Decoded;
use crate::{bands, grouping, number, page, random_tape, truth};

const MIB: u64 = 1 << 20;
const GRAPH: PoolId = PoolId(1, 42);

/// A tape whose records are these events, after a start with these segments.
fn tape(segments: Vec<SegmentState>, events: &[Event]) -> Tape {
    let mut device = Device { id: DeviceId(0), ..Device::default() };
    device.base.segments = segments;
    let record = |(at, event): (usize, &Event)| Record {
        time_ns: at as u64,
        thread: ThreadId(1),
        stack: StackId::NONE,
        event: *event,
    };
    device.records = events.iter().enumerate().map(record).collect();
    Tape { devices: vec![device], ..Tape::default() }
}

fn reserve(addr: u64, mib: u64, pool: PoolId, stream: u64) -> Event {
    let (addr, size_bytes, stream) = (Addr(addr << 32), mib * MIB, Stream(stream));
    Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: true }
}

fn map(addr: u64, mib: u64, pool: PoolId) -> Event {
    let (addr, size_bytes, stream) = (Addr(addr), mib * MIB, Stream(0));
    Event::SegmentMap { addr, size_bytes, stream, pool, is_large: true }
}

fn unmap(addr: u64, mib: u64, pool: PoolId) -> Event {
    let (addr, size_bytes, stream) = (Addr(addr), mib * MIB, Stream(0));
    Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large: true }
}

fn alloc(addr: u64, mib: u64, pool: PoolId, stream: u64) -> Event {
    let (addr, size_bytes, stream) = (Addr(addr << 32), mib * MIB, Stream(stream));
    Event::Alloc { addr, requested_bytes: size_bytes, size_bytes, stream, pool }
}

fn free(addr: u64, mib: u64, pending: bool) -> Event {
    let (addr, size_bytes) = (Addr(addr << 32), mib * MIB);
    Event::Free { addr, requested_bytes: size_bytes, size_bytes, pending }
}

/// A segment of the start, allocated in full or empty.
fn segment(addr: u64, mib: u64, pool: PoolId, stream: u64, status: BlockStatus) -> SegmentState {
    let (addr, size_bytes) = (Addr(addr << 32), mib * MIB);
    let requested_bytes = if status == BlockStatus::Inactive { 0 } else { size_bytes };
    let stack = StackId::NONE;
    SegmentState {
        addr,
        size_bytes,
        stream: Stream(stream),
        pool,
        is_large: true,
        is_expandable: false,
        stack,
        blocks: vec![BlockState { addr, size_bytes, requested_bytes, status, stack }],
    }
}

/// The height of each envelope, by its label, from the moments at which it grows.
fn heights(page: &Decoded) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut heights: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let Some(mut arrays) = page.arrays("d0/envelopes") else { return heights };
    let (_, labels) = grouping(page, "private pool");
    let (moments, groups, (bytes, _)) = (arrays.rising(), arrays.plain(), arrays.bytes());
    arrays.end();
    for ((moment, group), bytes) in moments.into_iter().zip(groups).zip(bytes) {
        let grown = heights.entry(labels[group as usize].clone()).or_default();
        let before = grown.last().map_or(0, |(_, bytes)| *bytes);
        grown.push((moment, before + bytes));
    }
    heights
}

/// The same for one envelope, in MiB.
fn heights_of(page: &Decoded, label: &str) -> Vec<(u64, u64)> {
    let heights = heights(page);
    let heights = heights.get(label).unwrap_or_else(|| panic!("{label} of {:?}", heights.keys()));
    heights.iter().map(|(moment, bytes)| (*moment, bytes / MIB)).collect()
}

#[test]
fn a_default_pool_has_no_envelope() {
    let events = [reserve(1, 5000, PoolId::DEFAULT, 0), alloc(1, 200, PoolId::DEFAULT, 0)];
    let page = page(&tape(Vec::new(), &events));
    assert!(page.arrays("d0/envelopes").is_none());
    let groupings = page.header["devices"][0]["groupings"].as_array().unwrap();
    assert!(groupings.iter().all(|it| it["quantity"] != "envelope"));
    assert_eq!(number(&page.header["devices"][0]["peaks"], "enveloped_bytes"), 200 << 20);
}

#[test]
fn segments_and_pages_make_an_envelope_grow_alike_and_it_never_shrinks() {
    let base = 7 << 32;
    let events = [
        map(base, 500, GRAPH),
        alloc(7, 500, GRAPH, 0),
        free(7, 500, false),
        unmap(base, 500, GRAPH),
        map(base, 400, GRAPH),
        alloc(7, 400, GRAPH, 0),
        reserve(8, 600, GRAPH, 0),
        unmap(base + 200 * MIB, 200, GRAPH),
    ];
    // The block of the last unmapped pages goes first.
    let events = [&events[..7], &[free(7, 400, false)], &events[7..]].concat();
    let page = page(&tape(Vec::new(), &events));
    assert_eq!(heights_of(&page, "(1, 42), stream 0"), [(1, 500), (7, 1000)]);
}

#[test]
fn active_bytes_above_the_reserved_ones_are_the_height() {
    // The record of the segment is lost: only half of it is known.
    let events = [
        reserve(1, 500, GRAPH, 0),
        Event::Lost { count: 7 },
        alloc(1, 500, GRAPH, 0),
        alloc(2, 500, GRAPH, 0),
        free(2, 500, true),
    ];
    let page = page(&tape(Vec::new(), &events));
    assert_eq!(heights_of(&page, "(1, 42), stream 0"), [(1, 500), (4, 1000)]);
}

#[test]
fn memory_from_before_the_first_record_is_counted_once() {
    let (used, empty) = (BlockStatus::Allocated, BlockStatus::Inactive);
    let before = vec![segment(1, 600, GRAPH, 0, used), segment(2, 100, PoolId(0, 9), 0, empty)];
    let events = [free(1, 600, false), alloc(1, 600, GRAPH, 0), reserve(3, 50, GRAPH, 0)];
    let page = page(&tape(before, &events));
    assert_eq!(heights_of(&page, "(1, 42), stream 0"), [(0, 600), (3, 650)]);
    assert_eq!(heights_of(&page, "(0, 9), stream 0"), [(0, 100)]);
    assert_eq!(number(&page.header["devices"][0]["peaks"], "enveloped_bytes"), 750 << 20);
}

#[test]
fn each_stream_of_a_private_pool_has_its_own_envelope() {
    let events = [
        reserve(1, 10, GRAPH, 0),
        reserve(2, 20, GRAPH, 7),
        alloc(2, 20, GRAPH, 7),
        reserve(3, 30, PoolId::DEFAULT, 7),
        alloc(3, 30, PoolId::DEFAULT, 7),
    ];
    let page = page(&tape(Vec::new(), &events));
    assert_eq!(heights_of(&page, "(1, 42), stream 0"), [(1, 10)]);
    assert_eq!(heights_of(&page, "(1, 42), stream 7"), [(2, 20)]);
    let (_, labels) = grouping(&page, "private pool");
    assert_eq!(labels, ["default pools", "(1, 42), stream 0", "(1, 42), stream 7"]);
    assert_eq!(number(&page.header["devices"][0]["peaks"], "enveloped_bytes"), 60 << 20);
}

/// The height of each envelope at each moment, from whole states.
fn expected(device: &Device) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut state = State::from_base(&device.base).unwrap();
    let mut heights: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let mut look = |moment: u64, state: &State| {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for segment in state.segments().iter().filter(|it| !it.pool.is_default()) {
            let sum =
                sums.entry(format!("{}, stream {}", segment.pool, segment.stream)).or_default();
            sum.0 += segment.size_bytes;
            let active = segment.blocks.iter().filter(|it| it.status != BlockStatus::Inactive);
            sum.1 += active.map(|block| block.size_bytes).sum::<u64>();
        }
        for (label, (reserved, active)) in sums {
            let height = reserved.max(active);
            let grown = heights.entry(label).or_default();
            if height > grown.last().map_or(0, |(_, bytes)| *bytes) {
                grown.push((moment, height));
            }
        }
    };
    look(0, &state);
    for (at, record) in device.records.iter().enumerate() {
        state.apply(record).unwrap();
        look(at as u64 + 1, &state);
    }
    heights
}

#[test]
fn envelopes_of_recorded_graph_pools_are_those_of_their_states() {
    let folder = format!("{}/../tests/data", env!("CARGO_MANIFEST_DIR"));
    for (file, envelopes) in [
        ("traces/cudagraph_pools-default.pickle.zst", 6),
        ("traces/cudagraph_pools-expandable.pickle.zst", 6),
        ("snapshots/2.15-pools.pickle", 1),
        ("snapshots/2.8-overflow.pickle", 0),
    ] {
        let tape = Tape::open(format!("{folder}/{file}"), &RunLimits::default()).unwrap();
        let expected = expected(&tape.devices[0]);
        assert_eq!(heights(&page(&tape)), expected, "{file}");
        assert_eq!(expected.len(), envelopes, "{file}: {:?}", expected.keys());
    }
}

#[test]
fn the_groups_below_and_in_envelopes_are_all_allocated_bytes_at_every_level() {
    let tape = random_tape(5, 20_000);
    let (page, truth) = (page(&tape), truth(&tape.devices[0]));
    assert_eq!(heights_of(&page, "(0, 3), stream 0"), [(0, 64)], "its segment from the start");
    let (place, labels) = grouping(&page, "private pool");
    assert_eq!(labels, ["default pools", "(0, 3), stream 0"]);
    let levels = page.header["devices"][0]["levels"].as_array().unwrap().len();
    for level in 0..levels {
        let peaks = crate::check_series(&page, level, &truth);
        for (groups, peak) in bands(&page, place, level).iter().zip(peaks) {
            assert_eq!(groups.values().sum::<u64>(), truth.allocated[peak], "moment {peak}");
        }
    }
}
