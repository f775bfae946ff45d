//! Real snapshots become records that lead from their base to exactly their final segments.

mod common;

use replay::import::import_file;
use trace_format::{BlockStatus, SegmentState, StackId, State};

/// Mapped ranges and live blocks; free blocks add nothing.
fn live(segments: &[SegmentState]) -> Vec<SegmentState> {
    let mut segments = segments.to_vec();
    segments.sort_by_key(|segment| segment.addr);
    for segment in &mut segments {
        segment.stack = StackId::NONE;
        segment.blocks.retain(|block| block.status != BlockStatus::Inactive);
        for block in &mut segment.blocks {
            block.stack = StackId::NONE;
        }
    }
    segments
}

#[test]
fn records_lead_from_the_base_to_the_final_segments() {
    for path in common::all_traces() {
        let name = path.display();
        let import = import_file(&path, &common::known(&path)).unwrap();
        println!("{name}: {:#?}", import.inferred);
        for device in &import.devices {
            let mut state = State::from_base(&device.base).unwrap();
            for (at, record) in device.records.iter().enumerate() {
                state.apply(record).unwrap_or_else(|e| panic!("{name}: record {at}: {e}"));
            }
            // A recording that stopped before its snapshot misses the last frees.
            if device.unrecorded_frees == 0 {
                assert_eq!(live(&state.segments()), live(&device.final_segments), "{name}");
            }
        }
    }
}

#[test]
fn a_trace_from_the_start_has_an_empty_base() {
    for path in common::own_traces() {
        let import = import_file(&path, &common::known(&path)).unwrap();
        for device in &import.devices {
            assert!(device.base.segments.is_empty(), "{}", path.display());
            assert_eq!(device.unrecorded_frees, 0, "{}", path.display());
        }
    }
}
