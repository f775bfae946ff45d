//! `stitch`: its invariants under random programs, and each of its rules.

mod checker;
mod rules;

use std::collections::BTreeMap;

use allocator::heap::AllocError;
use device::Device;
use settings::{Config, StitchConfig, StreamSharing};
use trace_format::{Addr, PoolId, StackId, Stream};

use crate::support::{GIB, MIB, Rng, TestHeap, heap, request, seed};
use checker::Checker;

fn stitched(capacity_bytes: u64, stitch: StitchConfig) -> TestHeap {
    heap(capacity_bytes, Config { stitch: Some(stitch), ..Config::default() })
}

/// One program: blocks of all sizes on three streams, some used by other streams, a part of them requested in rounds.
fn run(seed: u64, capacity_bytes: u64, stitch: StitchConfig) {
    let mut rng = Rng(seed);
    let mut heap = stitched(capacity_bytes, stitch);
    let mut checker = Checker::default();
    let mut live: BTreeMap<Addr, u64> = BTreeMap::new();
    let sizes: Vec<u64> = (0..20).map(|_| rng.bytes()).collect();
    let streams = [Stream(0), Stream(16), Stream(32)];
    for step in 0..600_u64 {
        let stream = streams[rng.below(3) as usize];
        match rng.below(20) {
            0 => {
                heap.device_mut().stream_synchronize(stream).expect("it is not captured");
                checker.passes(stream);
            }
            1 => {
                heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("a flush");
            }
            2..=8 => {
                let at = rng.below(live.len() as u64 + 1) as usize;
                let Some((addr, size_bytes)) = live.iter().nth(at).map(|(a, s)| (*a, *s)) else {
                    continue;
                };
                checker.frees(&mut heap, addr, size_bytes);
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
        heap.check().unwrap_or_else(|broken| panic!("seed {seed}, step {step}: {broken}"));
        checker.check(&mut heap, &live);
        Checker::check_limit(&mut heap, capacity_bytes);
    }
    for addr in live.into_keys() {
        heap.free(addr, StackId::NONE).expect("it is live");
    }
    heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("a flush");
    assert_eq!(heap.device_mut().check_empty(), Ok(()), "seed {seed}");
}

#[test]
fn the_invariants_hold_under_random_programs() {
    let seed = seed("stitch");
    for n in 0..24 {
        let seed = seed.wrapping_add(n);
        let sharing = [StreamSharing::Never, StreamSharing::Idle, StreamSharing::Wait];
        let stitch = StitchConfig {
            address_budget: [2, 4][n as usize % 2],
            has_placement_memory: !n.is_multiple_of(5),
            sharing: sharing[n as usize % 3],
        };
        println!("seed {seed}: {stitch:?}");
        run(seed, if n.is_multiple_of(2) { 96 * MIB } else { 4 * GIB }, stitch);
    }
}
