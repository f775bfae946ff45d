//! The state rebuilt from the recorded events equals the heap's, and its pages are mapped where the device says.

use std::collections::{HashMap, HashSet};

use device::PhysicalHandle;
use events::PageAudit;
use trace_format::{
    BlockStatus, PageNumber, PoolId, Record, SegmentState, StackId, State, ThreadId,
};

use crate::support::TestHeap;

/// The state after the events so far.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    state: State,
    audit: PageAudit,
    /// Events that were applied.
    applied: usize,
}

impl Rebuilt {
    /// The state that a heap was restored from.
    pub(crate) fn starting_as(heap: &TestHeap) -> Self {
        let base = heap.base_state();
        let state = State::from_base(&base).expect("a state");
        let is_stitched = heap.config().stitch.is_some();
        let audit = is_stitched.then(|| PageAudit::new(&base).expect("whole pages"));
        Self { state, audit: audit.unwrap_or_default(), applied: 0 }
    }

    /// Applies the events since the last call, and compares.
    pub(crate) fn check(&mut self, heap: &mut TestHeap) -> Result<(), String> {
        let is_stitched = heap.config().stitch.is_some();
        for (stack, event) in &heap.recorder_mut().events[self.applied..] {
            let record = Record { time_ns: 0, thread: ThreadId(0), stack: *stack, event: *event };
            self.state.apply(&record).map_err(|error| format!("{error}: {event:?}"))?;
            if is_stitched {
                self.audit.follow(event).map_err(|violation| format!("{violation}: {event:?}"))?;
            }
        }
        self.audit.end_call().map_err(|violation| violation.to_string())?;
        self.applied = heap.recorder_mut().events.len();
        let (rebuilt, actual) =
            (known(self.state.segments()), known(heap.segments(PoolId::DEFAULT)));
        if rebuilt != actual {
            return Err(format!("segments of the tape: {rebuilt:#?}, of the heap: {actual:#?}"));
        }
        self.check_pages(heap)
    }

    fn check_pages(&self, heap: &mut TestHeap) -> Result<(), String> {
        let mut handles: HashMap<PageNumber, PhysicalHandle> = HashMap::new();
        for (addr, page) in self.state.pages().iter() {
            let mapped = heap.device_mut().mapped_at(addr);
            let mapped = mapped.ok_or_else(|| format!("{page:?} is not mapped at {addr}"))?;
            if *handles.entry(page).or_insert(mapped) != mapped {
                return Err(format!("{page:?} is not the page at {addr}"));
            }
        }
        let distinct: HashSet<_> = handles.values().collect();
        if distinct.len() != handles.len() {
            return Err("one page has two numbers".to_owned());
        }
        Ok(())
    }

    /// Compares the mappings with those of the device, where nothing else maps memory.
    pub(crate) fn check_mapping_count(&self, heap: &mut TestHeap) -> Result<(), String> {
        let (on_tape, mapped) =
            (self.state.pages().iter().count(), heap.device_mut().mapping_count());
        if on_tape == mapped {
            Ok(())
        } else {
            Err(format!("{on_tape} mappings on tape, {mapped} on the device"))
        }
    }
}

/// Without the fields of free blocks that a tape lacks.
fn known(mut segments: Vec<SegmentState>) -> Vec<SegmentState> {
    for block in segments.iter_mut().flat_map(|segment| &mut segment.blocks) {
        if block.status == BlockStatus::Inactive {
            (block.requested_bytes, block.stack) = (0, StackId::NONE);
        }
    }
    segments
}
