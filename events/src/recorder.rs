//! The recorder seam: where events go. It never blocks, never waits, and never fails an allocation.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Event, StackId, Statistics, StringId};

/// A block's place in its heap's arena, its own from [`Event::Alloc`] until its free is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSlot(pub u32);

/// Takes the heap's events, in the heap's order, under the heap's lock.
pub trait Recorder: Send {
    /// Records one event with the caller's stack.
    fn record(&mut self, stack: StackId, event: Event);
    /// Records what becomes of one block: [`Event::Alloc`], [`Event::Free`], [`Event::FreeCompleted`]. The slot is for
    /// recorders that keep a table of what is allocated, the statistics for those that copy them about once a second.
    #[inline]
    fn record_block(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: Event,
        statistics: &impl Statistics,
    ) {
        let _ = (slot, statistics);
        self.record(stack, event);
    }
    /// Copies the statistics now, if the recorder keeps a copy.
    fn copy_statistics(&mut self, statistics: &impl Statistics) {
        let _ = statistics;
    }
    /// Records an event without notifying trace watchers; PyTorch's trace has no equivalent.
    fn record_unobserved(&mut self, stack: StackId, event: Event) {
        self.record(stack, event);
    }
    /// The id of `text` on this tape. Slow path only.
    fn intern(&mut self, text: &str) -> StringId;
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Recorder for Off {
    fn record(&mut self, _stack: StackId, _event: Event) {}

    fn intern(&mut self, _text: &str) -> StringId {
        StringId::default()
    }
}

/// Keeps events in memory, for tests and replays.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What was recorded.
    pub events: Vec<(StackId, Event)>,
    /// Strings by id; id 0 is the empty string.
    pub strings: Vec<String>,
}

impl Recorder for Memory {
    fn record(&mut self, stack: StackId, event: Event) {
        self.events.push((stack, event));
    }

    fn intern(&mut self, text: &str) -> StringId {
        if text.is_empty() {
            return StringId(0);
        }
        if self.strings.is_empty() {
            self.strings.push(String::new());
        }
        let id = self.strings.iter().position(|known| known == text).unwrap_or_else(|| {
            self.strings.push(text.to_owned());
            self.strings.len() - 1
        });
        StringId(u32::try_from(id).expect("fewer than 2^32 strings"))
    }
}
