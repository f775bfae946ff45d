//! A recorded heap on the simulated device, and what is done to it at random.

use std::path::Path;
use std::sync::Arc;

use allocator::heap::{Heap, PoolChoice, Request};
use recorder::{AnyRecorder, RingOptions, RingRecorder, SystemClock};
use settings::Config;
use shared_heap::SharedHeap;
use sim_device::{SimConfig, SimDevice};
use trace_format::{Addr, DeviceId, PoolId, StackId, Stream};

pub(crate) const POOL: PoolId = PoolId(0, 1);

pub(crate) type Shared = Arc<SharedHeap<SimDevice, AnyRecorder>>;

/// A heap of 8 GiB that records into a ring of `slots` in `dir`.
pub(crate) fn heap_with(dir: &Path, slots: usize, config: Config) -> Shared {
    let has_pages = config.stitch.is_some();
    let options = RingOptions { dir: dir.to_owned(), device: DeviceId(0), slots, has_pages };
    let recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
    let device = SimDevice::new(SimConfig::with_capacity(8 << 30));
    let heap = Heap::new(device, config, AnyRecorder::Ring(recorder)).unwrap();
    Arc::new(SharedHeap::new(heap))
}

/// Allocates and frees at random: two streams, a private pool, cross-stream frees that complete late, flushes.
pub(crate) struct Workload {
    live: Vec<Addr>,
    random: u64,
    /// How many stacks its calls have; 0 is none.
    pub(crate) stacks: u64,
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self { live: Vec::new(), random: seed, stacks: 0 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn stack(&mut self) -> StackId {
        StackId(if self.stacks > 0 { self.random(self.stacks) as u32 } else { 0 })
    }

    pub(crate) fn run(&mut self, heap: &Shared, steps: usize) {
        for _ in 0..steps {
            let mut heap = heap.lock().unwrap();
            match self.random(200) {
                0 => heap.empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap(),
                1 => heap.device_mut().complete_all(),
                2 => heap.reset_peak_stats(),
                _ if self.live.is_empty() || self.random(100) < 52 => {
                    let small = self.random(2) == 0;
                    let requested_bytes = self.random(if small { 100_000 } else { 30 << 20 }) + 1;
                    let in_pool = self.random(4) == 0;
                    let pool = PoolChoice::Exactly(if in_pool { POOL } else { PoolId::DEFAULT });
                    let (stream, stack) = (Stream(self.random(2)), self.stack());
                    let request = Request { requested_bytes, stream, pool, stack };
                    // Out of memory is one of the things that can be on a tape.
                    if let Ok(addr) = heap.malloc(&request) {
                        self.live.push(addr);
                    }
                }
                _ => {
                    let at = self.random(self.live.len() as u64) as usize;
                    let addr = self.live.swap_remove(at);
                    if self.random(4) == 0 {
                        heap.record_stream(addr, Stream(7)).unwrap();
                    }
                    heap.free(addr, self.stack()).unwrap();
                }
            }
        }
    }
}
