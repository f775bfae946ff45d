use trace_format::Addr;

use super::*;
use crate::import::sample::{MIB, entry, in_pool};

use TraceAction::{
    Alloc, FreeCompleted, FreeRequested, Oom, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap,
};

/// 100 MiB reserved, 20 MiB back, and what follows; the frees' sizes do not matter.
fn trace(after: &[TraceEntry]) -> Vec<TraceEntry> {
    let before = [
        entry(SegmentAlloc, 80 * MIB),
        entry(Alloc, 80 * MIB),
        entry(SegmentAlloc, 20 * MIB),
        entry(Alloc, 20 * MIB),
        entry(FreeRequested, 20 * MIB),
        entry(FreeCompleted, 20 * MIB),
        entry(SegmentFree, 20 * MIB),
    ];
    [&before[..], after].concat()
}

fn grows(size: u64) -> Vec<TraceEntry> {
    trace(&[entry(SegmentAlloc, size), entry(Alloc, size)])
}

fn known(capacity_mib: u64, memory_fraction: f64) -> RunLimits {
    RunLimits {
        capacity_bytes: Some(capacity_mib * MIB),
        memory_fraction: Some(memory_fraction),
        compat: None,
        trust_factor: 1,
    }
}

fn causes(entries: &[TraceEntry], config: &Config, known: &RunLimits) -> Vec<Cause> {
    find(entries, 0, config, known).into_iter().map(|flush| flush.cause).collect()
}

const EMPTIED: Cause = Cause::Emptied { pool: PoolId::DEFAULT };

#[test]
fn growth_past_the_capacity_was_refused_first() {
    let config = Config::default();
    let refused = Cause::Refused { size_bytes: 30 * MIB };
    assert_eq!(causes(&grows(30 * MIB), &config, &known(129, 1.0)), [refused]);
    assert_eq!(causes(&grows(30 * MIB), &config, &known(130, 1.0)), [EMPTIED]);
    assert_eq!(causes(&grows(30 * MIB), &config, &known(200, 0.6)), [refused]);
}

#[test]
fn without_a_capacity_growth_past_the_peak_counts_as_refused() {
    let unknown = RunLimits::default();
    let config = Config::default();
    assert_eq!(
        causes(&grows(20 * MIB), &config, &unknown),
        [Cause::Refused { size_bytes: 20 * MIB }]
    );
    let mut later = grows(20 * MIB);
    later.extend([entry(SegmentAlloc, 100 * MIB), entry(Alloc, 100 * MIB)]);
    assert_eq!(causes(&later, &config, &unknown), [EMPTIED]);
}

#[test]
fn an_out_of_memory_gives_the_capacity() {
    // 80 MiB reserved and 30 MiB left: 110 MiB in all.
    let oom = TraceEntry { addr: Addr(30 * MIB), ..entry(Oom, 50 * MIB) };
    let refused = Cause::Refused { size_bytes: 50 * MIB };
    let emptied_before = trace(&[entry(SegmentAlloc, 2 * MIB), entry(Alloc, 512)]);
    let all = [emptied_before, vec![TraceEntry { addr: Addr(28 * MIB), ..oom }]].concat();
    assert_eq!(causes(&all, &Config::default(), &RunLimits::default()), [EMPTIED, refused]);
    assert_eq!(causes(&trace(&[oom]), &Config::default(), &RunLimits::default()), [refused]);
}

#[test]
fn a_flush_without_growth_after_it_was_requested() {
    let config = Config::default();
    assert_eq!(causes(&trace(&[]), &config, &known(100, 1.0)), [EMPTIED]);
    assert_eq!(causes(&trace(&[entry(Alloc, 512)]), &config, &known(100, 1.0)), [EMPTIED]);
}

#[test]
fn garbage_is_collected_above_its_threshold_only_and_from_large_segments_only() {
    let config = Config { garbage_collection_threshold: 0.5, ..Config::default() };
    let collected = causes(&grows(20 * MIB), &config, &known(300, 0.6));
    assert_eq!(collected, [Cause::Collected]);
    assert_eq!(causes(&grows(20 * MIB), &config, &known(300, 0.9)), [EMPTIED]);
    let mut small = grows(20 * MIB);
    small[6].size_bytes = 2 * MIB;
    assert_eq!(causes(&small, &config, &known(300, 0.6)), [EMPTIED]);
    let flush = &find(&grows(20 * MIB), 0, &config, &known(300, 0.6))[0];
    assert_eq!(flush.window, 6..7, "a collection waits for no pending free");
    assert!(!flush.waited());
}

#[test]
fn a_window_holds_the_frees_that_were_waited_for() {
    let flush = &find(&grows(30 * MIB), 0, &Config::default(), &known(129, 1.0))[0];
    assert_eq!(flush.window, 5..7);
    assert!(flush.waited() && flush.belongs_to_malloc());
}

#[test]
fn all_pieces_of_an_expandable_growth_count() {
    let pieces = [entry(SegmentMap, 20 * MIB), entry(SegmentMap, 20 * MIB), entry(Alloc, 40 * MIB)];
    let mut entries = trace(&pieces);
    entries[6].action = SegmentUnmap;
    let refused = Cause::Refused { size_bytes: 40 * MIB };
    assert_eq!(causes(&entries, &Config::default(), &known(130, 1.0)), [refused]);
}

#[test]
fn a_flush_of_one_private_pool_is_that_pools() {
    let pool = PoolId(0, 1);
    let mut entries = trace(&[]);
    entries[6] = in_pool(pool, entries[6]);
    let config = Config::default();
    assert_eq!(causes(&entries, &config, &known(200, 1.0)), [Cause::Emptied { pool }]);
    entries.push(entry(SegmentFree, 20 * MIB));
    assert_eq!(causes(&entries, &config, &known(200, 1.0)), [EMPTIED]);
}
