//! `stitch`: its invariants under random programs, and each of its rules.

mod budget;
mod checker;
mod edges;
mod restore;
mod rules;
mod settle;

use std::collections::BTreeMap;
use std::sync::Arc;

use allocator::heap::AllocError;
use device::Device;
use settings::{Config, Plan, PlannedRequest, PlannedSequence, StitchConfig, StreamSharing};
use trace_format::{Addr, PoolId, StackId, Stream};

use crate::rebuilt::Rebuilt;
use crate::support::{Calls, GIB, KIB, MIB, Rng, TestHeap, heap, request, seed};
use checker::{Checker, STREAMS};

fn stitched(capacity_bytes: u64, stitch: StitchConfig) -> TestHeap {
    heap(capacity_bytes, Config { stitch: Some(stitch), ..Config::default() })
}

/// In two steps with so many requests, more than 512 in a row correspond to those before.
const MANY_REQUESTS: u64 = 300;

/// Requests by which a step is found again.
fn begin_step(heap: &mut TestHeap, requests: u64) {
    for size_bytes in (0..requests).map(|number| 2 * MIB + 16 * KIB * number) {
        let addr = heap.take(size_bytes);
        heap.give(addr);
    }
}

/// Places for requests of these sizes that another solver might have chosen: some overlap, some lie too high.
fn any_plan(rng: &mut Rng, sizes: &[u64]) -> Plan {
    let mut request = |_| PlannedRequest {
        size_bytes: sizes[rng.below(sizes.len() as u64) as usize].next_multiple_of(512),
        offset_bytes: if rng.below(50) == 0 { 1 << 50 } else { 512 * rng.below(1 << 18) },
        freed_before: (rng.below(4) > 0).then(|| rng.below(400) as u32),
    };
    let mut sequence = |number: u32| {
        let requests = (0..200).map(&mut request).collect();
        PlannedSequence { stream: number % 3, requests }
    };
    Plan { sequences: (0..4_u32).map(&mut sequence).collect() }
}

/// One program: blocks of all sizes on three streams, some used by other streams, a part of them requested in rounds.
/// Returns after how many calls a page had two homes.
fn run(seed: u64, capacity_bytes: u64, stitch: StitchConfig) -> u64 {
    let mut rng = Rng(seed);
    let sizes: Vec<u64> = (0..20).map(|_| rng.bytes()).collect();
    let plan = (rng.below(2) == 0).then(|| Arc::new(any_plan(&mut rng, &sizes)));
    let has_plan = plan.is_some();
    let config = Config { stitch: Some(stitch), plan, ..Config::default() };
    let mut heap = heap(capacity_bytes, config);
    let (mut checker, mut rebuilt) = (Checker::default(), Rebuilt::default());
    let mut live: BTreeMap<Addr, u64> = BTreeMap::new();
    for step in 0..600_u64 {
        let stream = STREAMS[rng.below(3) as usize];
        match rng.below(20) {
            0 => {
                heap.device_mut().stream_synchronize(stream).expect("it is not captured");
            }
            1 => {
                heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("a flush");
            }
            2..=8 => {
                let at = rng.below(live.len() as u64 + 1) as usize;
                let Some((addr, size_bytes)) = live.iter().nth(at).map(|(a, s)| (*a, *s)) else {
                    continue;
                };
                let stream = heap.allocation(addr).expect("it is live").stream;
                checker.frees(&mut heap, addr, size_bytes, stream);
                live.remove(&addr);
                if rng.below(5) == 0 {
                    heap.record_stream(addr, Stream(48)).expect("it is live");
                }
                heap.free(addr, StackId::NONE).expect("it is live");
            }
            _ => {
                let size = sizes[rng.below(20) as usize];
                match heap.malloc(&request(size, stream)) {
                    Ok(addr) => {
                        let size_bytes = heap.allocation(addr).expect("it is live").size_bytes;
                        live.insert(addr, size_bytes);
                    }
                    Err(AllocError::OutOfMemory(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        heap.check()
            .unwrap_or_else(|broken| panic!("seed {seed}, step {step}, plan {has_plan}: {broken}"));
        checker.check(&mut heap, &live);
        let equals = rebuilt.check(&mut heap).and_then(|()| rebuilt.check_mapping_count(&mut heap));
        equals.unwrap_or_else(|other| panic!("seed {seed}, step {step}, plan {has_plan}: {other}"));
        Checker::check_limit(&mut heap, capacity_bytes);
    }
    for addr in live.into_keys() {
        heap.free(addr, StackId::NONE).expect("it is live");
    }
    heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("a flush");
    checker.release_marks(&mut heap);
    assert_eq!(heap.device_mut().check_empty(), Ok(()), "seed {seed}");
    checker.parted_calls
}

#[test]
fn the_invariants_hold_under_random_programs() {
    let seed = seed("stitch");
    let mut parted_calls = [0; 2];
    for n in 0..24 {
        let seed = seed.wrapping_add(n);
        let sharing = [StreamSharing::Never, StreamSharing::Idle, StreamSharing::Wait];
        let stitch = StitchConfig {
            address_budget: [2, 4][n as usize % 2],
            has_placement_memory: !n.is_multiple_of(5),
            sharing: sharing[n as usize % 3],
        };
        println!("seed {seed}: {stitch:?}");
        let is_tight = n.is_multiple_of(2);
        parted_calls[n as usize % 2] +=
            run(seed, if is_tight { 96 * MIB } else { 4 * GIB }, stitch);
    }
    println!("calls with a page of two homes, with little memory and with much: {parted_calls:?}");
    assert!(parted_calls[0] > 0);
}
