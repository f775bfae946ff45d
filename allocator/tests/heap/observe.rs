//! An observer that gets a heap's events in PyTorch's terms writes the tape that the heap itself writes.

use std::sync::{Arc, Mutex};

use allocator::heap::{AllocError, Heap, PoolChoice, Request};
use device::Device;
use events::{BlockSlot, Memory, Off, Recorder, Statistics};
use observer::Observer;
use recorder::{AnyRecorder, TraceEntry, WatchId, Watcher};
use settings::Config;
use sim_device::SimDevice;
use trace_format::{Addr, BaseState, Event, PoolId, StackId, Stream, StringId};

use crate::support::{MIB, Rng, device, seed};

/// The entries for an observer.
#[derive(Clone, Copy, Debug)]
enum Heard {
    Entry(TraceEntry),
    BeginEmptyCache,
    EndEmptyCache,
}

type Log = Arc<Mutex<Vec<Heard>>>;

struct Ear(Log);

impl Watcher for Ear {
    fn see(&mut self, entry: &TraceEntry) {
        self.0.lock().unwrap().push(Heard::Entry(*entry));
    }
}

/// Keeps the heap's own events and forwards them to the watchers.
struct Both {
    own: Memory,
    watched: AnyRecorder,
}

impl Recorder for Both {
    fn record(&mut self, stack: StackId, event: Event) {
        self.own.record(stack, event);
        self.watched.record(stack, event);
    }

    fn record_block(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: Event,
        statistics: &impl Statistics,
    ) {
        self.own.record_block(slot, stack, event, statistics);
        self.watched.record_block(slot, stack, event, statistics);
    }

    fn intern(&mut self, text: &str) -> StringId {
        self.own.intern(text)
    }
}

fn heap(capacity_bytes: u64, config: &Config) -> (Heap<SimDevice, Both>, Log) {
    let log = Log::default();
    let mut watched = AnyRecorder::Off(Off);
    watched.watch(WatchId(1), Box::new(Ear(Arc::clone(&log))), [].into_iter());
    let both = Both { own: Memory::default(), watched };
    (Heap::new(device(capacity_bytes), config.clone(), both).expect("the device answers"), log)
}

/// What the observer writes, having heard all; `names_pools` is false for PyTorch before 2.8.
fn observed(log: &Log, config: &Config, names_pools: bool) -> Observer<Memory> {
    let base = BaseState::default();
    let mut observer =
        Observer::new(&base, config.clone(), None, Memory::default()).expect("nothing");
    for heard in log.lock().unwrap().iter() {
        match *heard {
            Heard::Entry(entry) if names_pools => observer.see(&entry),
            Heard::Entry(entry) => observer.see(&TraceEntry { pool: None, ..entry }),
            Heard::BeginEmptyCache => observer.begin_empty_cache(PoolId::DEFAULT),
            Heard::EndEmptyCache => observer.end_empty_cache(),
        }
    }
    observer.settle();
    observer
}

/// What a trace says outright: memory, and emptied caches.
fn of_memory(events: &[(StackId, Event)]) -> Vec<Event> {
    let is_of_memory = |event: &Event| {
        matches!(
            event,
            Event::Alloc { .. }
                | Event::Free { .. }
                | Event::FreeCompleted { .. }
                | Event::SegmentAlloc { .. }
                | Event::SegmentFree { .. }
                | Event::SegmentMap { .. }
                | Event::SegmentUnmap { .. }
                | Event::EmptyCache { .. }
        )
    };
    let mut kept: Vec<Event> = Vec::new();
    for (_, event) in events.iter().filter(|(_, event)| is_of_memory(event)) {
        // A free that was pending for a moment reads as one that was not.
        if let Event::FreeCompleted { addr: done, .. } = *event
            && let Some(Event::Free { addr, pending, .. }) = kept.last_mut()
            && *addr == done
        {
            *pending = false;
        } else {
            kept.push(*event);
        }
    }
    kept
}

/// Random calls on two streams, with frees that wait, emptied caches and requests that are refused.
fn storm(heap: &mut Heap<SimDevice, Both>, log: &Log, rng: &mut Rng) {
    let mut live: Vec<Addr> = Vec::new();
    for _ in 0..3000 {
        match rng.below(100) {
            0..50 => {
                let request = Request {
                    requested_bytes: rng.bytes(),
                    stream: Stream(rng.below(2)),
                    pool: PoolChoice::ByScope,
                    stack: StackId::NONE,
                };
                match heap.malloc(&request) {
                    Ok(addr) => live.push(addr),
                    Err(AllocError::OutOfMemory(_)) => {
                        for addr in live.drain(..live.len() / 2) {
                            heap.free(addr, StackId::NONE).unwrap();
                        }
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            50..95 if !live.is_empty() => {
                let addr = live.swap_remove(rng.below(live.len() as u64) as usize);
                if rng.below(4) == 0 {
                    heap.record_stream(addr, Stream(7)).unwrap();
                }
                heap.free(addr, StackId::NONE).unwrap();
            }
            95..98 => heap.device_mut().stream_synchronize(Stream(7)).unwrap(),
            98 => {
                log.lock().unwrap().push(Heard::BeginEmptyCache);
                heap.empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap();
                log.lock().unwrap().push(Heard::EndEmptyCache);
            }
            _ => {}
        }
    }
}

#[test]
fn it_writes_what_the_heap_writes() {
    let seed = seed("observe");
    for expandable_segments in [false, true] {
        for names_pools in [true, false] {
            let config = Config { expandable_segments, ..Config::default() };
            let (mut heap, log) = heap(600 * MIB, &config);
            storm(&mut heap, &log, &mut Rng(seed));
            let observer = observed(&log, &config, names_pools);
            let own = of_memory(&heap.recorder_mut().own.events);
            let seen = of_memory(&observer.recorder().events);
            for (at, (own, seen)) in own.iter().zip(&seen).enumerate() {
                assert_eq!(own, seen, "event {at} of seed {seed}, {config:?}");
            }
            assert_eq!(own.len(), seen.len());
            assert_eq!(observer.contradictions(), 0);
            assert_eq!(observer.base_state().segments, without_free(&heap));
        }
    }
}

/// The heap's segments as a state has them: of free blocks only their place.
fn without_free(heap: &Heap<SimDevice, Both>) -> Vec<trace_format::SegmentState> {
    let segments = heap.segments(PoolId::DEFAULT);
    trace_format::State::from_segments(&segments).expect("whole").segments()
}
