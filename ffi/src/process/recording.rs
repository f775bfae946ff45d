//! The recorder of each heap: its ring, and what is known of the ring besides.

use std::env;
use std::sync::Arc;

use events::{Off, Recorder};
use recorder::{
    AnyRecorder, PER_HOLD, RING_DIR_VARIABLE, Ring, RingOptions, RingRecorder, SystemClock,
    TapeSource, base_in_slices, ring_dir,
};
use settings::{RecordMode, Settings, Strategy};
use trace_format::{BaseState, DeviceId, DeviceMeta, Event, MarkKind, Meta, StackId, StringId};

use super::observe::Observed;
use super::{Heap, stacks};
use crate::error::Error;

/// The source of a ring's records: a heap of this library, or PyTorch's own allocator.
#[derive(Clone, Copy)]
pub(super) enum Subject {
    Heap(&'static Heap),
    Observed(&'static Observed),
}

/// A ring, and what records into it.
#[derive(Clone)]
pub(super) struct Recording {
    pub subject: Subject,
    pub ring: Arc<Ring>,
    pub device: DeviceMeta,
}

impl Recording {
    /// The state of memory, and the number of the first record that is not part of it. Takes a while, so that it is not
    /// called with the process's lock.
    pub(super) fn base(&self) -> Option<(BaseState, u64)> {
        base(self.subject, &self.ring)
    }

    /// How many slots of the ring are written: a place between two records.
    pub(super) fn position(&self) -> Result<u64, Error> {
        match self.subject {
            Subject::Heap(heap) => {
                let _between = heap.lock()?;
                Ok(self.ring.sequence())
            }
            Subject::Observed(observed) => {
                let _between = observed.lock();
                Ok(self.ring.sequence())
            }
        }
    }

    /// Writes into the ring what a tape of it says about the process.
    pub(super) fn describe(&self, meta: Meta) {
        self.ring.describe(&Meta { devices: vec![self.device.clone()], ..meta });
    }

    /// Puts a mark among the records.
    pub(super) fn mark(&self, kind: MarkKind, name: StringId, stack: StackId) -> Result<(), Error> {
        match self.subject {
            Subject::Heap(heap) => {
                heap.lock()?.recorder_mut().record(stack, Event::Mark { kind, name });
            }
            Subject::Observed(observed) => observed.lock().mark(kind, name, stack),
        }
        Ok(())
    }

    /// This recording as a source of a tape.
    pub(super) fn source(&self) -> TapeSource {
        let (subject, ring) = (self.subject, Arc::clone(&self.ring));
        TapeSource {
            ring: Arc::clone(&self.ring),
            base: Box::new(move || base(subject, &ring)),
            device: self.device.clone(),
        }
    }
}

fn base(subject: Subject, ring: &Ring) -> Option<(BaseState, u64)> {
    base_in_slices(PER_HOLD, ring, &mut |work| {
        match subject {
            Subject::Heap(heap) => work(&heap.lock().ok()?),
            Subject::Observed(observed) => work(&*observed.lock()),
        }
        Some(())
    })
}

/// The recorder that the settings ask for.
pub(super) fn make(settings: &Settings, device: DeviceId) -> Result<AnyRecorder, Error> {
    if settings.record == RecordMode::Off {
        return Ok(AnyRecorder::Off(Off));
    }
    let dir = ring_dir(env::var_os(RING_DIR_VARIABLE));
    let has_pages = settings.strategy == Strategy::Stitch;
    let options = RingOptions { dir, device, slots: settings.ring_events as usize, has_pages };
    let clock = SystemClock::new();
    let names = Arc::clone(stacks::names());
    let ring = RingRecorder::sharing(&options, stacks::text_bytes(), names, clock);
    let ring = ring.map_err(|error| {
        Error::runtime(format_args!(
            "no memory for device {device}'s ring of {} events: {error}; set ring_events in \
             VRAMTAPE_CONF lower",
            settings.ring_events
        ))
    })?;
    Ok(AnyRecorder::Ring(ring))
}
