//! The invariants of `stitch` on every recording, judged by the events of a replay alone.

mod common;

use events::PageAudit;
use replay::driver::Follow;
use replay::run::{Addresses, DeviceTape, Options, Outcome, run_recording};
use replay::strategy::Choice;
use replay::tape::Tape;
use replay::verify::page_violation;
use settings::Compat;
use trace_format::{BaseState, BlockStatus, Event, PageNumber, SegmentState, StackId, State};

use common::recordings::{Recording, recordings};

fn recorded(tape: &Tape, capacity_bytes: Option<u64>) -> Outcome {
    let text = |id| tape.text(id);
    let device = &tape.devices[0];
    let options = Options {
        strategy: Choice::parse("stitch", Compat::default()).expect("a strategy"),
        capacity_bytes,
        memory_fraction: Some(1.0),
        addresses: Addresses::Lowest,
        follow: Follow { is_as_recorded: false, ..Follow::default() },
    };
    let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
    run_recording(device, &options, &mut |_| {}).expect("a consistent recording")
}

/// Without the fields of free blocks that a tape lacks, and without the stacks of runs: one that was mapped in parts
/// has several in the heap, and that of its first part on the tape.
fn known(mut segments: Vec<SegmentState>) -> Vec<SegmentState> {
    for segment in &mut segments {
        segment.stack = StackId::NONE;
        for block in segment.blocks.iter_mut().filter(|one| one.status == BlockStatus::Inactive) {
            (block.requested_bytes, block.stack) = (0, StackId::NONE);
        }
    }
    segments
}

/// Follows a replay from an empty device, and returns the most bytes that it reserved.
fn audit(outcome: &Outcome) -> u64 {
    assert_eq!(page_violation(&BaseState::default(), &outcome.records), None);
    let (mut state, mut audit, mut peak_bytes) = (State::new(), PageAudit::default(), 0);
    for record in &outcome.records {
        state.apply(record).expect("a consistent replay");
        audit.follow(&record.event).expect("judged above");
        if matches!(record.event, Event::Alloc { .. } | Event::Oom { .. }) {
            peak_bytes = peak_bytes.max(state.reserved_bytes());
        }
    }
    assert!(known(state.segments()) == known(outcome.segments.clone()), "the state of the tape");
    audit.end_call().expect("judged above");
    assert_eq!(audit.homeless(), 0, "every page has its home");
    let is_plain = |one: &&SegmentState| !one.is_expandable || !one.pool.is_default();
    let plain = outcome.segments.iter().filter(is_plain).map(|one| one.size_bytes);
    let pages_bytes = audit.homes() as u64 * PageNumber::PAGE_BYTES;
    assert_eq!(state.reserved_bytes(), pages_bytes + plain.sum::<u64>(), "reserved is pages");
    peak_bytes
}

#[test]
fn the_invariants_hold_on_every_recording_with_much_memory_and_with_little() {
    for Recording { name, tape, .. } in recordings() {
        let unlimited = recorded(&tape, None);
        let live_bytes = unlimited.report.peak_live_bytes;
        assert_eq!(audit(&unlimited), unlimited.report.peak_reserved_bytes, "{name}");
        let capacity_bytes =
            (live_bytes + live_bytes / 50).next_multiple_of(PageNumber::PAGE_BYTES);
        let tight = recorded(&tape, Some(capacity_bytes));
        assert!(audit(&tight) <= capacity_bytes, "{name}");
        println!("{name}: {} and {} events", unlimited.records.len(), tight.records.len());
    }
}
