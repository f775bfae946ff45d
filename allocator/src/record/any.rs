//! The recorder that a configuration chose, once, when its heap was made.

use trace_format::{Event, StackId, StringId};

use super::{BlockSlot, Off, Recorder, RingRecorder};

/// Off or on; an enum, so that recording is no call through a pointer.
///
/// On is the ring. A tape is written by a thread that reads the ring, so that whether there is one, and since when,
/// makes no difference here.
#[derive(Debug)]
pub enum AnyRecorder {
    /// `record:off`.
    Off(Off),
    /// `record:ring`, and `record:file` with a tape beside it.
    Ring(RingRecorder),
}

impl Recorder for AnyRecorder {
    #[inline]
    fn record(&mut self, stack: StackId, event: Event) {
        match self {
            Self::Off(off) => off.record(stack, event),
            Self::Ring(ring) => ring.record(stack, event),
        }
    }

    #[allow(
        clippy::inline_always,
        reason = "where the kind of event is known, little is left of it"
    )]
    #[inline(always)]
    fn record_block(&mut self, slot: BlockSlot, stack: StackId, event: Event) {
        match self {
            Self::Off(off) => off.record_block(slot, stack, event),
            Self::Ring(ring) => ring.record_block(slot, stack, event),
        }
    }

    fn intern(&mut self, text: &str) -> StringId {
        match self {
            Self::Off(off) => off.intern(text),
            Self::Ring(ring) => ring.intern(text),
        }
    }
}
