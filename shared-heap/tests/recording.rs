//! A real heap on the simulated device, its ring, and its tape: the tape describes the heap's work exactly.

mod workload;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use allocator::heap::{PoolChoice, Request};
use events::Recorder;
use recorder::{
    AnyRecorder, AttachedTape, PER_HOLD, Ring, RingPart, RingReader, SystemClock, TapeRecorder,
    TapeSource, TapeSummary, base_in_slices, recover_rings, save_rings,
};
use settings::{Config, StitchConfig, Strategy};
use trace_format::{
    BaseOrder, BaseState, DeviceMeta, Event, Item, Meta, PoolId, Reader, Record, ScopeFilter,
    StackId, State, Stream,
};
use workload::{POOL, Shared, Workload, heap_with};

const STRATEGIES: [Strategy; 3] = [Strategy::Native, Strategy::Expandable, Strategy::Stitch];

/// Each strategy with each size of the ring.
fn with_slots(sizes: [usize; 2]) -> impl Iterator<Item = (Strategy, usize)> {
    STRATEGIES.into_iter().flat_map(move |strategy| sizes.map(|slots| (strategy, slots)))
}

fn heap(dir: &Path, slots: usize, strategy: Strategy) -> (Shared, Arc<Ring>) {
    let expandable_segments = strategy == Strategy::Expandable;
    let stitch = (strategy == Strategy::Stitch).then(StitchConfig::default);
    let heap = heap_with(dir, slots, Config { expandable_segments, stitch, ..Config::default() });
    let ring = Arc::clone(heap.lock().unwrap().recorder().ring().unwrap());
    (heap, ring)
}

fn base_of(heap: &Shared, ring: &Ring) -> (BaseState, u64) {
    let heap = heap.lock().unwrap();
    (heap.base_state(), ring.sequence())
}

fn source(heap: &Shared, ring: &Arc<Ring>) -> TapeSource {
    let base = {
        let (heap, ring) = (Arc::clone(heap), Arc::clone(ring));
        Box::new(move || {
            base_in_slices(PER_HOLD, &ring, &mut |work| {
                work(&heap.lock().ok()?);
                Some(())
            })
        })
    };
    TapeSource { ring: Arc::clone(ring), base, device: DeviceMeta::default() }
}

/// The state at the end of a tape whose every record and base state fits what came before.
fn follow(path: &Path) -> (State, Vec<BaseState>) {
    let (mut state, mut bases, mut is_known) = (State::new(), Vec::new(), true);
    for item in Reader::open(path).unwrap() {
        match item.unwrap() {
            Item::Meta(_) => {}
            Item::Base(_, base) => {
                let said = State::from_base(&base).unwrap();
                assert!(!is_known || state.is_empty() || state == said, "base state differs");
                (state, is_known) = (said, true);
                bases.push(*base);
            }
            Item::Event(_, record) => match record.event {
                Event::Lost { .. } => is_known = false,
                _ => state.apply(&record).unwrap(),
            },
        }
    }
    (state, bases)
}

fn state_of(heap: &Shared) -> State {
    State::from_base(&heap.lock().unwrap().base_state()).unwrap()
}

fn prepared(dir: &Path, slots: usize, strategy: Strategy) -> (Shared, Arc<Ring>, Workload) {
    let (heap, ring) = heap(dir, slots, strategy);
    heap.lock().unwrap().create_pool(POOL, None).unwrap();
    (heap, ring, Workload::new(0x5eed + strategy as u64))
}

#[test]
fn a_tape_of_a_heap_leads_to_the_heaps_own_state() {
    for strategy in STRATEGIES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.vtape");
        let (heap, ring, mut work) = prepared(dir.path(), 1 << 14, strategy);
        work.run(&heap, 2_000);
        let tape = TapeRecorder::start(&path, Meta::default(), SystemClock::new()).unwrap();
        tape.add(source(&heap, &ring));
        for _ in 0..30 {
            work.run(&heap, 100);
            std::thread::sleep(Duration::from_millis(1));
        }
        let summary = tape.stop().unwrap();
        assert!(summary.records > 0 && summary.lost == 0, "{summary:?}");
        let (state, bases) = follow(&path);
        assert_eq!(state, state_of(&heap));
        assert_eq!(bases.len(), 1, "begun in the middle");
        assert_eq!(bases[0].pools[0].pool, POOL);
    }
}

#[test]
fn a_ring_is_saved_from_the_heaps_state() {
    for (strategy, slots) in with_slots([1 << 14, 256]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("saved.vtape");
        let (heap, ring, mut work) = prepared(dir.path(), slots, strategy);
        work.run(&heap, 3_000);
        let summary = save(&path, &heap, &ring, 0);
        // On a slow machine moments take slots too.
        let readable = ring.sequence().min(slots as u64 - 1);
        assert!((readable - 20..=readable).contains(&summary.records), "{summary:?}");
        let (state, bases) = follow(&path);
        assert_eq!(state, state_of(&heap));
        let has_lost_its_head = ring.sequence() > slots as u64;
        assert_eq!(bases[0].segments.is_empty(), !has_lost_its_head);
        assert_eq!(bases[0].pools.is_empty(), !has_lost_its_head, "created on the tape");
    }
}

/// Saves what the ring has from record number `first` on.
fn save(path: &Path, heap: &Shared, ring: &Arc<Ring>, first: u64) -> TapeSummary {
    let (ring, device, end) = (Arc::clone(ring), DeviceMeta::default(), base_of(heap, ring));
    save_rings(path, Meta::default(), vec![RingPart { ring, device, first, end }]).unwrap()
}

/// The state before it, the records since, and the state after: nothing else.
#[test]
fn a_part_of_a_ring_is_saved_from_the_state_before_it() {
    for strategy in STRATEGIES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("part.vtape");
        let (heap, ring, mut work) = prepared(dir.path(), 1 << 14, strategy);
        work.run(&heap, 1_000);
        let (before, first) = (state_of(&heap), ring.sequence());
        work.run(&heap, 1_000);
        let summary = save(&path, &heap, &ring, first);
        assert_eq!(summary.lost, 0);
        assert!(summary.records <= ring.sequence() - first, "{summary:?}");
        let (after, bases) = follow(&path);
        assert_eq!(State::from_base(&bases[0]).unwrap(), before);
        assert_eq!(after, state_of(&heap));
    }
}

/// What was overwritten of it is counted, and nothing of what came before it is.
#[test]
fn a_part_of_a_ring_that_was_overwritten_meanwhile_says_how_much_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part.vtape");
    let (heap, ring, mut work) = prepared(dir.path(), 256, Strategy::Native);
    work.run(&heap, 500);
    let first = ring.sequence();
    work.run(&heap, 1_000);
    let summary = save(&path, &heap, &ring, first);
    let wanted = ring.sequence() - first;
    assert!(wanted > 256 && summary.records < 256, "{summary:?}");
    // Moments take slots too, and are no records.
    assert!((wanted - 20..=wanted).contains(&(summary.lost + summary.records)), "{summary:?}");
    assert_eq!(follow(&path).0, state_of(&heap));
}

#[test]
fn a_rings_file_alone_is_a_tape_that_starts_with_the_state_before_it() {
    for (strategy, slots) in with_slots([1 << 14, 256]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recovered.vtape");
        let (heap, ring, mut work) = prepared(dir.path(), slots, strategy);
        work.run(&heap, 3_000);
        let text = "max_split_size_mb:64".to_owned();
        let config = heap.lock().unwrap().config().clone();
        heap.lock().unwrap().set_config(Config { text, ..config });
        let recovered = recover_rings(&[ring.path().unwrap()], &path).unwrap().remove(0);
        assert!(recovered.has_base);
        let (state, bases) = follow(&path);
        assert_eq!(state, state_of(&heap));
        assert_eq!(bases.len(), 1);
        let is_whole = ring.sequence() < slots as u64;
        assert_eq!((recovered.lost == 0, bases[0].pools.is_empty()), (is_whole, is_whole));
        let mut reader = Reader::open(&path).unwrap();
        let last = reader.by_ref().last().unwrap().unwrap();
        let Item::Event(_, Record { event: Event::Settings { text }, .. }) = last else {
            panic!("{last:?}")
        };
        assert_eq!(reader.tables().string(text), Some("max_split_size_mb:64"));
    }
}

fn expect_base_of(heap: &Shared, ring: &Ring, reader: &mut RingReader) {
    let (mut said, next) = reader.base_state().unwrap();
    let (mut known, sequence) = base_of(heap, ring);
    assert_eq!(next, sequence);
    let memory = |base: &BaseState| State::from_base(base).unwrap();
    assert_eq!(memory(&said), memory(&known));
    // Free blocks remember what they were last in the heap only, and pools, segments and waits have no order.
    for base in [&mut said, &mut known] {
        (base.segments, base.time_ns) = (Vec::new(), 0);
        base.pools.sort_by_key(|state| state.pool);
        base.order = BaseOrder::default();
    }
    assert_eq!(said, known);
}

#[test]
fn the_rings_tables_are_the_heaps_state_at_every_moment() {
    for strategy in STRATEGIES {
        let dir = tempfile::tempdir().unwrap();
        let (heap, ring, mut work) = prepared(dir.path(), 256, strategy);
        let mut reader = RingReader::open(&ring.path().unwrap()).unwrap();
        for _ in 0..300 {
            work.run(&heap, 20);
            expect_base_of(&heap, &ring, &mut reader);
        }
        let of_all = Arc::new(|_| true);
        let mut pools = 0;
        for n in 1..20 {
            {
                let pool = PoolId(n, 0);
                let mut heap = heap.lock().unwrap();
                heap.begin_pool(pool, ScopeFilter::Thread, of_all.clone()).unwrap();
                heap.capture_begin(pool).unwrap();
                heap.set_use_on_oom(pool, n % 2 == 0);
                heap.set_memory_fraction(if n % 3 == 0 { 1.0 } else { 0.5 }).unwrap();
            }
            expect_base_of(&heap, &ring, &mut reader);
            let mut heap_now = heap.lock().unwrap();
            let pool = PoolId(n, 0);
            heap_now.capture_end(pool).unwrap();
            heap_now.end_pool(pool).unwrap();
            heap_now.release_pool(pool).unwrap();
            pools = pools.max(heap_now.base_state().pools.len());
            heap_now.empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap();
            drop(heap_now);
            expect_base_of(&heap, &ring, &mut reader);
        }
        assert!(pools > 1);
    }
}

#[test]
fn a_base_state_taken_in_full_flight_fits_the_records_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (heap, ring, mut work) = prepared(dir.path(), 1 << 16, Strategy::Native);
    let path = ring.path().unwrap();
    let done = AtomicBool::new(false);
    let followed = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut followed = 0;
            while !done.load(Ordering::Acquire) {
                let mut reader = RingReader::open(&path).unwrap();
                let (base, next) = reader.base_state().unwrap();
                let mut state = State::from_base(&base).unwrap();
                reader.seek(next);
                let mut records = Vec::new();
                let lost = reader.poll(|record| records.push(record));
                for record in records.iter().filter(|_| lost == 0) {
                    state.apply(record).unwrap();
                    followed += 1;
                }
            }
            followed
        });
        work.run(&heap, 60_000);
        done.store(true, Ordering::Release);
        follower.join().unwrap()
    });
    println!("{followed} records followed");
}

#[test]
fn an_open_scope_and_changed_settings_are_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.vtape");
    let (heap, ring) = heap(dir.path(), 1 << 10, Strategy::Native);
    {
        let mut heap = heap.lock().unwrap();
        heap.begin_pool(POOL, ScopeFilter::Thread, Arc::new(|_| true)).unwrap();
        heap.set_no_split(POOL);
        heap.set_use_on_oom(POOL, true);
        heap.set_memory_fraction(0.5).unwrap();
        let text = "max_split_size_mb:64".to_owned();
        heap.set_config(Config { text, ..Config::default() });
    }
    let (end, sequence) = base_of(&heap, &ring);
    assert_eq!((end.pools.len(), end.scopes.len()), (1, 1));
    assert_eq!((end.settings.as_str(), end.memory_fraction), ("max_split_size_mb:64", Some(0.5)));
    let meta = Meta { alloc_conf: "initial".to_owned(), ..Meta::default() };
    let device = DeviceMeta::default();
    let part = RingPart { ring, device, first: 0, end: (end, sequence) };
    save_rings(&path, meta, vec![part]).unwrap();
    let (_, bases) = follow(&path);
    assert_eq!((bases[0].pools.len(), bases[0].scopes.len()), (0, 0));
    assert_eq!((bases[0].settings.as_str(), bases[0].memory_fraction), ("initial", None));
}

#[test]
fn a_recorder_that_is_off_takes_nothing() {
    let mut off = AnyRecorder::Off(events::Off);
    off.record(StackId::NONE, Event::ResetPeak);
    assert_eq!(off.intern("text"), trace_format::StringId(0));
}

/// A program with more private pools than the ring's table has room for.
#[test]
fn a_ring_with_more_pools_than_it_has_room_for_says_so_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let (heap, ring, mut work) = prepared(dir.path(), 256, Strategy::Native);
    work.run(&heap, 500);
    for pool in 2..2_000 {
        heap.lock().unwrap().create_pool(PoolId(0, pool), None).unwrap();
    }
    work.run(&heap, 500);
    let path = ring.path().unwrap();
    let info = RingReader::open(&path).unwrap().info();
    assert!(!info.is_complete() && info.missing_pools > 500, "{info:?}");
    let says_so = |meta: &Meta| meta.inferred.iter().any(|what| what.contains("private pools"));

    let tape = dir.path().join("recovered.vtape");
    let recovered = recover_rings(std::slice::from_ref(&path), &tape).unwrap().remove(0);
    assert!(!recovered.has_base && recovered.missing.len() == 1, "{recovered:?}");
    assert!(says_so(Reader::open(&tape).unwrap().meta()));

    let tape = dir.path().join("attached.vtape");
    let mut attached = AttachedTape::begin(&tape, &[path]).unwrap();
    let counts = attached.counts().remove(0);
    assert!(counts.has_state && !counts.is_complete, "{counts:?}");
    // As they were when the state was read, not as they are at the end.
    for pool in 2..2_000 {
        heap.lock().unwrap().release_pool(PoolId(0, pool)).unwrap();
        if pool % 100 == 0 {
            heap.lock().unwrap().empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap();
            attached.drain().unwrap();
        }
    }
    let counts = attached.finish().unwrap().remove(0);
    assert!(!counts.is_complete, "{counts:?}");
    let mut reader = Reader::open(&tape).unwrap();
    reader.by_ref().for_each(|item| drop(item.unwrap()));
    assert!(says_so(reader.meta()));
}

/// A pool's cycle as a `MemPool` makes it, beside so many live pools that the ring's table is nearly full.
#[test]
fn pools_that_ended_take_no_room_of_the_ring_beside_many_that_live() {
    let dir = tempfile::tempdir().unwrap();
    let (heap, ring, mut work) = prepared(dir.path(), 256, Strategy::Native);
    work.run(&heap, 500);
    let mut reader = RingReader::open(&ring.path().unwrap()).unwrap();
    for pool in 2..1_300 {
        heap.lock().unwrap().create_pool(PoolId(0, pool), None).unwrap();
    }
    for pool in (5_000..6_000).map(|number| PoolId(0, number)) {
        let mut now = heap.lock().unwrap();
        now.create_pool(pool, None).unwrap();
        now.begin_pool(pool, ScopeFilter::Thread, Arc::new(|_| true)).unwrap();
        let choice = PoolChoice::ByScope;
        let (requested_bytes, stream, stack) = (4096, Stream(0), StackId::NONE);
        let request = Request { requested_bytes, stream, pool: choice, stack };
        let addr = now.malloc(&request).unwrap();
        now.end_pool(pool).unwrap();
        now.free(addr, stack).unwrap();
        now.release_pool(pool).unwrap();
        now.release_pool(pool).unwrap();
        now.empty_cache(pool, stack).unwrap();
        assert_eq!(reader.info().missing_pools, 0);
    }
    expect_base_of(&heap, &ring, &mut reader);
}
