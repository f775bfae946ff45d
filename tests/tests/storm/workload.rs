//! The storm: what the threads do, and what they count.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use allocator::heap::{AllocError, Heap, HeapError, PoolChoice, Request};
use device::DeviceCall;
use events::Recorder;
use recorder::{AnyRecorder, Ring, RingOptions, RingReader, RingRecorder, SystemClock, TapeSource};
use settings::{Compat, Config, StitchConfig};
use shared_heap::SharedHeap;
use sim_device::{EventPolicy, Fault, Faults, SimConfig, SimDevice};
use trace_format::{
    Addr, DeviceId, DeviceMeta, Event, MarkKind, PoolId, ScopeFilter, StackId, State, Stream,
    StringId,
};

use crate::rng::Rng;
use crate::tape::TapeTotals;

const STREAMS: [Stream; 4] = [Stream(0), Stream(16), Stream(32), Stream(48)];
const POOLS: [PoolId; 3] = [PoolId(0, 1), PoolId(0, 2), PoolId(7, 0)];
const CAPACITY_BYTES: u64 = 2 << 30;
/// The longest that the writer waits for the ring to be overwritten, and the threads for the writer to fall behind. A
/// busy machine takes seconds.
const DELAY_MAX: Duration = Duration::from_secs(60);
const SETTINGS: [&str; 5] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "garbage_collection_threshold:0.6,max_split_size_mb:64",
    "roundup_power2_divisions:4",
];

/// Where a device may fail, how often, and how.
const FAULTS: [(DeviceCall, f64, Fault); 9] = [
    (DeviceCall::Malloc, 0.01, Fault::Driver(719)),
    (DeviceCall::Malloc, 0.02, Fault::OutOfMemory),
    (DeviceCall::Free, 0.01, Fault::Driver(719)),
    (DeviceCall::Create, 0.05, Fault::OutOfMemory),
    (DeviceCall::Map, 0.01, Fault::Driver(719)),
    (DeviceCall::Unmap, 0.01, Fault::Driver(719)),
    (DeviceCall::EventRecord, 0.01, Fault::Driver(719)),
    (DeviceCall::EventQuery, 0.001, Fault::Driver(719)),
    (DeviceCall::EventSynchronize, 0.01, Fault::Driver(719)),
];

/// The recorded heap of a process.
type Shared = SharedHeap<SimDevice, AnyRecorder>;

/// Memory that any thread may free: blocks in flight between threads.
#[derive(Default)]
struct Piles([Mutex<Vec<Addr>>; 16]);

impl Piles {
    fn put(&self, rng: &mut Rng, addr: Addr) {
        self.0[rng.below(16) as usize].lock().expect("unbroken").push(addr);
    }

    fn take(&self, rng: &mut Rng) -> Option<Addr> {
        let mut pile = self.0[rng.below(16) as usize].lock().expect("unbroken");
        let count = pile.len() as u64;
        (count > 0).then(|| pile.swap_remove(rng.below(count) as usize))
    }

    fn take_all(&self) -> Vec<Addr> {
        self.0
            .iter()
            .flat_map(|pile| std::mem::take(&mut *pile.lock().expect("unbroken")))
            .collect()
    }
}

/// Totals that the threads counted.
#[derive(Debug, Default)]
struct Seen {
    calls: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
    ooms: AtomicU64,
    device_errors: AtomicU64,
    scope_errors: AtomicU64,
    callbacks: AtomicU64,
    checks: AtomicU64,
}

fn count(what: &AtomicU64) -> u64 {
    what.fetch_add(1, Ordering::Relaxed)
}

/// A heap in a storm.
pub(crate) struct Storm {
    heap: Arc<Shared>,
    ring: Arc<Ring>,
    /// Number of the first record behind the tape's first base state, once it was asked for.
    begun: Arc<OnceLock<u64>>,
    /// How often the tape's writer has yet to fall behind.
    delays: Arc<AtomicU64>,
    piles: Arc<Piles>,
    seen: Arc<Seen>,
}

impl Storm {
    /// A heap on a device that fails at random, recorded into a ring of `slots` in `folder`.
    pub(crate) fn new(
        seed: u64,
        folder: &Path,
        slots: usize,
        stitch: Option<StitchConfig>,
    ) -> Self {
        let (dir, device, has_pages) = (folder.to_owned(), DeviceId(0), stitch.is_some());
        let options = RingOptions { dir, device, slots, has_pages };
        let recorder = RingRecorder::new(&options, SystemClock::new()).expect("memory for a ring");
        let ring = Arc::clone(recorder.ring());
        let mut faults = Faults::new(seed);
        for (call, probability, fault) in FAULTS {
            faults.fail_randomly(call, probability, fault);
        }
        let events = EventPolicy::AfterQueries(3);
        let device =
            SimDevice::new(SimConfig { events, ..SimConfig::with_capacity(CAPACITY_BYTES) });
        let config = Config { search_after_flush: true, stitch, ..Config::default() };
        let mut heap = Heap::new(device, config, AnyRecorder::Ring(recorder)).expect("a device");
        for pool in POOLS {
            heap.create_pool(pool, None).expect("a new pool");
        }
        *heap.device_mut().faults_mut() = faults;
        let heap = Arc::new(SharedHeap::new(heap));
        let (piles, seen) = (Arc::new(Piles::default()), Arc::new(Seen::default()));
        free_on_miss(&heap, &piles, &seen);
        let (begun, delays) = (Arc::default(), Arc::default());
        Self { heap, ring, begun, delays, piles, seen }
    }

    /// The source for a tape of the storm. Its writer waits `times` times behind a base state, until the ring was
    /// overwritten.
    pub(crate) fn source(&self, times: u64) -> TapeSource {
        let (heap, ring) = (Arc::clone(&self.heap), Arc::clone(&self.ring));
        self.delays.store(times, Ordering::Relaxed);
        let (begun, delays) = (Arc::clone(&self.begun), Arc::clone(&self.delays));
        let base = move || {
            let heap = heap.lock().ok()?;
            let (state, next) = (heap.base_state(), ring.sequence());
            drop(heap);
            begun.get_or_init(|| next);
            if delays.load(Ordering::Relaxed) > 0 {
                let latest = Instant::now() + DELAY_MAX;
                while ring.sequence() <= next + 2 * ring.slots() && Instant::now() < latest {
                    thread::sleep(Duration::from_millis(1));
                }
                delays.fetch_sub(1, Ordering::Relaxed);
            }
            Some((state, next))
        };
        TapeSource {
            ring: Arc::clone(&self.ring),
            base: Box::new(base),
            device: DeviceMeta::default(),
        }
    }

    /// One thread's part, until `end`, and on until the writer fell behind as often as it has to.
    pub(crate) fn run(&self, mut rng: Rng, end: Instant) {
        let is_awaited = |now| self.delays.load(Ordering::Relaxed) > 0 && now < end + DELAY_MAX;
        while Instant::now() < end || is_awaited(Instant::now()) {
            count(&self.seen.calls);
            match rng.below(1_000) {
                0..450 => self.take(&mut rng),
                450..890 => self.give(&mut rng),
                890..980 => self.use_on_another_stream(&mut rng),
                _ => self.turn(&mut rng),
            }
        }
    }

    fn take(&self, rng: &mut Rng) {
        let pool = match rng.below(8) {
            0 => PoolChoice::Exactly(PoolId::DEFAULT),
            1 => PoolChoice::Exactly(rng.of(&POOLS)),
            _ => PoolChoice::ByScope,
        };
        let (requested_bytes, stream) = (rng.bytes(), rng.of(&STREAMS));
        match self.heap.malloc(&Request { requested_bytes, stream, pool, stack: StackId::NONE }) {
            Ok(addr) => {
                count(&self.seen.allocations);
                self.piles.put(rng, addr);
            }
            Err(AllocError::OutOfMemory(_)) => {
                // Like a training loop that catches the error, frees something and continues.
                count(&self.seen.ooms);
                (0..16).for_each(|_| self.give(rng));
            }
            Err(AllocError::Device(_)) => {
                count(&self.seen.device_errors);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn give(&self, rng: &mut Rng) {
        if let Some(addr) = self.piles.take(rng) {
            give_back(&self.heap, addr, &self.seen);
        }
    }

    fn use_on_another_stream(&self, rng: &mut Rng) {
        if let Some(addr) = self.piles.take(rng) {
            let mut heap = self.heap.lock().expect("whole");
            heap.record_stream(addr, rng.of(&STREAMS)).expect("a live block");
            drop(heap);
            self.piles.put(rng, addr);
        }
    }

    /// A rare operation.
    fn turn(&self, rng: &mut Rng) {
        let mut heap = self.heap.lock().expect("whole");
        let pool = rng.of(&POOLS);
        let scope = |answer: Result<(), HeapError>| match answer {
            Ok(()) => {}
            Err(HeapError::AlreadyOpen { .. } | HeapError::NotOpen { .. }) => {
                count(&self.seen.scope_errors);
            }
            Err(error) => panic!("{error}"),
        };
        match rng.below(16) {
            0 => {
                if heap.empty_cache(PoolId::DEFAULT, StackId::NONE).is_err() {
                    count(&self.seen.device_errors);
                }
            }
            1 => {
                if heap.empty_cache(pool, StackId::NONE).is_err() {
                    count(&self.seen.device_errors);
                }
            }
            2..=4 => {
                let stream = rng.of(&STREAMS);
                let filter = Arc::new(move |asked: Stream| asked == stream);
                scope(heap.begin_pool(pool, ScopeFilter::Thread, filter));
            }
            5..=8 => {
                let ended = heap.end_pool(pool);
                // The scope was a user of the pool; the pool's own stays.
                if ended.is_ok() {
                    heap.release_pool(pool).expect("a user to take off");
                }
                scope(ended);
            }
            9 => heap.set_use_on_oom(pool, rng.below(2) == 0),
            10 => {
                let parsed = Config::parse(rng.of(&SETTINGS), Compat::default()).expect("settings");
                let stitch = heap.config().stitch;
                heap.set_config(Config { search_after_flush: true, stitch, ..parsed.config });
            }
            11 => heap.set_memory_fraction(rng.of(&[1.0, 1.0, 0.75])).expect("a fraction"),
            12 => heap.reset_peak_stats(),
            13 => drop(heap.snapshot(PoolId::DEFAULT)),
            14 if rng.below(8) == 0 => {
                heap.check().expect("consistent in the storm");
                count(&self.seen.checks);
            }
            _ => heap.device_mut().complete_all(),
        }
    }

    /// The state of the heap after the threads have ended, where the tape has a mark. The ring's tables have the same.
    pub(crate) fn marked_state(&self) -> State {
        let mut heap = self.heap.lock().expect("whole");
        let mark = Event::Mark { kind: MarkKind::Instant, name: StringId(0) };
        heap.recorder_mut().record(StackId::NONE, mark);
        let state = State::from_base(&heap.base_state()).expect("a whole state");
        let file = self.ring.path().expect("a ring with a file");
        let (base, _) = RingReader::open(&file).expect("a ring").base_state().expect("a state");
        assert!(State::from_base(&base) == Ok(state.clone()), "the ring's tables differ");
        state
    }

    /// Ends the storm: the device works again, everything is given back and returned. Fails if anything is left.
    pub(crate) fn calm(&self) {
        let mut heap = self.heap.lock().expect("whole");
        heap.check().expect("consistent after the storm");
        heap.device_mut().faults_mut().clear();
        for pool in POOLS {
            if heap.end_pool(pool).is_ok() {
                heap.release_pool(pool).expect("the scope's use of the pool");
            }
            heap.release_pool(pool).expect("the pool's own use");
        }
        for addr in self.piles.take_all() {
            heap.free(addr, StackId::NONE).expect("a live block");
            count(&self.seen.frees);
        }
        heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("a flush");
        heap.check().expect("consistent at the end");
        assert_eq!(heap.device_mut().check_empty(), Ok(()));
        assert_eq!((heap.allocations(), heap.reserved_bytes()), (0, 0));
        let seen = |what: &AtomicU64| what.load(Ordering::Relaxed) as i64;
        let stats = heap.stats();
        let counted = (stats.allocation.all.allocated, stats.allocation.all.freed, stats.num_ooms);
        let Seen { allocations, frees, ooms, .. } = &*self.seen;
        assert_eq!(counted, (seen(allocations), seen(frees), seen(ooms)), "the statistics");
        for (name, current) in [
            ("allocated_bytes", stats.allocated_bytes.all.current),
            ("active_bytes", stats.active_bytes.all.current),
            ("reserved_bytes", stats.reserved_bytes.all.current),
            ("requested_bytes", stats.requested_bytes.all.current),
        ] {
            assert_eq!(current, 0, "{name}");
        }
    }

    /// Slots of the ring that were written since the tape's first base state.
    pub(crate) fn recorded(&self) -> u64 {
        self.ring.sequence() - self.begun.wait()
    }

    /// Waits until the tape's first base state was asked for: everything from here on is on it, or lost.
    pub(crate) fn await_tape(&self) {
        self.begun.wait();
    }

    /// Fails unless a tape without losses has the totals that the threads counted.
    pub(crate) fn expect_totals(&self, totals: &TapeTotals) {
        let Seen { allocations, frees, ooms, .. } = &*self.seen;
        let seen = [allocations, frees, ooms].map(|what| what.load(Ordering::Relaxed));
        assert_eq!(
            [totals.allocations, totals.frees, totals.ooms],
            seen,
            "the tape and the threads"
        );
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.seen)
    }
}

/// On a miss, frees something without the heap's lock, as a callback of PyTorch's may.
fn free_on_miss(heap: &Arc<Shared>, piles: &Arc<Piles>, seen: &Arc<Seen>) {
    let (weak, piles, seen) = (OnceLock::new(), Arc::clone(piles), Arc::clone(seen));
    weak.set(Arc::downgrade(heap)).expect("set once");
    heap.on_miss(Box::new(move || {
        let Some(heap) = weak.get().and_then(std::sync::Weak::upgrade) else { return false };
        let mut rng = Rng::new(count(&seen.callbacks));
        if rng.below(4) > 0 {
            return false;
        }
        let Some(addr) = piles.take(&mut rng) else { return false };
        give_back(&heap, addr, &seen);
        true
    }));
}

/// Frees. Where the device fails, the block is given back all the same, and the error is counted.
fn give_back(heap: &Shared, addr: Addr, seen: &Seen) {
    count(&seen.frees);
    match heap.free(addr, StackId::NONE) {
        Ok(()) => {}
        Err(AllocError::Device(_)) => {
            count(&seen.device_errors);
        }
        Err(error) => panic!("{addr} was handed out: {error}"),
    }
}
