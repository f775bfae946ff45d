//! A tape that begins in the middle of a run replays as its recording, placement for placement.
//!
//! A heap on a simulated device records random calls; its tape is cut at a random call, where the heap's base state is
//! taken, and replayed from there under the recorded settings.

use std::sync::Arc;

use allocator::heap::{Heap, PoolChoice, Request};
use device::Device;
use events::Memory;
use proptest::prelude::*;
use replay::driver::Follow;
use replay::placements::{Run, compare};
use replay::run::{Addresses, DeviceTape, Options, Outcome, run_recording};
use replay::tape::Tape;
use settings::{Compat, Config, StitchConfig};
use sim_device::{EventPolicy, SimConfig, SimDevice};
use trace_format::{
    Addr, BaseOrder, BaseState, DeviceId, Event, Meta, PoolId, Record, ScopeFilter, SegmentState,
    StackId, Stream, ThreadId, Writer,
};

const MIB: u64 = 1 << 20;
const STREAMS: [Stream; 3] = [Stream(0), Stream(16), Stream(32)];
const POOLS: [PoolId; 3] = [PoolId(1, 0), PoolId(0, 1), PoolId(0, 2)];

/// One call. Allocations are named by their place among the live ones, counted around.
#[derive(Clone, Debug)]
enum Call {
    Malloc { bytes: u64, stream: Stream, pool: PoolId },
    Free(usize),
    RecordStream(usize, Stream),
    StreamDone(Stream),
    EmptyCache(PoolId),
    CreatePool(PoolId),
    BeginPool(PoolId, ScopeFilter),
    EndPool(PoolId),
    ReleasePool(PoolId),
    UseOnOom(PoolId, bool),
    NoSplit(PoolId),
    Settings(&'static str),
    Fraction(f64),
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 1..=4096_u64,
        2 => 1..=MIB,
        3 => MIB..=10 * MIB,
        1 => prop::sample::select(&[10 * MIB, 19 * MIB, 20 * MIB, 24 * MIB][..]),
        2 => 10 * MIB..=60 * MIB,
        1 => 60 * MIB..=200 * MIB,
    ]
}

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![3 => Just(STREAMS[0]), 1 => Just(STREAMS[1]), 1 => Just(STREAMS[2])]
}

fn pool() -> impl Strategy<Value = PoolId> {
    prop::sample::select(&POOLS[..])
}

const SETTINGS: [&str; 7] = [
    "",
    "expandable_segments:True",
    "expandable_segments:False",
    "max_split_size_mb:32",
    "garbage_collection_threshold:0.3",
    "garbage_collection_threshold:0.6,max_split_size_mb:64",
    "expandable_segments:True,garbage_collection_threshold:0.5",
];

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let malloc = (sizes(), stream(), prop_oneof![4 => Just(PoolId::DEFAULT), 1 => pool()])
        .prop_map(|(bytes, stream, pool)| Call::Malloc { bytes, stream, pool });
    let filter = prop_oneof![Just(ScopeFilter::Capture), Just(ScopeFilter::Thread)];
    let call = prop_oneof![
        20 => malloc,
        18 => any::<usize>().prop_map(Call::Free),
        6 => (any::<usize>(), stream()).prop_map(|(at, stream)| Call::RecordStream(at, stream)),
        3 => stream().prop_map(Call::StreamDone),
        2 => prop_oneof![3 => Just(PoolId::DEFAULT), 1 => pool()].prop_map(Call::EmptyCache),
        1 => pool().prop_map(Call::CreatePool),
        1 => (pool(), filter).prop_map(|(pool, filter)| Call::BeginPool(pool, filter)),
        2 => pool().prop_map(Call::EndPool),
        2 => pool().prop_map(Call::ReleasePool),
        1 => (pool(), any::<bool>()).prop_map(|(pool, enabled)| Call::UseOnOom(pool, enabled)),
        1 => pool().prop_map(Call::NoSplit),
        1 => prop::sample::select(&SETTINGS[..]).prop_map(Call::Settings),
        1 => prop_oneof![Just(1.0), 0.3..1.0].prop_map(Call::Fraction),
    ];
    prop::collection::vec(call, 40..260)
}

/// A recorded heap.
struct World {
    heap: Heap<SimDevice, Memory>,
    live: Vec<Addr>,
}

impl World {
    fn new(capacity_bytes: u64, config: Config) -> Self {
        let sim = SimConfig::with_capacity(capacity_bytes);
        let device = SimDevice::new(SimConfig { events: EventPolicy::OnRequest, ..sim });
        let heap = Heap::new(device, config, Memory::default()).expect("the device answers");
        Self { heap, live: Vec::new() }
    }

    /// Makes a call; those that the heap refuses change nothing.
    fn make(&mut self, call: &Call) {
        let heap = &mut self.heap;
        match *call {
            Call::Malloc { bytes, stream, pool } => {
                // A tape creates the pools that requests name.
                let is_there = pool.is_default() || heap.pool_use_count(pool).is_ok();
                let pool = PoolChoice::Exactly(if is_there { pool } else { PoolId::DEFAULT });
                let stack = StackId::NONE;
                let request = Request { requested_bytes: bytes, stream, pool, stack };
                self.live.extend(heap.malloc(&request));
            }
            Call::Free(at) if !self.live.is_empty() => {
                let addr = self.live.swap_remove(at % self.live.len());
                heap.free(addr, StackId::NONE).expect("it is live");
            }
            Call::RecordStream(at, stream) if !self.live.is_empty() => {
                let addr = self.live[at % self.live.len()];
                heap.record_stream(addr, stream).expect("it is live");
            }
            Call::Free(_) | Call::RecordStream(..) => {}
            Call::StreamDone(stream) => {
                let device = heap.device_mut();
                let event = device.event_record(stream).expect("an event");
                device.complete(event).expect("it is known");
                device.event_release(event);
            }
            Call::EmptyCache(pool) => {
                heap.empty_cache(pool, StackId::NONE).expect("the device takes it");
            }
            Call::CreatePool(pool) => drop(heap.create_pool(pool, None)),
            Call::BeginPool(pool, filter) => {
                drop(heap.begin_pool(pool, filter, Arc::new(|_| false)));
            }
            Call::EndPool(pool) => drop(heap.end_pool(pool)),
            Call::ReleasePool(pool) => drop(heap.release_pool(pool)),
            Call::UseOnOom(pool, enabled) => heap.set_use_on_oom(pool, enabled),
            Call::NoSplit(pool) => heap.set_no_split(pool),
            Call::Settings(text) => {
                let parsed = heap.config().reparse(text).expect("known settings");
                heap.set_config(parsed.config);
            }
            Call::Fraction(fraction) => heap.set_memory_fraction(fraction).expect("a share"),
        }
    }

    fn events(&mut self) -> usize {
        self.heap.recorder_mut().events.len()
    }

    /// The tape of what was recorded from `first` on.
    fn tape_from(&mut self, base: &BaseState, first: usize) -> Tape {
        let Memory { events, strings } = self.heap.recorder_mut();
        let meta = Meta { alloc_conf: base.settings.clone(), ..Meta::default() };
        let mut writer = Writer::new(Vec::new(), "a tape", &meta).expect("a writer");
        for text in &strings[..] {
            writer.string(text).expect("a string");
        }
        writer.base(DeviceId(0), base).expect("a base state");
        for (at, (stack, event)) in events.iter().enumerate().skip(first) {
            let (time_ns, thread) = (1000 * at as u64, ThreadId(1));
            let record = Record { time_ns, thread, stack: *stack, event: *event };
            writer.push(DeviceId(0), &record).expect("a record");
        }
        let bytes = writer.finish().expect("a tape");
        Tape::read(&bytes[..], "a tape").expect("a tape")
    }
}

fn replayed(tape: &Tape, config: Config, capacity_bytes: u64) -> Outcome {
    let options = Options {
        strategy: config.into(),
        capacity_bytes: Some(capacity_bytes),
        memory_fraction: None,
        addresses: Addresses::Recorded,
        follow: Follow::default(),
    };
    let text = |id| tape.text(id);
    let device = &tape.devices[0];
    let part = DeviceTape { base: &device.base, records: &device.records, text: &text };
    run_recording(part, &options, &mut |_| {}).expect("it replays")
}

fn config(text: &str, compat: Compat) -> Config {
    Config::parse(text, compat).expect("known settings").config
}

/// The segments and blocks of a state, without addresses.
fn shapes(segments: &[SegmentState]) -> Vec<String> {
    let shape = |segment: &SegmentState| {
        let blocks = segment.blocks.iter();
        let blocks: Vec<_> = blocks.map(|block| (block.size_bytes, block.status)).collect();
        format!("{} {} {blocks:?}", segment.stream, segment.pool)
    };
    let mut shapes: Vec<_> = segments.iter().map(shape).collect();
    shapes.sort();
    shapes
}

/// Where the recording from a call on and its replay part; `None` where they are the same.
fn difference(calls: &[Call], cut: usize, capacity_bytes: u64, config: Config) -> Option<String> {
    let mut world = World::new(capacity_bytes, config);
    calls[..cut].iter().for_each(|call| world.make(call));
    let (base, config) = (world.heap.base_state(), world.heap.config().clone());
    let first = world.events();
    calls[cut..].iter().for_each(|call| world.make(call));
    let end = world.heap.segments(PoolId::DEFAULT);

    let tape = world.tape_from(&base, first);
    let outcome = replayed(&tape, config, capacity_bytes);
    let recorded = tape.devices[0].records.iter().map(|record| record.event);
    let actual = outcome.records.iter().map(|record| record.event);
    let segments = &base.segments;
    let found =
        compare(Run { base: segments, events: recorded }, Run { base: segments, events: actual });
    // Addresses of segments may differ: a failed attempt reserves addresses that no record has.
    let (recorded, replayed) = (shapes(&end), shapes(&outcome.segments));
    let end = (recorded != replayed).then(|| format!("{replayed:?} in place of {recorded:?}"));
    found.difference.map(|difference| difference.to_string()).or(end)
}

#[test]
fn addresses_that_were_reserved_in_vain_move_no_later_segment() {
    let pool = PoolId::DEFAULT;
    let malloc = |mib, stream| Call::Malloc { bytes: mib * MIB, stream, pool };
    let [first, second, third] = STREAMS;
    let calls = [
        malloc(39, second),
        malloc(1, first),
        malloc(1, first),
        malloc(1, third),
        malloc(59, third), // Refused: its addresses never get a page.
        Call::Free(0),
        malloc(59, first), // The next segment.
        malloc(79, first),
        malloc(19, first),
        malloc(1, second),
    ];
    for compat in [Compat::V2_11, Compat::V2_15] {
        for cut in 0..calls.len() {
            let config = config("expandable_segments:True", compat);
            assert_eq!(difference(&calls, cut, 96 * MIB, config), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 3_000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn a_tape_cut_anywhere_replays_as_recorded(
        calls in calls(),
        cut in any::<usize>(),
        capacity_mib in prop::sample::select(&[96_u64, 256, 1024, 1 << 16][..]),
        text in prop::sample::select(&SETTINGS[..]),
        compat in prop_oneof![Just(Compat::V2_11), Just(Compat::V2_15)],
    ) {
        let capacity_bytes = capacity_mib * MIB;
        // About one whole tape in 1,000 does not replay exactly (docs/limits.md); a cut loses nothing more.
        if difference(&calls, 0, capacity_bytes, config(text, compat)).is_none() {
            let cut = cut % calls.len();
            prop_assert_eq!(difference(&calls, cut, capacity_bytes, config(text, compat)), None);
        }
    }

    /// Under `stitch` the device's answers decide which pages may move, and the device of the recording answers late.
    #[test]
    fn a_tape_of_stitch_replays_as_recorded(
        mut calls in calls(),
        capacity_mib in prop::sample::select(&[96_u64, 256, 1024, 1 << 16][..]),
    ) {
        // A tape does not have which pool borrowed a block (docs/limits.md).
        calls.retain(|call| !matches!(call, Call::UseOnOom(..)));
        let stitch = Some(StitchConfig::default());
        let config = Config { stitch, ..Config::default() };
        prop_assert_eq!(difference(&calls, 0, capacity_mib * MIB, config), None);
    }

    /// Cut anywhere it starts with the recorded memory, and the rest can be replayed. Earlier placements are not part
    /// of the start.
    #[test]
    fn a_tape_of_stitch_cut_anywhere_starts_as_recorded(
        mut calls in calls(),
        cut in any::<usize>(),
        capacity_mib in prop::sample::select(&[96_u64, 256, 1024, 1 << 16][..]),
    ) {
        // When a released pool is gone, and may be made anew, depends on placements. PyTorch makes none anew.
        calls.retain(|call| !matches!(call, Call::UseOnOom(..) | Call::ReleasePool(_)));
        let stitch = Some(StitchConfig::default());
        let mut world = World::new(capacity_mib * MIB, Config { stitch, ..Config::default() });
        let cut = cut % calls.len();
        calls[..cut].iter().for_each(|call| world.make(call));
        let (base, config) = (world.heap.base_state(), world.heap.config().clone());
        let first = world.events();
        // The ring of a killed process does not know which addresses were reserved together.
        let bare = BaseState { order: BaseOrder::default(), ..base.clone() };
        for start in [&base, &bare] {
            let start = world.tape_from(start, first);
            let started = replayed(&start, config.clone(), capacity_mib * MIB);
            prop_assert_eq!(shapes(&started.segments), shapes(&base.segments));
            let is_fraction = |record: &Record| matches!(record.event, Event::MemoryFraction { .. });
            prop_assert!(started.records.iter().all(is_fraction), "{:?}", started.records);
        }
        calls[cut..].iter().for_each(|call| world.make(call));
        let whole = world.tape_from(&base, first);
        replayed(&whole, config, capacity_mib * MIB);
    }
}
