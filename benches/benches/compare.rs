//! A tape of 600,000 events under 20 strategies and settings, on all cores: how long `vramtape compare` takes.

use std::collections::BTreeMap;
use std::time::Instant;

use benches::{Trace, training_records};
use replay::compare::compare;
use replay::driver::Follow;
use replay::run::DeviceTape;
use replay::strategy::Choice;
use settings::Compat;
use trace_format::{Addr, BaseState, Event, Record};

/// Events of a tape; fewer where cargo only tests the benches.
const EVENTS: usize = 600_000;
const TESTED_EVENTS: usize = 6_000;
const TIMED_RUNS: usize = 3;

const STRATEGIES: [&str; 20] = [
    "native",
    "native:max_split_size_mb:64",
    "native:max_split_size_mb:128",
    "native:max_split_size_mb:256",
    "native:max_split_size_mb:512",
    "native:roundup_power2_divisions:4",
    "native:roundup_power2_divisions:8",
    "native:garbage_collection_threshold:0.8",
    "expandable",
    "expandable:roundup_power2_divisions:8",
    "async-pool",
    "async-pool:remap:False",
    "async-pool:release_threshold:1GiB,synchronises_every:10ms",
    "bfc",
    "bfc:streams:separate",
    "bfc:garbage_collection:False",
    "rmm-pool",
    "rmm-pool:initial_pool_size:1GiB",
    "rmm-arena",
    "rmm-arena:arena_size:64GiB",
];

fn main() {
    let (events, runs) =
        if benches::is_bench() { (EVENTS, TIMED_RUNS) } else { (TESTED_EVENTS, 1) };
    println!("{} cores", std::thread::available_parallelism().map_or(1, usize::from));
    measure("seeded steps", &training_records(7, events), runs);
    for trace in Trace::all() {
        let records = &trace.tape.devices[0].records;
        let has_private_pools = records.iter().any(|r| matches!(r.event, Event::PoolCreate { .. }));
        if !has_private_pools && trace.tape.devices[0].base.segments.is_empty() {
            measure(&trace.name, &repeated(records, events), runs);
        }
    }
}

fn measure(name: &str, records: &[Record], runs: usize) {
    let choices: Vec<_> = STRATEGIES
        .iter()
        .map(|text| Choice::parse(text, Compat::default()).expect("a strategy"))
        .collect();
    let base = BaseState::default();
    let tape = DeviceTape { base: &base, records, text: &|_| "" };
    let mut best_s = f64::INFINITY;
    let mut rows = Vec::new();
    for _ in 0..runs {
        let started = Instant::now();
        let capacity_bytes = Some(80 << 30);
        rows =
            compare(tape, &choices, capacity_bytes, Follow::default(), 0, &|_| {}).expect("a tape");
        best_s = best_s.min(started.elapsed().as_secs_f64());
    }
    println!("{name}: {} records, {} strategies, {best_s:.2} s", records.len(), choices.len());
    for (row, text) in rows.iter().zip(STRATEGIES) {
        let row = row.report().expect("a whole replay");
        assert!(row.peak_live_bytes <= row.peak_reserved_bytes, "{text}: {row:?}");
        let rate = row.events as f64 / row.elapsed_s / 1e6;
        println!("  {text:<58} {:.2} s, {rate:.1} M events/s", row.elapsed_s);
    }
}

/// A run again and again, each time with names of its own for its blocks, and with nothing left over.
fn repeated(records: &[Record], events: usize) -> Vec<Record> {
    let mut all = Vec::with_capacity(events);
    let mut round = 0;
    while all.len() < events {
        let name = |addr: Addr| Addr((addr.0 & 0xffff_ffff_ffff) | (round << 48));
        let mut live = BTreeMap::new();
        for record in records {
            let mut record = *record;
            match &mut record.event {
                Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                    *addr = name(*addr);
                    live.insert(*addr, (*requested_bytes, *size_bytes));
                }
                Event::Free { addr, .. } => {
                    *addr = name(*addr);
                    live.remove(addr);
                }
                Event::FreeCompleted { addr, .. } => *addr = name(*addr),
                _ => continue,
            }
            all.push(record);
        }
        let last = *records.last().expect("a recorded run");
        all.extend(live.into_iter().map(|(addr, (requested_bytes, size_bytes))| Record {
            event: Event::Free { addr, requested_bytes, size_bytes, pending: false },
            ..last
        }));
        round += 1;
    }
    all.truncate(events);
    all
}
