//! The recorder of each heap: its ring, and what is known of the ring besides.

use std::sync::Arc;

use allocator::config::{RecordMode, Settings};
use allocator::record::{
    AnyRecorder, Off, RING_DIR, Ring, RingOptions, RingRecorder, SystemClock, TapeSource,
};
use trace_format::{BaseState, DeviceId, DeviceMeta};

use super::{Heap, stacks};
use crate::error::Error;

/// A heap that records into a ring.
pub(super) struct Recording {
    pub heap: &'static Heap,
    pub ring: Arc<Ring>,
    pub device: DeviceMeta,
}

impl Recording {
    /// The heap's state, and the number of the first record that is not part of it.
    pub(super) fn base(&self) -> Option<(BaseState, u64)> {
        base(self.heap, &self.ring)
    }

    /// What a tape needs to record the heap.
    pub(super) fn source(&self) -> TapeSource {
        let (heap, ring) = (self.heap, Arc::clone(&self.ring));
        TapeSource {
            ring: Arc::clone(&self.ring),
            base: Box::new(move || base(heap, &ring)),
            device: self.device.clone(),
        }
    }
}

fn base(heap: &Heap, ring: &Ring) -> Option<(BaseState, u64)> {
    // The lock keeps records from falling between the two.
    let heap = heap.lock().ok()?;
    Some((heap.base_state(), ring.sequence()))
}

/// The recorder that the settings ask for.
pub(super) fn make(settings: &Settings, device: DeviceId) -> Result<AnyRecorder, Error> {
    if settings.record == RecordMode::Off {
        return Ok(AnyRecorder::Off(Off));
    }
    let options =
        RingOptions { dir: RING_DIR.into(), device, slots: settings.ring_events as usize };
    let clock = SystemClock::new();
    let ring = match stacks::names() {
        None => RingRecorder::new(&options, clock),
        Some((names, text_bytes)) => RingRecorder::sharing(&options, text_bytes, names, clock),
    };
    let ring = ring.map_err(|error| {
        Error::runtime(format_args!(
            "no memory for device {device}'s ring of {} events: {error}; set ring_events in \
             VRAMTAPE_CONF lower",
            settings.ring_events
        ))
    })?;
    Ok(AnyRecorder::Ring(ring))
}

/// The recorder's ring, if it has one.
pub(super) fn ring(recorder: &AnyRecorder) -> Option<Arc<Ring>> {
    match recorder {
        AnyRecorder::Off(_) => None,
        AnyRecorder::Ring(recorder) => Some(Arc::clone(recorder.ring())),
    }
}
