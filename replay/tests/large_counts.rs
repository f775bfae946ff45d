//! Tapes of many pools, streams and waiting frees take time in proportion to their records, under every strategy.
//!
//! Each tape is made with a number of them and with 16 times as many: work in proportion takes 16 times as long,
//! quadratic work 256 times. The limit lies between, and the time is the processor's, so that a busy machine fails
//! nothing.

mod common;

use std::time::Duration;

use replay::driver::Follow;
use replay::run::{Addresses, DeviceTape, Options, run};
use replay::strategy::{Choice, Row, TABLE};
use replay::tape::Tape;
use settings::Compat;
use trace_format::{
    Addr, BaseOrder, BaseState, DeviceId, Event, Meta, PoolId, PoolState, Record, ScopeFilter,
    StackId, State, Stream, ThreadId, Writer,
};

use common::cpu_time;

const SIZE_BYTES: u64 = 4096;
const TIMES: u64 = 16;

fn alloc(number: u64, stream: u64, pool: PoolId) -> Event {
    Event::Alloc {
        addr: Addr(SIZE_BYTES * (number + 1)),
        requested_bytes: SIZE_BYTES,
        size_bytes: SIZE_BYTES,
        stream: Stream(stream),
        pool,
    }
}

fn free(number: u64, pending: bool) -> Event {
    let addr = Addr(SIZE_BYTES * (number + 1));
    Event::Free { addr, requested_bytes: SIZE_BYTES, size_bytes: SIZE_BYTES, pending }
}

fn completed(number: u64) -> Event {
    let addr = Addr(SIZE_BYTES * (number + 1));
    Event::FreeCompleted { addr, requested_bytes: SIZE_BYTES, size_bytes: SIZE_BYTES }
}

fn private(number: u64) -> PoolId {
    PoolId(0, number + 1)
}

fn pools_in_use(count: u64) -> Vec<Event> {
    let cycle = |number| {
        let pool = private(number);
        let begin = Event::PoolBegin { pool, filter: ScopeFilter::Thread };
        let create = Event::PoolCreate { pool, own_source: false };
        [
            create,
            begin,
            alloc(number, 0, pool),
            Event::PoolEnd { pool },
            Event::PoolRelease { pool },
        ]
    };
    (0..count).flat_map(cycle).collect()
}

fn pools_that_end(count: u64) -> Vec<Event> {
    let cycle = |number| {
        let pool = private(number);
        let release = Event::PoolRelease { pool };
        [
            Event::PoolCreate { pool, own_source: false },
            Event::PoolNoSplit { pool },
            Event::PoolUseOnOom { pool, enabled: true },
            alloc(number, 0, pool),
            release,
            free(number, false),
        ]
    };
    let end = |number| Event::EmptyCache { pool: private(number), inferred: false };
    (0..count).flat_map(cycle).chain((0..count).rev().map(end)).collect()
}

fn streams(count: u64) -> Vec<Event> {
    let taken = (0..count).rev().map(|number| alloc(number, number, PoolId::DEFAULT));
    taken.chain((0..count).map(|number| free(number, false))).collect()
}

fn streams_of_a_block(count: u64) -> Vec<Event> {
    let addr = Addr(SIZE_BYTES);
    let used = (1..=count).map(|stream| Event::RecordStream { addr, stream: Stream(stream) });
    let last = [free(0, false), alloc(1, 0, PoolId::DEFAULT), free(1, false)];
    [alloc(0, 0, PoolId::DEFAULT)].into_iter().chain(used).chain(last).collect()
}

fn frees_completed_newest_first(count: u64) -> Vec<Event> {
    let taken = (0..count).map(|number| alloc(number, 0, PoolId::DEFAULT));
    let given = (0..count).map(|number| free(number, true));
    taken.chain(given).chain((0..count).rev().map(completed)).collect()
}

/// Pools of the state that a tape starts from, released in another order.
fn base(count: u64) -> BaseState {
    let pool = |number| PoolState {
        pool: private(number),
        use_count: 0,
        own_source: false,
        use_on_oom: true,
        no_split: true,
    };
    BaseState {
        pools: (0..count).chain(0..count).map(pool).collect(),
        order: BaseOrder {
            released_pools: (0..count).rev().map(private).collect(),
            ..BaseOrder::default()
        },
        ..BaseState::default()
    }
}

fn tape(base: &BaseState, events: &[Event]) -> Tape {
    let mut writer = Writer::new(Vec::new(), "many", &Meta::default()).unwrap();
    writer.base(DeviceId(0), base).unwrap();
    for (time_ns, event) in (1..).zip(events) {
        let (thread, stack) = (ThreadId(1), StackId::NONE);
        writer.push(DeviceId(0), &Record { time_ns, thread, stack, event: *event }).unwrap();
    }
    Tape::read_trusted(&writer.finish().unwrap()[..], "many", 1000).unwrap()
}

/// The time of a replay, the shortest of some.
fn time(tape: &Tape, strategy: &Choice) -> Duration {
    let device = &tape.devices[0];
    let tape = DeviceTape { base: &device.base, records: &device.records, text: &|_| "" };
    let options = Options {
        strategy: strategy.clone(),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow::default(),
    };
    shortest(|| drop(run(tape, &options, &mut |_| {}).unwrap()))
}

/// The shortest time of three.
fn shortest(work: impl Fn()) -> Duration {
    let once = |_| {
        let begin = cpu_time();
        work();
        cpu_time().saturating_sub(begin)
    };
    (0..3).map(once).min().unwrap()
}

/// Fails where 16 times as many take much more than 16 times as long.
fn expect_in_proportion(name: &str, few: u64, strategies: &[Row], tape: impl Fn(u64) -> Tape) {
    let (small, large) = (tape(few), tape(TIMES * few));
    for row in strategies {
        let strategy = Choice::parse(row.name, Compat::default()).unwrap();
        let name = format!("{name}, {}", row.name);
        compare_times(&name, time(&small, &strategy), time(&large, &strategy));
    }
}

fn compare_times(name: &str, few: Duration, many: Duration) {
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("{name}: {few:?}, {many:?}: {ratio:.1} times");
    let is_measured = many > Duration::from_millis(200);
    assert!(!is_measured || ratio < 8.0 * TIMES as f64, "{name}: {ratio:.1}");
}

/// `native` and `expandable`.
fn live() -> Vec<Row> {
    TABLE.iter().copied().filter(|row| row.is_live).collect()
}

#[test]
fn replays_take_time_in_proportion_to_pools() {
    let nothing = BaseState::default();
    expect_in_proportion("pools in use", 1_000, TABLE, |count| {
        tape(&nothing, &pools_in_use(count))
    });
    expect_in_proportion("pools that end", 1_000, &live(), |count| {
        tape(&nothing, &pools_that_end(count))
    });
    let release = Event::EmptyCache { pool: PoolId::DEFAULT, inferred: false };
    expect_in_proportion("pools at the start", 2_000, TABLE, |count| {
        tape(&base(count), &[release])
    });
}

/// A model of an allocator that searches the lists of all streams takes the time that the allocator does.
#[test]
fn replays_take_time_in_proportion_to_streams() {
    let nothing = BaseState::default();
    expect_in_proportion("streams", 2_000, &live(), |count| tape(&nothing, &streams(count)));
    expect_in_proportion("streams of a block", 5_000, &live(), |count| {
        tape(&nothing, &streams_of_a_block(count))
    });
}

#[test]
fn replays_take_time_in_proportion_to_waiting_frees() {
    expect_in_proportion("frees completed newest first", 5_000, TABLE, |count| {
        tape(&BaseState::default(), &frees_completed_newest_first(count))
    });
}

/// What `info` and `export` do with a tape: they follow its state without an allocator.
#[test]
fn a_state_follows_captures_of_a_pool_in_proportion_to_their_number() {
    let follow = |count| {
        let pool = private(0);
        let filter = ScopeFilter::Thread;
        let capture = [Event::PoolBegin { pool, filter }, Event::CaptureBegin { pool }];
        shortest(|| {
            let mut state = State::new();
            for event in (0..count).flat_map(|_| capture) {
                let (thread, stack) = (ThreadId(1), StackId::NONE);
                state.apply(&Record { time_ns: 0, thread, stack, event }).unwrap();
            }
            assert_eq!(state.pools().scopes().len() as u64, count);
        })
    };
    compare_times("captures of a pool", follow(4_000), follow(TIMES * 4_000));
}
