//! How far the streams are: a ghost is unmapped, and a free page changes streams, once the device has passed the work
//! before the free. Nothing is asked while a graph capture may be in progress.

use alloc::vec::Vec;

use events::Stream;

use crate::heap::Heap;
use device::{Device, Result};
use events::Recorder;
use settings::StreamSharing;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Looks how far the streams are, and records an event on each where none is awaited.
    pub(super) fn poll_streams(&mut self) -> Result<()> {
        if self.holds_back_flush() {
            return Ok(());
        }
        self.relaxed(|heap| {
            heap.run_streams().into_iter().try_for_each(|stream| heap.poll_stream(stream))
        })
    }

    fn poll_stream(&mut self, stream: Stream) -> Result<()> {
        self.query_stream(stream)?;
        let now = self.stitch.ticket;
        let progress = *self.stitch.progress_of(stream);
        if progress.awaited.is_none() && progress.passed < now {
            let event = self.device.event_record(stream)?;
            self.stitch.progress_of(stream).awaited = Some((event, now));
            self.query_stream(stream)?;
        }
        Ok(())
    }

    fn query_stream(&mut self, stream: Stream) -> Result<()> {
        let Some((event, ticket)) = self.stitch.progress_of(stream).awaited else { return Ok(()) };
        if self.device.event_query(event)? {
            self.device.event_release(event);
            let progress = self.stitch.progress_of(stream);
            progress.awaited = None;
            progress.passed = ticket;
        }
        Ok(())
    }

    /// Waits for the streams with free pages, where memory that is short may.
    pub(super) fn await_sharing_streams(&mut self) -> Result<()> {
        let may_wait = self.stitch.config.sharing == StreamSharing::Wait;
        if may_wait && !self.holds_back_flush() { self.await_run_streams() } else { Ok(()) }
    }

    /// Waits for the streams of all runs: `cuMemUnmap` does not wait.
    pub(super) fn await_run_streams(&mut self) -> Result<()> {
        self.relaxed(|heap| {
            for stream in heap.run_streams() {
                heap.device.stream_synchronize(stream)?;
                let now = heap.stitch.ticket;
                heap.stitch.progress_of(stream).passed = now;
            }
            Ok(())
        })?;
        self.drop_awaited_events();
        Ok(())
    }

    /// Gives up the events that are awaited.
    pub(super) fn drop_awaited_events(&mut self) {
        for at in 0..self.stitch.progress.len() {
            if let Some((event, _)) = self.stitch.progress[at].awaited.take() {
                self.device.event_release(event);
            }
        }
    }

    fn run_streams(&self) -> Vec<Stream> {
        let mut streams: Vec<Stream> = self.stitch.runs().map(|(_, run)| run.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    }
}
