//! Shared by the benches: a heap on the simulated device, as it ships, and workloads that a seed
//! reproduces.

mod traces;
mod turns;
mod workload;

use std::sync::Arc;

use allocator::heap::{Heap, PoolChoice, Request};
use events::Off;
use recorder::{AnyRecorder, Ring, RingOptions, RingRecorder, SystemClock, ring_dir};
use settings::{Config, Settings, StitchConfig};
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{Addr, DeviceId, StackId, Stream};

pub use traces::Trace;
pub use turns::{Turns, is_bench, quartiles};
pub use workload::{Random, mixed_sizes, training_records};

/// The heap that the C ABI serves, over the simulated device.
pub type LiveHeap = SharedHeap<SimDevice, AnyRecorder>;

/// Whether events go into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// `record:off`.
    Off,
    /// `record:ring`, the default.
    Ring,
}

impl Recording {
    /// Both, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Off, Self::Ring];

    /// Its name in a bench's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Ring => "ring",
        }
    }
}

/// A recorder and a strategy that the benches of single calls compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Whether events go into a ring.
    pub recording: Recording,
    /// `strategy:stitch` in place of `native`.
    pub is_stitch: bool,
}

impl Setup {
    /// Those that are compared, in the order of the tables.
    pub const ALL: [Self; 3] = [
        Self { recording: Recording::Off, is_stitch: false },
        Self { recording: Recording::Ring, is_stitch: false },
        Self { recording: Recording::Ring, is_stitch: true },
    ];

    /// Its name in a bench's name.
    pub fn name(self) -> String {
        format!("{}{}", self.recording.name(), if self.is_stitch { "/stitch" } else { "" })
    }

    /// A heap of `device` in this setup.
    pub fn subject(self, device: DeviceId) -> Subject {
        let stitch = self.is_stitch.then(StitchConfig::default);
        let config = Config { stitch, search_after_flush: true, ..Config::default() };
        Subject::configured(self.recording, device, config)
    }
}

/// A live heap with shipped defaults. Its ring's file goes away with it.
pub struct Subject {
    /// The heap.
    pub heap: LiveHeap,
    ring: Option<Arc<Ring>>,
}

impl Subject {
    /// A heap of `device`, 80 GiB large.
    pub fn new(recording: Recording, device: DeviceId) -> Self {
        Setup { recording, is_stitch: false }.subject(device)
    }

    fn configured(recording: Recording, device: DeviceId, config: Config) -> Self {
        let (recorder, ring) = match recording {
            Recording::Off => (AnyRecorder::Off(Off), None),
            Recording::Ring => {
                let recorder = ring_recorder(device);
                let ring = Arc::clone(recorder.ring());
                (AnyRecorder::Ring(recorder), Some(ring))
            }
        };
        let sim = SimDevice::new(SimConfig { device, ..SimConfig::default() });
        let heap = Heap::new(sim, config, recorder).expect("the simulated device answers");
        Self { heap: SharedHeap::new(heap), ring }
    }

    /// Memory on a stream of the default pool.
    pub fn malloc(&self, requested_bytes: u64, stream: Stream) -> Addr {
        let pool = PoolChoice::ByScope;
        let request = Request { requested_bytes, stream, pool, stack: StackId::NONE };
        self.heap.malloc(&request).expect("80 GiB are enough")
    }

    /// Gives memory back.
    pub fn free(&self, addr: Addr) {
        self.heap.free(addr, StackId::NONE).expect("the address is live");
    }

    /// How often the device was asked for memory.
    ///
    /// # Panics
    /// If a call panicked.
    pub fn device_allocs(&self) -> i64 {
        self.heap.lock().expect("no call panicked").stats().num_device_alloc
    }

    /// Fails unless everything was given back and the device was asked `device_allocs` times.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn expect_idle(&self, device_allocs: i64) {
        let heap = self.heap.lock().expect("no call panicked");
        assert_eq!(heap.allocations(), 0);
        assert_eq!(heap.stats().allocated_bytes.all.current, 0);
        assert_eq!(heap.stats().num_device_alloc, device_allocs);
        heap.check().expect("the heap is consistent");
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.remove();
        }
    }
}

/// A ring as it ships.
///
/// # Panics
/// Where there is no memory for it.
pub fn ring_recorder(device: DeviceId) -> RingRecorder {
    let slots = Settings::default().ring_events as usize;
    let options = RingOptions { dir: ring_dir(None), device, slots, has_pages: false };
    RingRecorder::new(&options, SystemClock::new()).expect("memory for a ring")
}
