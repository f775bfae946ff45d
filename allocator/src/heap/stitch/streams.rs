//! How far the streams are: a ghost is unmapped, and a free page changes streams, once the device has passed the work
//! before the free.

use alloc::vec::Vec;

use events::Stream;

use crate::heap::Heap;
use device::{Device, Result};
use events::Recorder;
use settings::StreamSharing;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Looks how far the streams with free pages are, and records an event where none is awaited.
    pub(super) fn poll_streams(&mut self) -> Result<()> {
        self.relaxed(|heap| {
            for stream in heap.streams() {
                heap.query_stream(stream)?;
                let now = heap.stitch.ticket;
                let progress = *heap.stitch.progress_of(stream);
                if progress.awaited.is_none() && progress.passed < now {
                    let event = heap.device.event_record(stream)?;
                    heap.stitch.progress_of(stream).awaited = Some((event, now));
                    heap.query_stream(stream)?;
                }
            }
            Ok(())
        })
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

    /// Waits for the streams with free pages, unless they keep theirs.
    pub(super) fn await_streams(&mut self) -> Result<()> {
        if self.stitch.config.sharing != StreamSharing::Wait {
            return Ok(());
        }
        self.relaxed(|heap| {
            for stream in heap.streams() {
                heap.device.stream_synchronize(stream)?;
                let now = heap.stitch.ticket;
                let progress = heap.stitch.progress_of(stream);
                progress.passed = now;
                if let Some((event, _)) = progress.awaited.take() {
                    heap.device.event_release(event);
                }
            }
            Ok(())
        })
    }

    fn streams(&self) -> Vec<Stream> {
        let mut streams: Vec<Stream> = self.stitch.runs().map(|(_, run)| run.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    }
}
