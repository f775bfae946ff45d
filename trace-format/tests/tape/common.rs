//! Random tapes: what is written, and what reading it must give back.

use std::io::Write;

use proptest::prelude::*;
use trace_format::{
    Addr, BaseOrder, BaseState, BlockState, BlockStatus, Category, DeviceId, Event, Frame, Item,
    MarkKind, Meta, PageNumber, PoolId, PoolState, RangeState, ReadError, Reader, Record, Recovery,
    ScopeFilter, ScopeState, SegmentState, StackId, Stream, StringId, Tables, ThreadId, WriteError,
    Writer,
};

/// Strings and stacks that [`Tape`]s have; records name no others.
pub(crate) const STRINGS: u32 = 5;
/// See [`STRINGS`].
pub(crate) const STACKS: u32 = 4;

/// One call of the writer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A record.
    Push(DeviceId, Record),
    /// A state.
    Base(DeviceId, Box<BaseState>),
    /// A new description, with this as its host name.
    Meta(String),
    /// All that waits.
    Flush,
}

fn u64s() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..64).prop_map(|n| n * 512),
        2 => 0u64..300,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

fn addrs() -> impl Strategy<Value = Addr> {
    prop_oneof![
        8 => (0u64..16).prop_map(|n| Addr(0x7f00_0000_0000 + n * 512)),
        1 => any::<u64>().prop_map(Addr),
    ]
}

fn streams() -> impl Strategy<Value = Stream> {
    prop_oneof![4 => (0u64..3).prop_map(Stream), 1 => any::<u64>().prop_map(Stream)]
}

fn pools() -> impl Strategy<Value = PoolId> {
    prop_oneof![3 => Just(PoolId::DEFAULT), 1 => (u64s(), 0u64..3).prop_map(|(a, b)| PoolId(a, b))]
}

fn filters() -> impl Strategy<Value = ScopeFilter> {
    prop_oneof![Just(ScopeFilter::Capture), Just(ScopeFilter::Thread), Just(ScopeFilter::Unknown)]
}

fn marks() -> impl Strategy<Value = MarkKind> {
    (0..MarkKind::ALL.len()).prop_map(|code| MarkKind::ALL[code])
}

fn segments() -> impl Strategy<Value = Event> {
    (addrs(), u64s(), streams(), pools(), any::<bool>(), 0..4).prop_map(
        |(addr, size_bytes, stream, pool, is_large, which)| match which {
            0 => Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large },
            1 => Event::SegmentFree { addr, size_bytes, stream, pool, is_large },
            2 => Event::SegmentMap { addr, size_bytes, stream, pool, is_large },
            _ => Event::SegmentUnmap { addr, size_bytes, stream, pool, is_large },
        },
    )
}

fn blocks() -> impl Strategy<Value = Event> {
    (addrs(), u64s(), u64s(), streams(), pools(), any::<bool>(), 0..7_usize).prop_map(
        |(addr, requested_bytes, size_bytes, stream, pool, pending, which)| match which {
            0 => Event::Alloc { addr, requested_bytes, size_bytes, stream, pool },
            1 => Event::Free { addr, requested_bytes, size_bytes, pending },
            2 => Event::FreeCompleted { addr, requested_bytes, size_bytes },
            3 => Event::RecordStream { addr, stream },
            which => Event::Category { addr, category: Category::ALL[which - 4] },
        },
    )
}

fn pool_events() -> impl Strategy<Value = Event> {
    (pools(), any::<bool>(), filters(), 0..9).prop_map(|(pool, flag, filter, which)| match which {
        0 => Event::EmptyCache { pool, inferred: flag },
        1 => Event::PoolCreate { pool, own_source: flag },
        2 => Event::PoolBegin { pool, filter },
        3 => Event::PoolEnd { pool },
        4 => Event::PoolRelease { pool },
        5 => Event::PoolUseOnOom { pool, enabled: flag },
        6 => Event::PoolNoSplit { pool },
        7 => Event::CaptureBegin { pool },
        _ => Event::CaptureEnd { pool },
    })
}

fn others() -> impl Strategy<Value = Event> {
    let numbers = (u64s(), u64s(), u64s(), streams(), pools(), marks(), 0..=STRINGS, 0..8);
    numbers.prop_map(|(a, b, c, stream, pool, kind, string, which)| match which {
        0 => Event::Settings { text: StringId(string) },
        1 => Event::MemoryFraction { fraction: a as f64 / 1e6 },
        2 => Event::ResetPeak,
        3 => Event::ResetAccumulated,
        4 => Event::DriverRefused { size_bytes: a },
        5 => Event::Oom { requested_bytes: a, size_bytes: b, device_free_bytes: c, stream, pool },
        6 => Event::Mark { kind, name: StringId(string) },
        _ if a % 5 == 0 => Event::Snapshot { active_bytes: a },
        _ if a % 5 == 1 => Event::StreamPassed { stream, frees: b },
        _ if a % 5 == 2 => Event::PageMap { addr: Addr(b), page: PageNumber(string) },
        _ if a % 5 == 3 => Event::PageUnmap { addr: Addr(b), page: PageNumber(string) },
        _ => Event::Lost { count: a },
    })
}

/// Any record of a [`Tape`].
pub(crate) fn records() -> impl Strategy<Value = Record> {
    let events = prop_oneof![6 => blocks(), 1 => segments(), 1 => pool_events(), 1 => others()];
    let times = prop_oneof![4 => (0u64..1000).prop_map(|n| n * 1000), 1 => any::<u64>()];
    (times, 0u32..3, 0..=STACKS, events).prop_map(|(time_ns, thread, stack, event)| Record {
        time_ns,
        thread: ThreadId(thread),
        stack: StackId(stack),
        event,
    })
}

/// A state of up to three segments.
pub(crate) fn bases() -> impl Strategy<Value = BaseState> {
    let block = (1u64..5, 0u64..3, 0..=STACKS);
    let segment = (prop::collection::vec(block, 1..5), pools(), any::<[bool; 2]>());
    let pool = (pools(), any::<u32>(), any::<[bool; 3]>()).prop_map(
        |(pool, use_count, [own_source, use_on_oom, no_split])| PoolState {
            pool,
            use_count,
            own_source,
            use_on_oom,
            no_split,
        },
    );
    let scope = (pools(), filters()).prop_map(|(pool, filter)| ScopeState { pool, filter });
    (
        prop::collection::vec(segment, 0..3),
        prop::collection::vec(pool, 0..3),
        prop::collection::vec(scope, 0..3),
        prop::collection::vec(pools(), 0..2),
        (any::<u64>(), "[a-z:]{0,9}", prop::option::of(0.0..1.0f64), any::<bool>(), orders()),
        prop::collection::btree_map(any::<u64>(), any::<u32>(), 0..4),
    )
        .prop_map(|(segments, pools, scopes, captures, others, pages)| {
            let (time_ns, settings, memory_fraction, stats, order) = others;
            let numbered = segments.into_iter().zip(1u64..);
            BaseState {
                time_ns,
                segments: numbered.map(|(parts, n)| segment_of(n << 20, parts)).collect(),
                pages: pages.into_iter().map(|(a, p)| (Addr(a), PageNumber(p))).collect(),
                pools,
                scopes,
                captures,
                settings,
                memory_fraction,
                stats: if stats {
                    serde_json::json!({"num_ooms": time_ns}).to_string()
                } else {
                    String::new()
                },
                order,
            }
        })
}

fn orders() -> impl Strategy<Value = BaseOrder> {
    let addrs = || prop::collection::vec(any::<u64>().prop_map(Addr), 0..4);
    let range = (any::<u64>(), any::<u64>(), pools(), any::<bool>()).prop_map(
        |(addr, page_bytes, pool, is_large)| RangeState {
            addr: Addr(addr),
            page_bytes,
            stream: Stream(addr % 7),
            pool,
            is_large,
        },
    );
    let age = (any::<u64>().prop_map(Addr), any::<u32>());
    let order = (
        addrs(),
        prop::collection::vec(range, 0..3),
        prop::collection::vec(age, 0..3),
        addrs(),
        (
            prop::collection::vec(pools(), 0..3),
            prop::collection::vec(pools(), 0..3),
            prop::collection::vec(pools(), 0..3),
        ),
    );
    let known = order.prop_map(|(begun, ranges, ages, pending, lists)| {
        let (released_pools, lending_pools, unsplit_pools) = lists;
        BaseOrder { unsplit_pools, begun, ranges, ages, pending, released_pools, lending_pools }
    });
    prop_oneof![Just(BaseOrder::default()), known]
}

type Parts = (Vec<(u64, u64, u32)>, PoolId, [bool; 2]);

fn segment_of(at: u64, (parts, pool, [is_large, is_expandable]): Parts) -> SegmentState {
    let mut addr = at;
    let mut blocks = Vec::new();
    for (units, status, stack) in parts {
        let status = match status {
            0 => BlockStatus::Inactive,
            1 => BlockStatus::Allocated,
            _ => BlockStatus::PendingFree,
        };
        let (size_bytes, requested_bytes) = (units * 512, units * 500);
        let stack = StackId(stack);
        blocks.push(BlockState { addr: Addr(addr), size_bytes, requested_bytes, status, stack });
        addr += size_bytes;
    }
    SegmentState {
        addr: Addr(at),
        size_bytes: addr - at,
        stream: Stream(at % 7),
        pool,
        is_large,
        is_expandable,
        stack: StackId((at % u64::from(STACKS)) as u32),
        blocks,
    }
}

/// Any sequence of calls of the writer.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let devices = || (0u16..3).prop_map(DeviceId);
    let step = prop_oneof![
        40 => (devices(), records()).prop_map(|(device, record)| Step::Push(device, record)),
        1 => (devices(), bases()).prop_map(|(device, base)| Step::Base(device, Box::new(base))),
        1 => "[a-z]{0,5}".prop_map(Step::Meta),
        2 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 0..most)
}

/// Takes the steps on a tape that has [`STRINGS`] strings and [`STACKS`] stacks.
pub(crate) fn write(steps: &[Step]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "a test's tape", &Meta::default()).unwrap();
    take(&mut writer, steps).unwrap();
    let most_bytes = writer.size_at_most_bytes();
    let tape = writer.finish().unwrap();
    assert!(tape.len() as u64 <= most_bytes, "{} bytes, {most_bytes} at most", tape.len());
    tape
}

/// Takes the steps, up to the first that fails.
pub(crate) fn take<W: Write>(writer: &mut Writer<W>, steps: &[Step]) -> Result<(), WriteError> {
    for n in 1..=STRINGS {
        assert_eq!(writer.string(&format!("string {n}"))?, StringId(n));
    }
    for n in 1..=STACKS {
        let frame = |line| Frame { name: StringId(n), filename: StringId(1), line };
        assert_eq!(writer.stack(&[frame(n), frame(n + 1)])?, StackId(n));
    }
    for step in steps {
        match step {
            Step::Push(device, record) => writer.push(*device, record)?,
            Step::Base(device, base) => writer.base(*device, base)?,
            Step::Meta(hostname) => writer.meta(&described(hostname))?,
            Step::Flush => writer.flush()?,
        }
    }
    Ok(())
}

fn described(hostname: &str) -> Meta {
    Meta { hostname: Some(hostname.to_owned()), ..Meta::default() }
}

/// One device as read: its states and records in order. Records of different devices have no order.
pub(crate) fn expected(steps: &[Step], device: DeviceId) -> Vec<Item> {
    let items = steps.iter().filter_map(|step| match step {
        Step::Push(at, record) => Some(Item::Event(*at, *record)),
        Step::Base(at, base) => Some(Item::Base(*at, base.clone())),
        Step::Meta(_) | Step::Flush => None,
    });
    items.filter(|item| device_of(item) == Some(device)).collect()
}

/// The device of an item.
pub(crate) fn device_of(item: &Item) -> Option<DeviceId> {
    match item {
        Item::Base(device, _) | Item::Event(device, _) => Some(*device),
        Item::Meta(_) => None,
    }
}

/// A tape as read.
pub(crate) struct Outcome {
    /// The items up to its end or its first error.
    pub(crate) items: Vec<Item>,
    /// How it ended.
    pub(crate) recovery: Recovery,
    /// The strings and stacks.
    pub(crate) tables: Tables,
    /// The error, if there was one.
    pub(crate) error: Option<ReadError>,
}

/// Reads a tape; `Err` if it cannot be opened.
pub(crate) fn read(tape: &[u8]) -> Result<Outcome, ReadError> {
    let mut reader = Reader::new(tape, "a test's tape")?;
    let mut items = Vec::new();
    let mut error = None;
    for item in reader.by_ref() {
        match item {
            Ok(item) => items.push(item),
            Err(e) => error = Some(e),
        }
    }
    let (recovery, tables) = (reader.recovered().clone(), reader.tables().clone());
    Ok(Outcome { items, recovery, tables, error })
}
