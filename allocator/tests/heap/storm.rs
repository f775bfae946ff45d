//! Threads that share a heap: cross-thread frees, other streams, faults, callbacks that free.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use allocator::heap::{AllocError, Heap, Request};
use device::DeviceCall;
use events::{Memory, Off};
use settings::{Config, StitchConfig};
use shared_heap::SharedHeap;
use sim_device::{EventPolicy, Fault, SimConfig, SimDevice};
use trace_format::{Addr, Event, PoolId, StackId, Stream};

use crate::support::{Calls, GIB, MIB, Rng, heap, request, seed};

type Shared = SharedHeap<SimDevice, Off>;

const THREADS: u64 = 8;
const STREAMS: [Stream; 4] = [Stream(0), Stream(16), Stream(32), Stream(48)];

/// What everybody may free: blocks in flight between threads.
#[derive(Default)]
struct Pile(Mutex<Vec<Addr>>);

impl Pile {
    fn put(&self, addr: Addr) {
        self.0.lock().expect("unbroken").push(addr);
    }

    fn take(&self, rng: &mut Rng) -> Option<Addr> {
        let mut pile = self.0.lock().expect("unbroken");
        let count = pile.len() as u64;
        (count > 0).then(|| pile.swap_remove(rng.below(count) as usize))
    }
}

/// A device that fails now and then, and whose events take a while.
fn stormy_heap(seed: u64) -> Arc<Shared> {
    let mut config = SimConfig::with_capacity(GIB);
    config.events = EventPolicy::AfterQueries(3);
    for call in [DeviceCall::Malloc, DeviceCall::Free, DeviceCall::EventRecord, DeviceCall::Map] {
        config.faults.fail_randomly(call, 0.01, Fault::Driver(719));
    }
    config.faults.fail_randomly(DeviceCall::Create, 0.05, Fault::OutOfMemory);
    let expandable_segments = seed.is_multiple_of(2);
    let stitch = seed.is_multiple_of(3).then(StitchConfig::default);
    let settings = Config { expandable_segments, stitch, ..Config::default() };
    let heap = Heap::new(SimDevice::new(config), settings, Off).expect("the device answers");
    Arc::new(SharedHeap::new(heap))
}

fn free(heap: &Shared, addr: Addr) {
    match heap.free(addr, StackId::NONE) {
        Ok(()) | Err(AllocError::Device(_)) => {}
        Err(error) => panic!("{addr} was handed out: {error}"),
    }
}

/// Runs one thread to the end: an allocation is kept, freed, or left for other threads.
fn blow(heap: &Shared, pile: &Pile, mut rng: Rng, end: Instant) -> usize {
    let mut calls = 0;
    while Instant::now() < end {
        calls += 1;
        match rng.below(10) {
            0..=4 => {
                let stream = STREAMS[rng.below(4) as usize];
                match heap.malloc(&request(rng.bytes(), stream)) {
                    Ok(addr) => pile.put(addr),
                    Err(AllocError::OutOfMemory(_) | AllocError::Device(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            5..=7 => {
                if let Some(addr) = pile.take(&mut rng) {
                    free(heap, addr);
                }
            }
            8 => {
                if let Some(addr) = pile.take(&mut rng) {
                    let stream = STREAMS[rng.below(4) as usize];
                    heap.lock().expect("whole").record_stream(addr, stream).expect("live");
                    pile.put(addr);
                }
            }
            _ if rng.below(20) == 0 => {
                let mut heap = heap.lock().expect("whole");
                let _ = heap.empty_cache(PoolId::DEFAULT, StackId::NONE);
                heap.check().expect("consistent in the storm");
            }
            _ => {}
        }
    }
    calls
}

#[test]
fn a_storm_of_threads_leaves_a_whole_heap_and_an_empty_device() {
    let seed = seed("storm");
    for round in 0..3 {
        let heap = stormy_heap(seed.wrapping_add(round));
        let pile = Arc::new(Pile::default());
        let freed = Arc::new(AtomicUsize::new(0));
        let (callback_heap, callback_pile, callback_freed) =
            (Arc::downgrade(&heap), pile.clone(), freed.clone());
        heap.on_miss(Box::new(move || {
            let Some(heap) = callback_heap.upgrade() else { return false };
            let n = callback_freed.fetch_add(1, Ordering::Relaxed);
            let Some(addr) = callback_pile.take(&mut Rng(n as u64)) else { return false };
            free(&heap, addr);
            true
        }));

        let end = Instant::now() + Duration::from_millis(700);
        let calls: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    let rng = Rng(seed ^ (round * THREADS + n).wrapping_mul(0x9e37_79b9));
                    let (heap, pile) = (&heap, &pile);
                    scope.spawn(move || blow(heap, pile, rng, end))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        println!("round {round}: {calls} calls, {} callbacks", freed.load(Ordering::Relaxed));

        let mut heap = heap.lock().expect("whole");
        heap.check().expect("consistent after the storm");
        heap.device_mut().faults_mut().clear();
        for addr in pile.0.lock().expect("unbroken").drain(..) {
            heap.free(addr, StackId::NONE).expect("live");
        }
        heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("a flush");
        heap.check().expect("consistent at the end");
        assert_eq!(heap.device_mut().check_empty(), Ok(()));
    }
}

#[test]
fn a_callback_may_allocate_and_miss_itself() {
    let heap = Arc::new(SharedHeap::new(heap(GIB, Config::default())));
    let inside = Arc::new(AtomicBool::new(false));
    let weak = Arc::downgrade(&heap);
    heap.on_miss(Box::new(move || {
        let Some(heap) = weak.upgrade() else { return false };
        if inside.swap(true, Ordering::Relaxed) {
            return false;
        }
        let addr = heap.malloc(&request(40 * MIB, Stream(0))).expect("memory");
        heap.free(addr, StackId::NONE).expect("live");
        true
    }));
    heap.malloc(&request(40 * MIB, Stream(0))).expect("memory");
    assert_eq!(heap.lock().expect("whole").stats().num_device_alloc, 1, "what the callback freed");
}

#[test]
fn a_request_served_after_a_callback_keeps_its_own_stack() {
    let mut heap = heap(GIB, Config::default());
    let held = heap.take(40 * MIB);
    let heap = Arc::new(SharedHeap::new(heap));
    let weak = Arc::downgrade(&heap);
    heap.on_miss(Box::new(move || {
        weak.upgrade().is_some_and(|heap| heap.free(held, StackId(7)).is_ok())
    }));
    let asked = Request { stack: StackId(9), ..request(40 * MIB, Stream(0)) };
    assert_eq!(heap.malloc(&asked).expect("memory"), held);
    let mut heap = heap.lock().expect("whole");
    let events: &Memory = heap.recorder_mut();
    let last = events.events.last().expect("an allocation");
    assert!(matches!(last, (StackId(9), Event::Alloc { addr, .. }) if *addr == held), "{last:?}");
}

#[test]
fn a_panic_under_the_lock_breaks_the_heap_with_an_error_not_with_silence() {
    let heap = Arc::new(SharedHeap::new(heap(GIB, Config::default())));
    let other = heap.clone();
    let panicked = thread::spawn(move || {
        let _heap = other.lock();
        panic!("in the middle of a change");
    });
    assert!(panicked.join().is_err());
    assert_eq!(heap.malloc(&request(512, Stream(0))), Err(AllocError::Broken));
    assert_eq!(heap.free(Addr(1), StackId::NONE), Err(AllocError::Broken));
}
