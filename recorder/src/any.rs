//! The recorder that a configuration chose, once, when its heap was made.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use trace_format::{Addr, Event, PoolId, SegmentState, StackId, Stream, StringId};

use super::watch::{WatchId, Watched, Watcher};
use super::{Ring, RingRecorder};
use events::{BlockSlot, Off, Recorder, Statistics};

/// Off or on; an enum, so that recording is no call through a pointer.
///
/// On is the ring. A tape is written by a thread that reads the ring, so that whether there is one, and since when,
/// makes no difference here.
#[derive(Debug)]
pub enum AnyRecorder {
    // The first, so that one comparison separates it from all others.
    /// `record:ring`, and `record:file` with a tape beside it.
    Ring(RingRecorder),
    /// `record:off`.
    Off(Off),
    /// Either, with watchers.
    Watched(Box<Watched>),
}

impl AnyRecorder {
    /// The ring, if events go to one.
    pub fn ring(&self) -> Option<&Arc<Ring>> {
        match self {
            Self::Off(_) => None,
            Self::Ring(ring) => Some(ring.ring()),
            Self::Watched(watched) => watched.recorder.ring(),
        }
    }

    /// As for the ring's recorder; nothing where there is none.
    pub(super) fn segments_from(
        &self,
        addr: u64,
        max: usize,
        into: &mut Vec<SegmentState>,
    ) -> Option<u64> {
        match self {
            Self::Off(_) => None,
            Self::Ring(ring) => ring.segments_from(addr, max, into),
            Self::Watched(watched) => watched.recorder.segments_from(addr, max, into),
        }
    }

    /// Notifies `watcher` of every event from here on. `live` are the blocks that are not free, with stream and pool.
    pub fn watch(
        &mut self,
        id: WatchId,
        watcher: Box<dyn Watcher>,
        live: impl Iterator<Item = (Addr, (Stream, PoolId))>,
    ) {
        if !matches!(self, Self::Watched(_)) {
            let live: HashMap<_, _> = live.collect();
            let recorder = mem::replace(self, Self::Off(Off));
            *self = Self::Watched(Box::new(Watched::new(recorder, live)));
        }
        if let Self::Watched(watched) = self {
            watched.add(id, watcher);
        }
    }

    /// Removes this watcher. Without watchers the recorder is what it was before.
    pub fn unwatch(&mut self, id: WatchId) {
        if let Self::Watched(watched) = self
            && watched.remove(id)
        {
            *self = mem::replace(&mut watched.recorder, Self::Off(Off));
        }
    }
}

impl Recorder for AnyRecorder {
    #[inline]
    fn record(&mut self, stack: StackId, event: Event) {
        match self {
            Self::Off(off) => off.record(stack, event),
            Self::Ring(ring) => ring.record(stack, event),
            Self::Watched(watched) => watched.record(stack, event),
        }
    }

    #[allow(
        clippy::inline_always,
        reason = "where the kind of event is known, little is left of it"
    )]
    #[inline(always)]
    fn record_block(
        &mut self,
        slot: BlockSlot,
        stack: StackId,
        event: Event,
        statistics: &impl Statistics,
    ) {
        // Asked in this order and one by one: a jump by the kind takes three times as many instructions.
        if let Self::Ring(ring) = self {
            ring.record_block(slot, stack, event, statistics);
        } else if let Self::Watched(watched) = self {
            // Of a copy: an event whose address is taken anywhere lies in memory everywhere.
            watched.see_block(slot, stack, &{ event }, statistics);
        }
    }

    fn copy_statistics(&mut self, statistics: &impl Statistics) {
        match self {
            Self::Off(_) => {}
            Self::Ring(ring) => ring.copy_statistics(statistics),
            Self::Watched(watched) => watched.copy_statistics(statistics),
        }
    }

    fn record_unobserved(&mut self, stack: StackId, event: Event) {
        match self {
            Self::Watched(watched) => watched.record_unobserved(stack, event),
            other => other.record(stack, event),
        }
    }

    fn intern(&mut self, text: &str) -> StringId {
        match self {
            Self::Off(off) => off.intern(text),
            Self::Ring(ring) => ring.intern(text),
            Self::Watched(watched) => watched.intern(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::watch::{TraceAction, TraceEntry};
    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<TraceEntry>>>);

    impl Watcher for Log {
        fn see(&mut self, entry: &TraceEntry) {
            self.0.lock().unwrap().push(*entry);
        }
    }

    const PLACE: (Stream, PoolId) = (Stream(7), PoolId(0, 3));

    fn free(addr: u64, pending: bool) -> Event {
        Event::Free { addr: Addr(addr), requested_bytes: 100, size_bytes: 512, pending }
    }

    #[test]
    fn a_free_names_the_place_of_its_block_and_both_halves_are_recorded() {
        let log = Log::default();
        let mut recorder = AnyRecorder::Off(Off);
        recorder.watch(WatchId(1), Box::new(log.clone()), [(Addr(1), PLACE)].into_iter());
        recorder.record_block(BlockSlot(0), StackId(4), free(1, false), &());
        let seen = log.0.lock().unwrap();
        assert_eq!(
            seen.iter().map(|entry| entry.action).collect::<Vec<_>>(),
            [TraceAction::FreeRequested, TraceAction::FreeCompleted]
        );
        assert!(seen.iter().all(|entry| (entry.stream, entry.pool) == (PLACE.0, Some(PLACE.1))));
        assert!(seen.iter().all(|entry| (entry.size_bytes, entry.stack) == (100, StackId(4))));
    }

    #[test]
    fn a_pending_free_completes_by_its_own_event_and_keeps_its_place_until_then() {
        let log = Log::default();
        let mut recorder = AnyRecorder::Off(Off);
        recorder.watch(WatchId(1), Box::new(log.clone()), [(Addr(1), PLACE)].into_iter());
        recorder.record(StackId::NONE, free(1, true));
        assert_eq!(log.0.lock().unwrap().len(), 1);
        let done = Event::FreeCompleted { addr: Addr(1), requested_bytes: 100, size_bytes: 512 };
        recorder.record(StackId::NONE, done);
        let seen = log.0.lock().unwrap();
        assert_eq!((seen[1].action, seen[1].stream), (TraceAction::FreeCompleted, PLACE.0));
    }

    #[test]
    fn a_removed_watcher_gets_nothing_and_without_watchers_the_recorder_is_plain() {
        let (first, second) = (Log::default(), Log::default());
        let mut recorder = AnyRecorder::Off(Off);
        recorder.watch(WatchId(1), Box::new(first.clone()), [].into_iter());
        recorder.watch(WatchId(2), Box::new(second.clone()), [].into_iter());
        recorder.unwatch(WatchId(1));
        recorder.record(StackId::NONE, Event::Snapshot { active_bytes: 5 });
        assert!(first.0.lock().unwrap().is_empty());
        assert_eq!(second.0.lock().unwrap()[0].size_bytes, 5);
        recorder.unwatch(WatchId(2));
        assert!(matches!(recorder, AnyRecorder::Off(_)));
    }
}
