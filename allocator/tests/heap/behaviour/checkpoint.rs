//! Going back to the blocks that a private pool had.

use std::sync::Arc;

use allocator::heap::{AllocError, CheckpointDelta, HeapError};
use settings::{Config, StitchConfig};
use trace_format::{Addr, PoolId, ScopeFilter, SegmentState, StackId, Stream};

use crate::rebuilt::Rebuilt;
use crate::support::{Calls, GIB, MIB, Rng, TestHeap, heap, seed};

const POOL: PoolId = PoolId(1, 0);

/// Memory for the pool.
fn take_inside(heap: &mut TestHeap, requested_bytes: u64) -> Addr {
    heap.begin_pool(POOL, ScopeFilter::Thread, Arc::new(|_| true)).expect("it has users");
    let addr = heap.take(requested_bytes);
    heap.end_pool(POOL).expect("it is open");
    heap.release_pool(POOL).expect("the scope's user");
    addr
}

fn with_pool(config: Config) -> TestHeap {
    let mut heap = heap(GIB, config);
    heap.create_pool(POOL, None).expect("a new pool");
    heap
}

/// What of the pool is in use, without what was asked for: a checkpoint does not keep that, nor does PyTorch's.
fn in_use(heap: &TestHeap) -> Vec<(Addr, u64)> {
    let segments = heap.segments(POOL);
    let blocks = segments.iter().flat_map(|segment: &SegmentState| &segment.blocks);
    let used = blocks.filter(|block| block.status != trace_format::BlockStatus::Inactive);
    used.map(|block| (block.addr, block.size_bytes)).collect()
}

fn go_back(heap: &mut TestHeap, to: &allocator::heap::PoolCheckpoint) -> CheckpointDelta {
    let delta = heap.restore_checkpoint(to, StackId::NONE).expect("the segments are there");
    heap.check().expect("consistent after going back");
    delta
}

/// Plain and expandable segments, and `stitch`, which leaves private pools as they are.
fn settings() -> [Config; 3] {
    let stitch = Some(StitchConfig::default());
    [
        Config::default(),
        Config { expandable_segments: true, ..Config::default() },
        Config { stitch, ..Config::default() },
    ]
}

#[test]
fn restoring_returns_live_blocks_to_their_addresses() {
    for config in settings() {
        let mut heap = with_pool(config);
        let (first, second) = (take_inside(&mut heap, 3 * MIB), take_inside(&mut heap, 5 * MIB));
        let outside = heap.take(MIB);
        let checkpoint = heap.checkpoint(POOL).expect("the pool exists");
        let before = in_use(&heap);
        heap.give(first);
        let later = take_inside(&mut heap, 30 * MIB);
        let delta = go_back(&mut heap, &checkpoint);
        assert_eq!(
            delta,
            CheckpointDelta { freed: vec![second, later], created: vec![first, second] }
        );
        assert_eq!(in_use(&heap), before);
        assert_eq!(heap.allocations_of(POOL), Ok(vec![first, second]));
        for addr in [first, second, outside] {
            heap.give(addr);
        }
    }
}

/// Whatever happens between, in the pool and outside, the way back leads to the same blocks, as often as it is gone.
#[test]
fn the_way_back_leads_to_the_same_blocks_whatever_happened() {
    let mut rng = Rng(seed("checkpoint"));
    for config in settings().iter().cycle().take(60) {
        let mut heap = with_pool(config.clone());
        let mut rebuilt = Rebuilt::default();
        let (mut live, mut outside): (Vec<Addr>, Vec<Addr>) = (Vec::new(), Vec::new());
        let mut churn = |heap: &mut TestHeap, live: &mut Vec<Addr>, calls: u64| {
            for _ in 0..calls {
                if live.is_empty() || rng.below(3) > 0 {
                    let bytes = if rng.below(2) == 0 {
                        1 + rng.below(MIB)
                    } else {
                        rng.below(30 * MIB) + 1
                    };
                    live.push(take_inside(heap, bytes));
                } else {
                    let at = rng.below(live.len() as u64) as usize;
                    heap.give(live.swap_remove(at));
                }
                outside.push(heap.take(rng.bytes()));
                if outside.len() > 4 {
                    heap.give(outside.swap_remove(rng.below(4) as usize));
                }
                rebuilt.check(heap).expect("as on the tape");
            }
        };
        churn(&mut heap, &mut live, 20);
        let checkpoint = heap.checkpoint(POOL).expect("the pool exists");
        let before = in_use(&heap);
        for _ in 0..2 {
            churn(&mut heap, &mut live, 15);
            live = go_back(&mut heap, &checkpoint).created;
            assert_eq!(in_use(&heap), before);
        }
    }
}

#[test]
fn a_pool_that_is_gone_or_waits_has_no_checkpoint() {
    let mut heap = with_pool(Config::default());
    let unknown = heap.checkpoint(PoolId(7, 7));
    assert!(matches!(unknown, Err(AllocError::Heap(HeapError::UnknownPool { .. }))));
    let addr = take_inside(&mut heap, MIB);
    heap.record_stream(addr, Stream(16)).expect("it was taken");
    heap.give(addr);
    let waiting = heap.checkpoint(POOL);
    assert!(matches!(waiting, Err(AllocError::Heap(HeapError::CheckpointPending { .. }))));
    heap.release_pool(POOL).expect("one user");
    let released = heap.checkpoint(POOL);
    assert!(matches!(released, Err(AllocError::Heap(HeapError::Released { .. }))));
}

#[test]
fn a_segment_that_was_returned_since_is_an_error() {
    let mut heap = with_pool(Config::default());
    let addr = take_inside(&mut heap, 3 * MIB);
    let checkpoint = heap.checkpoint(POOL).expect("the pool exists");
    heap.give(addr);
    heap.release_pool(POOL).expect("one user");
    heap.flush();
    heap.create_pool(POOL, None).expect("new again");
    let lost = heap.restore_checkpoint(&checkpoint, StackId::NONE);
    assert!(matches!(lost, Err(AllocError::Heap(HeapError::CheckpointLost { .. }))));
    heap.check().expect("consistent after the error");
}
