//! Totals of the storm's tape, and its replay.

use std::path::Path;

use events::Off;
use replay::driver::{Driver, Follow};
use replay::strategy::Native;
use settings::{Compat, Config, StitchConfig};
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
    /// Pages that were mapped.
    pub(crate) page_maps: u64,
    /// Base states.
    pub(crate) bases: u64,
    /// Bytes allocated at the end.
    pub(crate) allocated_bytes: u64,
    /// Bytes reserved at the end.
    pub(crate) reserved_bytes: u64,
}

/// Follows a whole tape. Fails where a record does not fit the ones before it, where a base state differs from the
/// state that they lead to, or where that state at the mark is not `marked`.
pub(crate) fn follow(path: &Path, marked: &State) -> TapeTotals {
    let (mut totals, mut has_mark) = (TapeTotals::default(), false);
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
                    Event::PageMap { .. } => totals.page_maps += 1,
                    Event::Mark { .. } => {
                        assert!(state == *marked, "the heap's state is another at the mark");
                        has_mark = true;
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(has_mark, "the mark is on the tape");
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
pub(crate) fn replay(path: &Path, stitch: Option<StitchConfig>) -> Replayed {
    let mut replayed = Replayed::default();
    let mut driver = None;
    let mut reader = Reader::open(path).expect("a tape");
    while let Some(item) = reader.next() {
        match item.expect("a whole tape") {
            Item::Meta(_) => {}
            Item::Base(_, base) => {
                driver.get_or_insert_with(|| begin(&base, stitch));
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

fn begin(base: &BaseState, stitch: Option<StitchConfig>) -> Driver<Native<Off>> {
    let device = SimDevice::new(SimConfig {
        base: Addr(SimConfig::GRANULARITY_BYTES),
        length_bytes: 1 << 60,
        ..SimConfig::with_capacity(SimConfig::UNLIMITED_CAPACITY_BYTES)
    });
    let parsed = Config::parse(&base.settings, Compat::default()).expect("recorded settings");
    let config = Config { stitch, ..parsed.config };
    Driver::new(device, config, Off, base, Follow::default()).expect("a device that takes the base")
}
