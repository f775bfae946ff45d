//! How far the streams are: a ghost is unmapped, and a free page changes streams, once the device has passed the work
//! before the free. Nothing is asked while a graph capture may be in progress.

use alloc::vec::Vec;

use events::{Event, Stream};

use crate::heap::Heap;
use crate::stitch::SlotRef;
use device::{Device, EventId, Result};
use events::Recorder;
use settings::StreamSharing;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Looks how far the streams are that a request looks at, and records an event on each where none is awaited.
    pub(super) fn poll_streams(&mut self, own: Stream) -> Result<()> {
        if self.holds_back_flush() {
            return Ok(());
        }
        self.stitch.progress.turn();
        let shares = self.stitch.config.sharing != StreamSharing::Never;
        let seen = self.stitch.progress.seen_by(own);
        let seen: Vec<Stream> = seen.take(if shares { usize::MAX } else { 1 }).collect();
        self.relaxed(|heap| seen.into_iter().try_for_each(|stream| heap.poll_stream(stream)))
    }

    fn poll_stream(&mut self, stream: Stream) -> Result<()> {
        self.query_stream(stream)?;
        let now = self.stitch.ticket;
        let progress = self.stitch.progress.of(stream);
        if progress.is_some_and(|progress| progress.awaited.is_none() && progress.passed < now) {
            let event = self.device.event_record(stream)?;
            let progress = self.stitch.progress.of(stream).expect("looked up above");
            progress.awaited = Some((event, now));
            self.query_stream(stream)?;
        }
        Ok(())
    }

    fn query_stream(&mut self, stream: Stream) -> Result<()> {
        let Some(progress) = self.stitch.progress.of(stream) else { return Ok(()) };
        let Some((event, ticket)) = progress.awaited else { return Ok(()) };
        if progress.replayed >= ticket || self.device.event_query(event)? {
            self.device.event_release(event);
            progress.awaited = None;
            if progress.passed < ticket {
                progress.passed = ticket;
                self.note_passed(stream, ticket);
            }
        }
        Ok(())
    }

    /// Records that a stream has passed a ticket.
    pub(super) fn note_passed(&mut self, stream: Stream, ticket: u64) {
        let frees = self.stitch.ticket - ticket;
        self.record(Event::StreamPassed { stream, frees });
    }

    /// Repeats an answer of the device that a tape has: all work of a stream before the last so many frees is done. It
    /// takes effect at the next query, as in the recording.
    pub fn pass_stream(&mut self, stream: Stream, frees: u64) {
        let ticket = self.stitch.ticket.saturating_sub(frees);
        if let Some(progress) = self.stitch.progress.of(stream) {
            progress.replayed = ticket;
        }
    }

    /// Waits for the streams with free pages, where memory that is short may.
    pub(super) fn await_sharing_streams(&mut self) -> Result<()> {
        let may_wait = self.stitch.config.sharing == StreamSharing::Wait;
        if may_wait && !self.holds_back_flush() { self.await_run_streams() } else { Ok(()) }
    }

    /// Waits for the streams of all runs: `cuMemUnmap` does not wait.
    pub(super) fn await_run_streams(&mut self) -> Result<()> {
        let streams = self.stitch.progress.all();
        self.relaxed(|heap| streams.into_iter().try_for_each(|stream| heap.await_stream(stream)))?;
        self.drop_awaited_events();
        Ok(())
    }

    /// Waits until all work is done that used what is mapped at slots of a run.
    pub(super) fn await_last_use(&mut self, slots: &[SlotRef]) -> Result<()> {
        let Some(busy) = slots.iter().find(|at| !self.is_unused(**at)) else { return Ok(()) };
        let stream = self.stitch.run(busy.run).stream;
        self.relaxed(|heap| heap.await_stream(stream))
    }

    /// Whether nothing is mapped at a slot, or all work that used it is known to be done.
    pub(super) fn is_unused(&self, at: SlotRef) -> bool {
        let run = self.stitch.run(at.run);
        run.is_unused(at.slot, self.stitch.progress.passed(run.stream))
    }

    fn await_stream(&mut self, stream: Stream) -> Result<()> {
        self.device.stream_synchronize(stream)?;
        let now = self.stitch.ticket;
        self.stitch.progress.of(stream).expect("a stream with runs").passed = now;
        Ok(())
    }

    /// Gives up the events that are awaited.
    pub(super) fn drop_awaited_events(&mut self) {
        let events: Vec<EventId> = self.stitch.progress.take_awaited().collect();
        for event in events {
            self.device.event_release(event);
        }
    }
}
