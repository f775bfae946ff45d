//! Free pages of other streams: they change hands once the device has passed the work before their frees.

use alloc::vec::Vec;

use events::Stream;

use crate::heap::Heap;
use device::{Device, Result};
use events::Recorder;
use settings::StreamSharing;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Looks how far the other streams with free pages are, and records an event where none is awaited.
    pub(super) fn poll_streams(&mut self, own: Stream) -> Result<()> {
        if self.stitch.config.sharing == StreamSharing::Never {
            return Ok(());
        }
        self.relaxed(|heap| {
            for stream in heap.other_streams(own) {
                let progress = *heap.stitch.progress_of(stream);
                if let Some((event, ticket)) = progress.awaited {
                    if !heap.device.event_query(event)? {
                        continue;
                    }
                    heap.device.event_release(event);
                    let progress = heap.stitch.progress_of(stream);
                    progress.awaited = None;
                    progress.passed = ticket;
                }
                let now = heap.stitch.ticket;
                if heap.stitch.passed(stream) < now {
                    let event = heap.device.event_record(stream)?;
                    heap.stitch.progress_of(stream).awaited = Some((event, now));
                }
            }
            Ok(())
        })
    }

    /// Waits for the other streams with free pages.
    pub(super) fn await_streams(&mut self, own: Stream) -> Result<()> {
        if self.stitch.config.sharing != StreamSharing::Wait {
            return Ok(());
        }
        self.relaxed(|heap| {
            for stream in heap.other_streams(own) {
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

    fn other_streams(&self, own: Stream) -> Vec<Stream> {
        let mut streams: Vec<Stream> = self.stitch.runs().map(|(_, run)| run.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams.retain(|stream| *stream != own);
        streams
    }
}
