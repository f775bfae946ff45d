//! A state that is copied in slices from a heap that goes on is the state of one moment.

mod workload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recorder::base_in_slices;
use settings::{Compat, Config};
use trace_format::{BaseState, PoolId, StackId, State};
use workload::{POOL, Shared, Workload, heap_with};

/// The state in slices of `per_hold`, and that of the whole heap under the last hold. `between` is called after each.
fn both(
    per_hold: usize,
    heap: &Shared,
    mut between: impl FnMut(),
) -> ((BaseState, u64), (BaseState, u64), usize) {
    let (mut last, mut holds) = (None, 0);
    let ring = Arc::clone(heap.lock().unwrap().recorder().ring().unwrap());
    let sliced = base_in_slices(per_hold, &ring, &mut |work| {
        let heap_now = heap.lock().ok()?;
        work(&heap_now);
        last = Some((heap_now.base_state(), ring.sequence()));
        holds += 1;
        drop(heap_now);
        between();
        Some(())
    });
    (sliced.unwrap(), last.unwrap(), holds)
}

/// Free blocks remember in the heap only what they were.
fn expect_equal((mut sliced, at): (BaseState, u64), (mut whole, whole_at): (BaseState, u64)) {
    assert_eq!(at, whole_at);
    for base in [&mut sliced, &mut whole] {
        base.segments = State::from_segments(&base.segments).unwrap().segments();
    }
    for (ours, theirs) in sliced.segments.iter_mut().zip(&whole.segments) {
        if ours.is_expandable {
            // A run whose first pages are gone keeps its stack on tape, as its records say.
            ours.stack = theirs.stack;
        }
    }
    assert_eq!(sliced, whole);
}

fn configs() -> impl Iterator<Item = Config> {
    let kinds = [(false, Compat::V2_11), (false, Compat::V2_15), (true, Compat::V2_15)];
    kinds.into_iter().map(|(expandable_segments, compat)| Config {
        expandable_segments,
        compat,
        per_process_memory_fraction: 0.9,
        garbage_collection_threshold: 0.5,
        ..Config::default()
    })
}

fn prepared(heap: &Shared, seed: u64) -> Workload {
    heap.lock().unwrap().create_pool(POOL, None).unwrap();
    let mut work = Workload::new(seed);
    work.stacks = 1_000;
    work
}

#[test]
fn slices_of_a_heap_that_goes_on_in_between_are_its_state_at_the_last() {
    let mut most_holds = 0;
    for config in configs() {
        for seed in 1..20 {
            let dir = tempfile::tempdir().unwrap();
            let heap = heap_with(dir.path(), 1 << 14, config.clone());
            let mut work = prepared(&heap, seed * 0x9e37_79b9);
            work.run(&heap, 400);
            for per_hold in [1, 7, 64, usize::MAX] {
                let steps = 1 + seed as usize % 8;
                let (sliced, whole, holds) = both(per_hold, &heap, || work.run(&heap, steps));
                most_holds = most_holds.max(holds);
                assert!(per_hold < usize::MAX || holds == 1);
                expect_equal(sliced, whole);
                heap.lock().unwrap().check().unwrap();
            }
        }
    }
    println!("up to {most_holds} holds");
    assert!(most_holds > 100);
}

#[test]
fn slices_beside_a_thread_that_allocates_are_the_state_at_the_last() {
    for config in configs() {
        let dir = tempfile::tempdir().unwrap();
        let heap = heap_with(dir.path(), 1 << 16, config);
        let mut work = prepared(&heap, 0x5eed);
        work.run(&heap, 2_000);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    work.run(&heap, 20);
                    std::thread::sleep(Duration::from_micros(20));
                }
            });
            for _ in 0..5 {
                let (sliced, whole, _) = both(64, &heap, || ());
                expect_equal(sliced, whole);
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}

/// The ring turns over while the first slices are copied: the next attempt takes larger ones.
#[test]
fn a_ring_that_turns_over_meanwhile_ends_in_one_hold() {
    let dir = tempfile::tempdir().unwrap();
    let heap = heap_with(dir.path(), 64, Config::default());
    let mut work = prepared(&heap, 11);
    work.run(&heap, 400);
    let (sliced, whole, holds) = both(1, &heap, || work.run(&heap, 100));
    expect_equal(sliced, whole);
    assert!((2..10).contains(&holds), "{holds} holds");
}

/// What a thread sees in `torch.cuda.empty_cache()` while its state is being copied.
#[test]
fn segments_that_come_and_go_between_slices_are_those_of_the_last() {
    for config in configs() {
        let dir = tempfile::tempdir().unwrap();
        let heap = heap_with(dir.path(), 1 << 14, config);
        let mut work = prepared(&heap, 17);
        work.run(&heap, 600);
        let (sliced, whole, _) = both(3, &heap, || {
            heap.lock().unwrap().empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap();
            work.run(&heap, 3);
        });
        expect_equal(sliced, whole);
    }
}
