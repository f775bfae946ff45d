//! What the heap's tests share: a heap on a simulated device, requests, a segment source, seeds.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use allocator::SegmentSource;
use allocator::heap::{AllocError, Heap, PoolChoice, Request};
use device::{DeviceCall, DeviceError};
use events::Memory;
use settings::Config;
use sim_device::{EventPolicy, SimConfig, SimDevice};
use trace_format::{Addr, DeviceId, StackId, Stream};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) type TestHeap = Heap<SimDevice, Memory>;

/// A device whose events are done on request, with one peer.
pub(crate) fn device(capacity_bytes: u64) -> SimDevice {
    SimDevice::new(SimConfig {
        events: EventPolicy::OnRequest,
        peers: vec![DeviceId(1)],
        ..SimConfig::with_capacity(capacity_bytes)
    })
}

pub(crate) fn heap(capacity_bytes: u64, config: Config) -> TestHeap {
    Heap::new(device(capacity_bytes), config, Memory::default()).expect("the device answers")
}

pub(crate) fn request(requested_bytes: u64, stream: Stream) -> Request {
    Request { requested_bytes, stream, pool: PoolChoice::ByScope, stack: StackId::NONE }
}

/// The everyday calls, short.
pub(crate) trait Calls {
    fn take(&mut self, requested_bytes: u64) -> Addr;
    fn take_on(&mut self, stream: u64, requested_bytes: u64) -> Addr;
    fn try_take(&mut self, requested_bytes: u64) -> Result<Addr, AllocError>;
    fn give(&mut self, addr: Addr);
    fn flush(&mut self);
}

impl Calls for TestHeap {
    fn take(&mut self, requested_bytes: u64) -> Addr {
        self.take_on(0, requested_bytes)
    }

    fn take_on(&mut self, stream: u64, requested_bytes: u64) -> Addr {
        let taken = self.malloc(&request(requested_bytes, Stream(stream)));
        self.check().expect("consistent after malloc");
        taken.expect("memory")
    }

    fn try_take(&mut self, requested_bytes: u64) -> Result<Addr, AllocError> {
        let taken = self.malloc(&request(requested_bytes, Stream(0)));
        self.check().expect("consistent after malloc");
        taken
    }

    fn give(&mut self, addr: Addr) {
        self.free(addr, StackId::NONE).expect("it was taken");
        self.check().expect("consistent after free");
    }

    fn flush(&mut self) {
        self.empty_cache(trace_format::PoolId::DEFAULT, StackId::NONE).expect("a flush");
        self.check().expect("consistent after empty_cache");
    }
}

/// A segment source with addresses of its own and a limit; the lowest free place first.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    base: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) live: Vec<(Addr, u64)>,
}

impl Source {
    /// The source number `n`: two never hand out the same address.
    pub(crate) fn shared(n: u64, limit_bytes: u64) -> Arc<SharedSource> {
        let base = (n + 1) << 40;
        Arc::new(SharedSource(Mutex::new(Self { base, limit_bytes, live: Vec::new() })))
    }

    pub(crate) fn allocate(&mut self, size_bytes: u64) -> Option<Addr> {
        let used_bytes: u64 = self.live.iter().map(|(_, size)| size).sum();
        if used_bytes + size_bytes > self.limit_bytes {
            return None;
        }
        self.live.sort_unstable();
        let mut start = self.base;
        for (addr, size) in &self.live {
            if start + size_bytes <= addr.0 {
                break;
            }
            start = addr.0 + size;
        }
        self.live.push((Addr(start), size_bytes));
        Some(Addr(start))
    }

    pub(crate) fn free(&mut self, addr: Addr) -> Result<(), DeviceError> {
        let at = self.live.iter().position(|(live, _)| *live == addr);
        let at = at.ok_or_else(|| DeviceError::Driver {
            call: DeviceCall::Free,
            code: 1,
            message: format!("{addr} is not of this source"),
        })?;
        self.live.remove(at);
        Ok(())
    }
}

/// A [`Source`] that a pool and its test share.
#[derive(Debug)]
pub(crate) struct SharedSource(Mutex<Source>);

impl SharedSource {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Source> {
        self.0.lock().expect("unbroken")
    }
}

impl SegmentSource for SharedSource {
    fn allocate(&self, size_bytes: u64) -> Option<Addr> {
        self.lock().allocate(size_bytes)
    }

    fn free(&self, addr: Addr, _: u64) -> Result<(), DeviceError> {
        self.lock().free(addr)
    }
}

/// The seed of a random test: from `VRAMTAPE_SEED`, else from the clock. It is printed, so that a failure repeats.
pub(crate) fn seed(test: &str) -> u64 {
    let given = std::env::var("VRAMTAPE_SEED").ok();
    let seed = match given {
        Some(text) => text.parse().expect("VRAMTAPE_SEED is a number"),
        None => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
        }
    };
    println!("{test}: VRAMTAPE_SEED={seed}");
    seed
}

/// A small generator for tests with random input (SplitMix64: Steele, Lea, Flood 2014).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A size from every class: small, 1 to 10 MiB, larger.
    pub(crate) fn bytes(&mut self) -> u64 {
        let class = [MIB, 10 * MIB, 60 * MIB][self.below(3) as usize];
        1 + self.below(class)
    }
}
