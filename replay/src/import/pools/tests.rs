use observer::cause::Cause;
use trace_format::{ScopeFilter, State};

use super::*;
use crate::import::sample::{MIB, entry, in_pool};

use TraceAction::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree};

const GRAPH: PoolId = PoolId(1, 0);
const USER: PoolId = PoolId(0, 1);

fn events(entries: &[TraceEntry], flushes: &[Flush]) -> Vec<(usize, Event)> {
    let kind = |entry: &TraceEntry| MemoryKind { pool: entry.pool.unwrap(), is_large: true };
    let walked = Walked {
        base: State::new(),
        kinds: entries.iter().map(kind).collect(),
        unrecorded_frees: 0,
        notes: Vec::new(),
    };
    let found = find(entries, &walked, flushes).inserts;
    found.into_iter().map(|insert| (insert.before, insert.event)).collect()
}

#[test]
fn a_scope_spans_its_allocations_and_what_they_took_from_the_device() {
    let entries = [
        entry(Alloc, 512),
        in_pool(GRAPH, entry(SegmentAlloc, 2 * MIB)),
        in_pool(GRAPH, entry(Alloc, 512)),
        in_pool(GRAPH, entry(FreeRequested, 512)),
        in_pool(GRAPH, entry(FreeCompleted, 512)),
        in_pool(GRAPH, entry(Alloc, 512)),
        entry(Alloc, 512),
    ];
    let pool = GRAPH;
    assert_eq!(
        events(&entries, &[]),
        [
            (1, Event::PoolCreate { pool, own_source: false }),
            (1, Event::PoolBegin { pool, filter: ScopeFilter::Capture }),
            (1, Event::CaptureBegin { pool }),
            (6, Event::CaptureEnd { pool }),
            (6, Event::PoolEnd { pool }),
            (6, Event::PoolRelease { pool }),
        ]
    );
}

#[test]
fn a_scope_begins_before_a_retry_and_after_an_emptied_cache() {
    let entries = [
        entry(SegmentFree, 2 * MIB),
        in_pool(USER, entry(SegmentAlloc, 2 * MIB)),
        in_pool(USER, entry(Alloc, 512)),
    ];
    let first = |cause| events(&entries, &[Flush { window: 0..1, cause }])[0].0;
    assert_eq!(first(Cause::Refused { size_bytes: 2 * MIB }), 0);
    assert_eq!(first(Cause::Emptied { pool: PoolId::DEFAULT }), 1);
}

#[test]
fn a_pool_is_let_go_before_its_first_segment_goes_back() {
    let entries = [
        in_pool(USER, entry(SegmentAlloc, 2 * MIB)),
        in_pool(USER, entry(Alloc, 512)),
        in_pool(USER, entry(FreeRequested, 512)),
        in_pool(USER, entry(FreeCompleted, 512)),
        in_pool(USER, entry(SegmentFree, 2 * MIB)),
    ];
    let flush = Flush { window: 3..5, cause: Cause::Emptied { pool: USER } };
    let events = events(&entries, &[flush]);
    assert_eq!(*events.last().unwrap(), (3, Event::PoolRelease { pool: USER }));
    let releases = events.iter().filter(|(_, e)| matches!(e, Event::PoolRelease { .. })).count();
    assert_eq!(releases, 2, "once for its scope, once for its owner");
}
