//! A scripted run that makes every call the heap can make of its device.

use allocator::heap::AllocError;
use settings::Config;
use trace_format::{DeviceId, Stream};

use super::run::Run;
use crate::support::{KIB, MIB, request};

pub(super) fn play(run: &mut Run) {
    plain_segments(run);
    expandable_segments(run);
    shared_pages(run);
    waiting_frees(run);
    oversize_blocks(run);
    garbage(run);
    capture(run);
    short_memory(run);
}

fn plain_segments(run: &mut Run) {
    let small = run.take(0, 300 * KIB);
    let large = run.take(0, 5 * MIB);
    run.take(0, 40 * MIB);
    run.give(large, None);
    run.give(small, None);
    run.flush();
}

fn expandable_segments(run: &mut Run) {
    run.expand(true);
    let front = run.take(0, 10 * MIB);
    let middle = run.take(0, 60 * MIB);
    let tail = run.take(0, 10 * MIB);
    run.take(0, 512);
    let peer = run.heap.add_peer(DeviceId(1));
    run.note(peer);
    run.give(middle, None);
    run.flush();
    let again = run.take(0, 30 * MIB);
    for addr in [front, tail, again] {
        run.give(addr, None);
    }
    run.flush();
    run.expand(false);
}

/// What one process shares and another opens, both of them this one.
fn shared_pages(run: &mut Run) {
    run.expand(true);
    let kept = run.take(0, 30 * MIB);
    run.share(kept);
    run.give(kept, None);
    run.flush();
    run.expand(false);
}

fn waiting_frees(run: &mut Run) {
    for _ in 0..2 {
        let used = run.take(0, 6 * MIB);
        run.give(used, Some(16));
        run.take(0, 700 * KIB);
        run.stream_done(16);
        run.take(0, 700 * KIB);
    }
    let used = run.take(0, 6 * MIB);
    run.give(used, Some(32));
    run.flush();
}

/// The retry chain returns just what an oversize request needs.
fn oversize_blocks(run: &mut Run) {
    run.heap.set_config(Config { max_split_size_bytes: 20 * MIB, ..run.config() });
    let blocks = [24, 36, 44].map(|mib| run.take(0, mib * MIB));
    for block in blocks {
        run.give(block, None);
    }
    let wide = run.take(0, 120 * MIB);
    run.give(wide, None);
    run.expand(false);
    run.flush();
}

fn garbage(run: &mut Run) {
    run.heap.set_config(Config { garbage_collection_threshold: 0.3, ..run.config() });
    run.heap.set_memory_fraction(0.9).expect("a fraction");
    let old = run.take(0, 50 * MIB);
    run.give(old, None);
    run.take(0, 52 * MIB);
    run.heap.set_memory_fraction(1.0).expect("no limit");
    run.expand(false);
}

/// Within a capture: growth, a free that the graph lets go, one that waits for the end; beside it, another stream.
fn capture(run: &mut Run) {
    let (main, side) = (16, 32);
    run.begin_capture([main, side]);
    let used = run.take(main, 3 * MIB);
    run.launch(side);
    run.give(used, Some(side));
    run.take(main, 3 * MIB);
    run.join(side, main);
    let held = run.take(main, 3 * MIB);
    run.give(held, Some(side));
    let beside = run.take(0, 2 * MIB);
    run.give(beside, Some(48));
    run.take(0, 2 * MIB);
    run.end_capture();
    run.stream_done(48);
    run.take(0, 512);
}

/// A request that the flush makes room for, and one that nothing can serve.
fn short_memory(run: &mut Run) {
    let cached = run.take(0, 60 * MIB);
    run.give(cached, Some(16));
    run.stream_done(16);
    let wide = run.take(0, 70 * MIB);
    run.give(wide, None);
    run.expand(true);
    let grown = run.take(16, 80 * MIB);
    run.give(grown, None);
    let refused = run.heap.malloc(&request(2 * Run::CAPACITY_BYTES, Stream(0)));
    if let Err(error @ AllocError::Device(_)) = refused {
        run.note(Err::<(), _>(error));
    }
}
