//! A process that records and is killed in the middle of it: what its ring and its tape leave behind is what it did,
//! exactly, and replays.
//!
//! A seed decides the calls of the process, so that the test can repeat them and knows the state after any
//! record. `VRAMTAPE_KILLS=100` kills as many, `VRAMTAPE_SEED` repeats a seed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use allocator::heap::{Heap, PoolChoice, Request};
use events::{Memory, Recorder};
use recorder::{
    Calibration, Clock, Moment, RingOptions, RingReader, RingRecorder, TapeRecorder, TapeSource,
    list_rings, recover_rings,
};
use replay::driver::Follow;
use replay::import::RunLimits;
use replay::run::{Addresses, DeviceTape, Options, run_recording};
use replay::tape::Tape;
use settings::{Config, StitchConfig, Strategy};
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{
    Addr, BlockStatus, DeviceId, DeviceMeta, Event, Item, Meta, PoolId, Reader, Record,
    SegmentState, StackId, State, Stream, ThreadId,
};

const DIR: &str = "VRAMTAPE_TEST_DIR";
const SEED: &str = "VRAMTAPE_SEED";

/// A clock that never goes far: the ring notes no moments, and a slot's number is its record's.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU64>);

impl Clock for Counter {
    fn ticks(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn unix_ns(&self) -> u64 {
        self.ticks()
    }

    fn calibration(&self) -> Calibration {
        Calibration { start: Moment::default(), ns_per_tick: 1.0 }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The parameters that a seed decides.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    slots: usize,
    strategy: Strategy,
    has_tape: bool,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let mut random = Random(seed);
        let slots = 1 << (9 + random.below(6));
        let strategies = [Strategy::Native, Strategy::Expandable, Strategy::Stitch];
        let strategy = strategies[random.below(3) as usize];
        Self { seed, slots, strategy, has_tape: random.below(2) == 0 }
    }

    fn config(&self) -> Config {
        Config {
            expandable_segments: self.strategy == Strategy::Expandable,
            stitch: self.is_stitched().then(StitchConfig::default),
            ..Config::default()
        }
    }

    fn is_stitched(&self) -> bool {
        self.strategy == Strategy::Stitch
    }

    fn heap<R: Recorder>(&self, recorder: R) -> Heap<SimDevice, R> {
        let device = SimDevice::new(SimConfig::with_capacity(2 << 30));
        Heap::new(device, self.config(), recorder).expect("a simulated device")
    }
}

/// Allocates and frees: streams, frees that wait, flushes, lack of memory.
struct Work {
    random: Random,
    live: Vec<Addr>,
}

impl Work {
    fn new(plan: Plan) -> Self {
        Self { random: Random(plan.seed.rotate_left(7)), live: Vec::new() }
    }

    fn step<R: Recorder>(&mut self, heap: &mut Heap<SimDevice, R>) {
        let stack = StackId::NONE;
        match self.random.below(500) {
            0 => heap.empty_cache(PoolId::DEFAULT, stack).expect("no device fails"),
            1..5 => heap.device_mut().complete_all(),
            _ if self.live.len() < 100 || self.random.below(1_000) < 490 => {
                let most = if self.random.below(3) == 0 { 20 << 20 } else { 100_000 };
                let (requested_bytes, stream) =
                    (1 + self.random.below(most), Stream(self.random.below(2)));
                let request = Request { requested_bytes, stream, pool: PoolChoice::ByScope, stack };
                self.live.extend(heap.malloc(&request).ok());
            }
            _ => {
                let at = self.random.below(self.live.len() as u64) as usize;
                let addr = self.live.swap_remove(at);
                if self.random.below(5) == 0 {
                    heap.record_stream(addr, Stream(9)).expect("a live block");
                }
                heap.free(addr, stack).expect("a live block");
            }
        }
    }
}

/// Not a test of its own: what is killed.
#[test]
#[ignore = "run by other tests as a process to kill"]
fn process_that_allocates_until_killed() {
    let dir = PathBuf::from(env::var_os(DIR).expect("run by another test, as a process"));
    let plan = Plan::of(env::var(SEED).expect("a seed").parse().expect("a number"));
    let clock = Counter::default();
    let (device, has_pages) = (DeviceId(0), plan.is_stitched());
    let options = RingOptions { dir: dir.clone(), device, slots: plan.slots, has_pages };
    let recorder = RingRecorder::new(&options, clock.clone()).expect("memory for a ring");
    let ring = Arc::clone(recorder.ring());
    let heap = Arc::new(SharedHeap::new(plan.heap(recorder)));
    let _tape = plan.has_tape.then(|| {
        let tape = TapeRecorder::start(&dir.join("run.vtape"), Meta::default(), clock);
        let tape = tape.expect("a tape");
        let (of_base, heap) = (Arc::clone(&ring), Arc::clone(&heap));
        let base = Box::new(move || {
            let heap = heap.lock().ok()?;
            Some((heap.base_state(), of_base.sequence()))
        });
        tape.add(TapeSource { ring, base, device: DeviceMeta::default() });
        assert!(tape.flush(), "it begins before anything is recorded");
        tape
    });
    let mut work = Work::new(plan);
    loop {
        work.step(&mut heap.lock().expect("no call panicked"));
    }
}

/// The process, killed at the latest when the test ends.
struct Doomed(Child);

impl Doomed {
    fn start(plan: Plan, dir: &Path) -> Self {
        let child = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "process_that_allocates_until_killed", "--ignored"])
            .env(DIR, dir)
            .env(SEED, plan.seed.to_string())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("a process"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("our own process");
        self.0.wait().expect("our own process");
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first `count` events of the process, done again.
fn truth(plan: Plan, count: usize) -> Vec<Event> {
    let (mut heap, mut work) = (plan.heap(Memory::default()), Work::new(plan));
    while heap.recorder_mut().events.len() < count {
        work.step(&mut heap);
    }
    heap.recorder_mut().events.iter().take(count).map(|(_, event)| *event).collect()
}

fn after(events: &[Event]) -> State {
    let mut state = State::new();
    for &event in events {
        let (time_ns, thread, stack) = (0, ThreadId(0), StackId::NONE);
        state.apply(&Record { time_ns, thread, stack, event }).expect("events of a heap");
    }
    state
}

/// Requested sizes of the live blocks, in order.
fn live(segments: &[SegmentState]) -> Vec<u64> {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let live = blocks.filter(|block| block.status == BlockStatus::Allocated);
    let mut sizes: Vec<_> = live.map(|block| block.requested_bytes).collect();
    sizes.sort_unstable();
    sizes
}

fn expect_ring(plan: Plan, ring: &Path, tape: &Path, events: &[Event]) {
    let mut reader = RingReader::open(ring).expect("a ring");
    let end = after(events);
    let (base, next) = reader.base_state().expect("a state");
    assert_eq!(next, events.len() as u64, "the ring's own state is that after its last record");
    assert_eq!(State::from_base(&base), Ok(end.clone()), "{plan:?}");

    let recovered = recover_rings(&[ring.to_owned()], tape).expect("a tape").remove(0);
    let start = recovered.lost as usize;
    assert!(recovered.has_base && events.len() - start == recovered.records as usize);
    assert!(recovered.records as usize >= (plan.slots - 1).min(events.len()), "{recovered:?}");
    let tape = Tape::open(tape, &RunLimits::default()).expect("a tape");
    let device = &tape.devices[0];
    assert_eq!(State::from_base(&device.base), Ok(after(&events[..start])));
    let recorded: Vec<_> = device.records.iter().map(|record| record.event).collect();
    assert!(recorded == events[start..], "{plan:?}: other records than were made");

    let text = |id| tape.text(id);
    let run = DeviceTape { base: &device.base, records: &device.records, text: &text };
    let options = Options {
        strategy: plan.config().into(),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Recorded,
        follow: Follow::default(),
    };
    let replayed = run_recording(run, &options, &mut |_| ()).expect("a tape that replays");
    assert_eq!(live(&replayed.segments), live(&end.segments()), "{plan:?}");
}

fn expect_tape(path: &Path, events: &[Event]) -> usize {
    let mut seen = 0;
    for item in Reader::open(path).expect("a tape") {
        match item.expect("whole chunks") {
            Item::Event(_, Record { event: Event::Lost { count }, .. }) => seen += count as usize,
            Item::Event(_, record) => {
                assert_eq!(record.event, events[seen]);
                seen += 1;
            }
            Item::Base(_, base) => {
                assert_eq!(State::from_base(&base), Ok(after(&events[..seen])));
            }
            Item::Meta(_) => {}
        }
    }
    seen
}

fn kill_and_recover(seed: u64) {
    let plan = Plan::of(seed);
    let dir = tempfile::tempdir().expect("a folder");
    let mut doomed = Doomed::start(plan, dir.path());
    let deadline = Instant::now() + Duration::from_secs(60);
    let ring = loop {
        assert!(Instant::now() < deadline, "{plan:?}: the process never began");
        let rings = list_rings(dir.path()).expect("a folder");
        let has_begun =
            |path: &&PathBuf| RingReader::open(path).is_ok_and(|ring| ring.info().written > 0);
        match rings.iter().find(has_begun) {
            Some(ring) => break ring.clone(),
            None => sleep(Duration::from_millis(1)),
        }
    };
    sleep(Duration::from_micros(Random(seed ^ 0x5eed).below(50_000)));
    doomed.kill();
    let written = RingReader::open(&ring).expect("a ring").info().written;
    let events = truth(plan, written as usize);
    expect_ring(plan, &ring, &dir.path().join("recovered.vtape"), &events);
    let on_tape = plan.has_tape.then(|| expect_tape(&dir.path().join("run.vtape"), &events));
    println!("{plan:?}: {written} records, on tape {on_tape:?}");
}

#[test]
fn a_killed_process_leaves_all_it_did_and_it_replays() {
    let number = |name, otherwise| {
        env::var(name).map_or(otherwise, |text| text.parse().expect("a number in the environment"))
    };
    let (kills, first) = (number("VRAMTAPE_KILLS", 10), number(SEED, 0x9e37_79b9));
    (first..first + kills).for_each(kill_and_recover);
}
