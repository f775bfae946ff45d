//! Streams.

use device::Device;
use events::Stream;
use rustc_hash::FxHashMap;
use sim_device::SimDevice;

use crate::abi::{Answer, Out, Status};
use crate::capture;
use crate::machine::{self, Machine};

/// `cudaStreamLegacy`.
const LEGACY: u64 = 1;
/// `cudaStreamPerThread`.
const PER_THREAD: u64 = 2;

/// The streams that were made and not destroyed.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    live: FxHashMap<u64, Properties>,
}

#[derive(Clone, Copy, Debug)]
struct Properties {
    device: u16,
    priority: i32,
    flags: u32,
}

impl Machine {
    /// A stream handle's device and name there.
    pub(crate) fn stream(&mut self, handle: u64) -> Answer<(u16, Stream)> {
        match handle {
            0 | LEGACY => Ok((machine::current_device(), Stream(0))),
            PER_THREAD => Ok((machine::current_device(), Stream(PER_THREAD))),
            _ => {
                let found = self.streams.live.get(&handle).ok_or(Status::INVALID_HANDLE)?;
                Ok((found.device, Stream(handle)))
            }
        }
    }

    /// Runs `work` on the stream's device.
    pub(crate) fn on_stream<T>(
        &mut self,
        handle: u64,
        work: impl FnOnce(&mut SimDevice, Stream) -> Answer<T>,
    ) -> Answer<T> {
        let (device, stream) = self.stream(handle)?;
        work(self.device(device)?, stream)
    }
}

pub(crate) fn create(out: Out<u64>, flags: u32, priority: i32) -> Answer {
    out.wanted()?;
    machine::bind()?;
    let device = machine::current_device();
    let handle = machine::new_handle();
    machine::with(|machine| {
        machine.streams.live.insert(handle, Properties { device, priority, flags });
        Ok(())
    })?;
    out.set(handle)
}

/// A stream of the usual priority.
pub(crate) fn create_usual(out: Out<u64>, flags: u32) -> Answer {
    create(out, flags, 0)
}

pub(crate) fn destroy(handle: u64) -> Answer {
    machine::with(|machine| {
        machine.streams.live.remove(&handle).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    })
}

/// The stream's priority; the default streams have 0.
pub(crate) fn priority(handle: u64, out: Out<i32>) -> Answer {
    let found = machine::with(|machine| {
        machine.stream(handle)?;
        Ok(machine.streams.live.get(&handle).map_or(0, |stream| stream.priority))
    })?;
    out.set(found)
}

/// The flags that the stream was made with.
pub(crate) fn flags(handle: u64, out: Out<u32>) -> Answer {
    let found = machine::with(|machine| {
        machine.stream(handle)?;
        Ok(machine.streams.live.get(&handle).map_or(0, |stream| stream.flags))
    })?;
    out.set(found)
}

/// The ordinal of the stream's device.
pub(crate) fn device(handle: u64, out: Out<i32>) -> Answer {
    let device = machine::with(|machine| machine.stream(handle).map(|(device, _)| device))?;
    out.set(i32::from(device))
}

/// Enqueues an operation: nothing happens, but a capture gets a node.
pub(crate) fn launch(handle: u64) -> Answer {
    machine::bind()?;
    if !machine::any_capture() {
        return Ok(());
    }
    machine::with(|machine| {
        machine.on_stream(handle, |device, stream| Ok(device.launch(stream).map(|_| ())?))
    })
}

/// Work is done at once, so the stream is idle unless it captures.
pub(crate) fn query(handle: u64) -> Answer {
    if capture::is_capturing(handle)? { Err(Status::CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

pub(crate) fn synchronize(handle: u64) -> Answer {
    machine::with(|machine| {
        machine.on_stream(handle, |device, stream| Ok(device.stream_synchronize(stream)?))
    })
}
