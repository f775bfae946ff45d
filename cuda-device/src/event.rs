//! Stream order: events, and waiting.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;
use events::Stream;

use super::CudaDevice;
use super::driver::{NOT_READY, SUCCESS};
use device::{DeviceCall, EventId, Result};

const WITHOUT_TIMING: u32 = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;

/// The driver's handle of a stream. Null is the default stream.
pub(super) fn stream_handle(stream: Stream) -> sys::CUstream {
    ptr::with_exposed_provenance_mut::<c_void>(stream.0 as usize).cast()
}

fn event_handle(event: EventId) -> sys::CUevent {
    ptr::with_exposed_provenance_mut::<c_void>(event.0 as usize).cast()
}

impl CudaDevice {
    pub(super) fn record_event(&mut self, stream: Stream) -> Result<EventId> {
        let event = match self.idle_events.pop() {
            Some(event) => event,
            None => self.create_event()?,
        };
        let code = self.in_context(|d| {
            // SAFETY: the event is ours and idle; the stream is one that PyTorch handed us, still
            // open.
            unsafe { (d.event_record)(event_handle(event), stream_handle(stream)) }
        });
        if code != SUCCESS {
            self.idle_events.push(event);
        }
        self.driver.check(DeviceCall::EventRecord, code)?;
        Ok(event)
    }

    /// Events are made once and used again until the process ends.
    fn create_event(&self) -> Result<EventId> {
        let mut event: sys::CUevent = ptr::null_mut();
        // SAFETY: the handle is written before it is read.
        let code = self.in_context(|d| unsafe { (d.event_create)(&raw mut event, WITHOUT_TIMING) });
        self.driver.check(DeviceCall::EventRecord, code)?;
        Ok(EventId(event.expose_provenance() as u64))
    }

    /// An event knows its context, so none has to be current.
    pub(super) fn query_event(&self, event: EventId) -> Result<bool> {
        // SAFETY: the event is one of ours, and none is ever destroyed.
        let code = unsafe { (self.driver.event_query)(event_handle(event)) };
        if code == NOT_READY {
            return Ok(false);
        }
        self.driver.given_back(DeviceCall::EventQuery, code)?;
        Ok(true)
    }

    pub(super) fn wait_for_event(&self, event: EventId) -> Result<()> {
        // SAFETY: the event is one of ours, and none is ever destroyed.
        let code = unsafe { (self.driver.event_synchronize)(event_handle(event)) };
        self.driver.given_back(DeviceCall::EventSynchronize, code)
    }

    pub(super) fn wait_for_stream(&self, stream: Stream) -> Result<()> {
        let code = self.in_context(|d| {
            // SAFETY: the stream is one that PyTorch handed us, still open.
            unsafe { (d.stream_synchronize)(stream_handle(stream)) }
        });
        self.driver.given_back(DeviceCall::StreamSynchronize, code)
    }

    pub(super) fn wait_for_device(&self) -> Result<()> {
        // SAFETY: waits for the context that `in_context` made current.
        let code = self.in_context(|d| unsafe { (d.context_synchronize)() });
        self.driver.given_back(DeviceCall::DeviceSynchronize, code)
    }
}
