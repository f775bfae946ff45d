//! The state of memory follows events forwards and backwards, and refuses what cannot have happened.

use proptest::prelude::*;
use trace_format::{
    Addr, BlockStatus, Event, PoolId, Problem, Record, SegmentState, StackId, State, Stream,
    ThreadId,
};

const PAGE: u64 = 2 << 20;
const POOL: PoolId = PoolId(0, 7);

fn record(event: Event) -> Record {
    Record { time_ns: 0, thread: ThreadId(0), stack: StackId::NONE, event }
}

fn alloc(addr: u64, requested_bytes: u64, size_bytes: u64) -> Record {
    let addr = Addr(addr);
    record(Event::Alloc { addr, requested_bytes, size_bytes, stream: Stream(3), pool: POOL })
}

fn free(addr: u64, requested_bytes: u64, size_bytes: u64, pending: bool) -> Record {
    record(Event::Free { addr: Addr(addr), requested_bytes, size_bytes, pending })
}

fn completed(addr: u64, requested_bytes: u64, size_bytes: u64) -> Record {
    record(Event::FreeCompleted { addr: Addr(addr), requested_bytes, size_bytes })
}

fn segment_alloc(addr: u64, size_bytes: u64) -> Record {
    let (addr, stream) = (Addr(addr), Stream(3));
    record(Event::SegmentAlloc { addr, size_bytes, stream, pool: POOL, is_large: true })
}

fn segment_free(addr: u64, size_bytes: u64) -> Record {
    let (addr, stream) = (Addr(addr), Stream(3));
    record(Event::SegmentFree { addr, size_bytes, stream, pool: POOL, is_large: true })
}

fn map(addr: u64, size_bytes: u64) -> Record {
    let (addr, stream) = (Addr(addr), Stream(3));
    record(Event::SegmentMap { addr, size_bytes, stream, pool: POOL, is_large: true })
}

fn unmap(addr: u64, size_bytes: u64) -> Record {
    let (addr, stream) = (Addr(addr), Stream(3));
    record(Event::SegmentUnmap { addr, size_bytes, stream, pool: POOL, is_large: true })
}

fn after(records: &[Record]) -> State {
    let mut state = State::new();
    for record in records {
        state.apply(record).unwrap();
    }
    state
}

/// `(address, size)` of each segment.
fn runs(state: &State) -> Vec<(u64, u64)> {
    state.segments().iter().map(|s| (s.addr.0, s.size_bytes)).collect()
}

/// `(address, size, status)` of each block of the first segment.
fn blocks(state: &State) -> Vec<(u64, u64, BlockStatus)> {
    state.segments()[0].blocks.iter().map(|b| (b.addr.0, b.size_bytes, b.status)).collect()
}

#[test]
fn free_blocks_are_the_gaps_between_live_ones() {
    use BlockStatus::{Allocated, Inactive, PendingFree};
    let mut state = after(&[segment_alloc(PAGE, PAGE), alloc(PAGE, 500, 512)]);
    state.apply(&alloc(PAGE + 1024, 100, 512)).unwrap();
    state.apply(&free(PAGE + 1024, 100, 512, true)).unwrap();
    let rest = PAGE - 1536;
    assert_eq!(
        blocks(&state),
        [
            (PAGE, 512, Allocated),
            (PAGE + 512, 512, Inactive),
            (PAGE + 1024, 512, PendingFree),
            (PAGE + 1536, rest, Inactive)
        ]
    );
    assert_eq!((state.reserved_bytes(), state.allocated_bytes()), (PAGE, 512));
    assert_eq!(state.active_bytes(), 1024);
    state.apply(&completed(PAGE + 1024, 100, 512)).unwrap();
    assert_eq!(blocks(&state), [(PAGE, 512, Allocated), (PAGE + 512, PAGE - 512, Inactive)]);
}

#[test]
fn mapped_runs_merge_and_come_apart() {
    let mut state = after(&[map(PAGE, PAGE), map(3 * PAGE, PAGE), map(2 * PAGE, PAGE)]);
    assert_eq!(runs(&state), [(PAGE, 3 * PAGE)]);
    state.apply(&alloc(PAGE + 512, 2 * PAGE, 2 * PAGE)).unwrap();
    let in_use = state.apply(&unmap(3 * PAGE, PAGE)).unwrap_err();
    assert!(matches!(in_use.problem, Problem::Live { .. }), "{in_use}");
    state.apply(&free(PAGE + 512, 2 * PAGE, 2 * PAGE, false)).unwrap();
    state.apply(&unmap(2 * PAGE, PAGE)).unwrap();
    assert_eq!(runs(&state), [(PAGE, PAGE), (3 * PAGE, PAGE)]);
    state.undo(&unmap(2 * PAGE, PAGE)).unwrap();
    assert_eq!(runs(&state), [(PAGE, 3 * PAGE)]);
    state.undo(&map(2 * PAGE, PAGE)).unwrap();
    assert_eq!(runs(&state), [(PAGE, PAGE), (3 * PAGE, PAGE)]);
}

#[test]
fn whole_segments_and_runs_of_another_stream_stay_apart() {
    let mut other = map(2 * PAGE, PAGE);
    if let Event::SegmentMap { stream, .. } = &mut other.event {
        *stream = Stream(4);
    }
    let state = after(&[map(PAGE, PAGE), other, segment_alloc(3 * PAGE, PAGE)]);
    assert_eq!(runs(&state), [(PAGE, PAGE), (2 * PAGE, PAGE), (3 * PAGE, PAGE)]);
}

#[test]
fn events_that_cannot_have_happened_are_refused_and_change_nothing() {
    let before = after(&[segment_alloc(PAGE, PAGE), alloc(PAGE + 512, 400, 512)]);
    let mut other_stream = alloc(PAGE, 1, 512);
    if let Event::Alloc { stream, .. } = &mut other_stream.event {
        *stream = Stream(0);
    }
    let cases: [(Record, &str); 14] = [
        (alloc(PAGE + 512, 1, 512), "overlap the live block"),
        (alloc(PAGE, 1, 1024), "overlap the live block"),
        (alloc(PAGE + 768, 1, 64), "overlap the live block"),
        (alloc(2 * PAGE - 512, 1, 1024), "no segment holds"),
        (alloc(8 * PAGE, 1, 512), "no segment holds"),
        (alloc(PAGE, 1, 0), "no range of memory"),
        (alloc(u64::MAX, 1, 512), "no range of memory"),
        (other_stream, "its segment serves stream 3"),
        (free(PAGE, 1, 512, false), "no live block"),
        (free(PAGE + 512, 401, 512, false), "not 512 for 401"),
        (completed(PAGE + 512, 400, 512), "is not pending"),
        (segment_alloc(2 * PAGE - 512, PAGE), "overlap the segment"),
        (segment_free(PAGE, PAGE), "overlap the live block"),
        (unmap(PAGE + PAGE / 2, PAGE / 2), "differs from the event"),
    ];
    for (record, says) in cases {
        let mut state = before.clone();
        let error = state.apply(&record).unwrap_err().to_string();
        assert!(error.contains(says), "{:?}: {error}", record.event);
        assert_eq!(state, before, "{:?}", record.event);
    }
    let mut state = before.clone();
    let error = state.undo(&alloc(PAGE, 1, 512)).unwrap_err();
    assert_eq!((error.event, error.undoing), ("alloc", true));
    let error = state.undo(&free(PAGE + 512, 400, 512, false)).unwrap_err().to_string();
    assert!(error.contains("cannot undo free"), "{error}");
    assert_eq!(state, before);
}

#[test]
fn an_address_is_looked_up_in_its_segment() {
    let state = after(&[segment_alloc(PAGE, PAGE), alloc(PAGE + 512, 400, 512)]);
    let block = state.block_at(Addr(PAGE + 512)).unwrap();
    assert_eq!((block.size_bytes, block.status), (512, BlockStatus::Allocated));
    assert_eq!(state.block_at(Addr(PAGE + 513)), None);
    assert_eq!(state.segment_at(Addr(2 * PAGE - 1)).unwrap().addr, Addr(PAGE));
    assert_eq!(state.segment_at(Addr(2 * PAGE)), None);
    let free = |at: u64| state.free_bytes_at(Addr(at));
    assert_eq!(free(PAGE), 512);
    assert_eq!((free(PAGE + 512), free(PAGE + 1023)), (0, 0));
    assert_eq!(free(PAGE + 1024), PAGE - 1024);
    assert_eq!(free(2 * PAGE), 0);
}

#[test]
fn segments_with_holes_or_overlaps_are_no_state() {
    let good = after(&[segment_alloc(PAGE, PAGE), alloc(PAGE, 1, 512)]).segments();
    let mut short = good.clone();
    short[0].blocks.pop();
    let mut hole = good.clone();
    hole[0].blocks.remove(0);
    let twice = [good[0].clone(), good[0].clone()];
    for bad in [&short[..], &hole[..], &twice[..]] {
        assert!(State::from_segments(bad).is_err(), "{bad:?}");
    }
    assert_eq!(State::from_segments(&good).unwrap().segments(), good);
}

/// One choice of the random allocator below.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Map or allocate the segment slot.
    Grow(u64),
    /// Unmap or free the segment slot.
    Shrink(u64),
    /// Allocate `1..` units of 512 bytes at a unit of a slot.
    Alloc(u64, u64, u64),
    /// Free the n-th live block, now or later.
    Free(usize, bool),
    /// Complete the n-th pending block.
    Complete(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => (0..12u64).prop_map(Op::Grow),
        1 => (0..12u64).prop_map(Op::Shrink),
        8 => (0..12u64, 0..8u64, 1..12u64).prop_map(|(slot, unit, n)| Op::Alloc(slot, unit, n)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(n, later)| Op::Free(n, later)),
        2 => any::<usize>().prop_map(Op::Complete),
    ];
    prop::collection::vec(op, 0..200)
}

/// The events of the operations in this state, if any. Slots of 4 KiB: four segments, then eight expandable pages.
fn events_of(op: Op, state: &State) -> Option<Record> {
    const SLOT: u64 = 4096;
    let live = |wanted: BlockStatus| -> Vec<_> {
        let segments = state.segments();
        let blocks = segments.into_iter().flat_map(|segment: SegmentState| segment.blocks);
        blocks.filter(|block| block.status == wanted).collect()
    };
    let at = |slot: u64| (slot + 1) * SLOT;
    match op {
        Op::Grow(slot) if slot < 4 => Some(segment_alloc(at(slot), SLOT)),
        Op::Grow(slot) => Some(map(at(slot), SLOT)),
        Op::Shrink(slot) if slot < 4 => Some(segment_free(at(slot), SLOT)),
        Op::Shrink(slot) => Some(unmap(at(slot), SLOT)),
        Op::Alloc(slot, unit, n) => Some(alloc(at(slot) + unit * 512, n * 512 - 7, n * 512)),
        Op::Free(n, later) => {
            let live = live(BlockStatus::Allocated);
            let block = live.get(n % live.len().max(1))?;
            Some(free(block.addr.0, block.requested_bytes, block.size_bytes, later))
        }
        Op::Complete(n) => {
            let pending = live(BlockStatus::PendingFree);
            let block = pending.get(n % pending.len().max(1))?;
            Some(completed(block.addr.0, block.requested_bytes, block.size_bytes))
        }
    }
}

proptest! {
    /// Every event that applies can be undone, through the same states, down to nothing; a state survives the way
    /// through its list of segments.
    #[test]
    fn undoing_walks_back_through_the_same_states(ops in ops()) {
        let mut state = State::new();
        let mut history = Vec::new();
        for op in ops {
            let Some(record) = events_of(op, &state) else { continue };
            let before = state.clone();
            if state.apply(&record).is_ok() {
                history.push((before, record));
            } else {
                prop_assert_eq!(&state, &before);
            }
        }
        for (before, record) in history.into_iter().rev() {
            state = State::from_segments(&state.segments()).unwrap();
            state.undo(&record).unwrap();
            prop_assert_eq!(&state, &before);
        }
        prop_assert!(state.is_empty());
        prop_assert_eq!(state.reserved_bytes() + state.active_bytes(), 0);
    }
}
