//! Totals of the storm's tape, and its replay.

use std::path::Path;

use events::Off;
use replay::driver::{Driver, Follow};
use replay::strategy::Native;
use settings::{Compat, Config};
use sim_device::{SimConfig, SimDevice};
use trace_format::{Addr, BaseState, Event, Item, Reader, State};

/// Totals of a tape.
#[derive(Debug, Default)]
pub(crate) struct TapeTotals {
    /// Records, without those that count lost ones.
    pub(crate) records: u64,
    /// Records that were lost.
    pub(crate) lost: u64,
    /// Allocations.
    pub(crate) allocations: u64,
    /// Frees.
    pub(crate) frees: u64,
    /// Requests that found no memory.
    pub(crate) ooms: u64,
    /// Base states.
    pub(crate) bases: u64,
    /// Bytes allocated at the end.
    pub(crate) allocated_bytes: u64,
    /// Bytes reserved at the end.
    pub(crate) reserved_bytes: u64,
}

/// Follows a whole tape. Fails where a record does not fit the ones before it, or a base state differs from what they
/// lead to.
pub(crate) fn follow(path: &Path) -> TapeTotals {
    let mut totals = TapeTotals::default();
    let (mut state, mut is_known) = (State::new(), false);
    let mut reader = Reader::open(path).expect("a tape");
    for item in reader.by_ref() {
        match item.expect("a whole tape") {
            Item::Meta(_) => {}
            Item::Base(_, base) => {
                let said = State::from_base(&base).expect("a whole state");
                assert!(!is_known || state == said, "base state {} differs", totals.bases);
                (state, is_known) = (said, true);
                totals.bases += 1;
            }
            Item::Event(_, record) => {
                if let Event::Lost { count } = record.event {
                    totals.lost += count;
                    is_known = false;
                    continue;
                }
                assert!(is_known, "a record follows a loss without a base state between them");
                state.apply(&record).expect("a record that fits");
                totals.records += 1;
                match record.event {
                    Event::Alloc { .. } => totals.allocations += 1,
                    Event::Free { .. } => totals.frees += 1,
                    Event::Oom { .. } => totals.ooms += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(reader.recovered().finished, "the tape was finished");
    (totals.allocated_bytes, totals.reserved_bytes) =
        (state.allocated_bytes(), state.reserved_bytes());
    totals
}

/// How a replay ended.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Records it followed.
    pub(crate) records: u64,
    /// Bytes that the allocator holds at the end.
    pub(crate) reserved_bytes: u64,
}

/// Drives the allocator with the tape, on a device that is never full and never fails. Where records were lost it
/// starts again from the base state behind them.
pub(crate) fn replay(path: &Path) -> Replayed {
    let mut replayed = Replayed::default();
    let mut driver = None;
    let mut reader = Reader::open(path).expect("a tape");
    while let Some(item) = reader.next() {
        match item.expect("a whole tape") {
            Item::Meta(_) => {}
            Item::Base(_, base) => {
                driver.get_or_insert_with(|| begin(&base));
            }
            Item::Event(_, record) if matches!(record.event, Event::Lost { .. }) => driver = None,
            Item::Event(_, record) => {
                let driver = driver.as_mut().expect("a base state at the start and behind a loss");
                let tables = reader.tables();
                driver
                    .step(&record, |id| tables.string(id).unwrap_or_default())
                    .expect("a tape that replays");
                replayed.records += 1;
            }
        }
    }
    let driver = driver.expect("a tape does not end in a loss");
    driver.heap().check().expect("the replayed heap is consistent");
    replayed.reserved_bytes = driver.heap().reserved_bytes();
    replayed
}

fn begin(base: &BaseState) -> Driver<Native<Off>> {
    let device = SimDevice::new(SimConfig {
        base: Addr(SimConfig::GRANULARITY_BYTES),
        length_bytes: 1 << 60,
        ..SimConfig::with_capacity(SimConfig::UNLIMITED_CAPACITY_BYTES)
    });
    let parsed = Config::parse(&base.settings, Compat::default()).expect("recorded settings");
    Driver::new(device, parsed.config, Off, base, Follow::default())
        .expect("a device that takes the base")
}
