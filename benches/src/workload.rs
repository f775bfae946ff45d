//! Requests that a seed reproduces.

use allocator::heap::{Heap, PoolChoice, Request};
use events::Memory;
use settings::Config;
use sim_device::{SimConfig, SimDevice};
use trace_format::{Record, StackId, Stream, ThreadId};

/// SplitMix64: small, and the same on every machine.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number below `limit`.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// `count` sizes from 1 byte to 16 MiB, as many of each magnitude.
pub fn mixed_sizes(seed: u64, count: usize) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut size = || {
        let magnitude = 1 << random.below(24);
        magnitude + random.below(magnitude)
    };
    (0..count).map(|_| size()).collect()
}

/// The first `count` events of steps in layers: forward keeps, backward gives back in reverse. No step
/// is the same as another, so that a tape cannot live on repetition alone.
///
/// # Panics
/// Never on the simulated device.
pub fn training_records(seed: u64, count: usize) -> Vec<Record> {
    const LAYERS: usize = 64;
    let sim = SimDevice::new(SimConfig::default());
    let mut heap = Heap::new(sim, Config::default(), Memory::default()).expect("a device");
    let stack = StackId::NONE;
    let sizes = mixed_sizes(seed, 256);
    let mut random = Random::new(seed);
    while heap.recorder_mut().events.len() < count {
        let mut kept = Vec::new();
        for _ in 0..LAYERS {
            let blocks = [(); 4].map(|()| {
                let requested_bytes = sizes[random.below(sizes.len() as u64) as usize];
                let pool = PoolChoice::ByScope;
                let request = Request { requested_bytes, stream: Stream(0), pool, stack };
                heap.malloc(&request).expect("memory")
            });
            heap.free(blocks[0], stack).expect("a live block");
            kept.extend_from_slice(&blocks[1..]);
        }
        for block in kept.into_iter().rev() {
            heap.free(block, stack).expect("a live block");
        }
    }
    let events = std::mem::take(&mut heap.recorder_mut().events);
    let mut time_ns = 1_700_000_000_000_000_000;
    let record = |(stack, event)| {
        time_ns += 300 + random.below(4_000);
        Record { time_ns, thread: ThreadId(1), stack, event }
    };
    events.into_iter().take(count).map(record).collect()
}
