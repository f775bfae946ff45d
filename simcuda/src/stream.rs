//! Streams and their captures.

use std::cell::RefCell;

use allocator::device::sim::SimDevice;
use allocator::device::{Capture, CaptureMode, Device, GraphNode};
use rustc_hash::FxHashMap;
use trace_format::Stream;

use crate::abi::{Answer, Out, Status};
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
pub(crate) fn device(handle: u64) -> Answer<u16> {
    machine::with(|machine| machine.stream(handle).map(|(device, _)| device))
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
    if is_capturing(handle)? { Err(Status::CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

pub(crate) fn synchronize(handle: u64) -> Answer {
    machine::with(|machine| {
        machine.on_stream(handle, |device, stream| Ok(device.stream_synchronize(stream)?))
    })
}

pub(crate) fn is_capturing(handle: u64) -> Answer<bool> {
    Ok(capture_status(handle)? != CaptureStatus::NONE)
}

/// `cudaStreamCaptureStatus`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CaptureStatus(u32);

impl CaptureStatus {
    const NONE: Self = Self(0);
    const ACTIVE: Self = Self(1);
    const INVALIDATED: Self = Self(2);
}

pub(crate) fn capture_status(handle: u64) -> Answer<CaptureStatus> {
    if !machine::any_capture() {
        return Ok(CaptureStatus::NONE);
    }
    Ok(capture_state(handle)?.0)
}

fn capture_state(handle: u64) -> Answer<(CaptureStatus, Option<Capture>)> {
    machine::with(|machine| {
        machine.on_stream(handle, |device, stream| {
            if device.capture_invalidated(stream) {
                return Ok((CaptureStatus::INVALIDATED, None));
            }
            let capture = device.capture(stream)?;
            let status =
                if capture.is_some() { CaptureStatus::ACTIVE } else { CaptureStatus::NONE };
            Ok((status, capture))
        })
    })
}

thread_local! {
    /// The dependencies that the last `capture_info` of this thread pointed to.
    static TERMINALS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What `capture_info` fills; every place but the first may be null.
pub(crate) struct CaptureInfo {
    pub(crate) status: Out<CaptureStatus>,
    pub(crate) id: Out<u64>,
    pub(crate) graph: Out<u64>,
    pub(crate) terminals: Out<*const u64>,
    pub(crate) terminal_count: Out<usize>,
}

/// `cudaStreamGetCaptureInfo` and the driver's versions of it. The list of terminals stays readable until this thread
/// asks again.
pub(crate) fn capture_info(handle: u64, out: CaptureInfo) -> Answer {
    if !machine::any_capture() {
        return out.status.set(CaptureStatus::NONE);
    }
    let (status, capture) = capture_state(handle)?;
    out.status.set(status)?;
    let Some(capture) = capture else { return Ok(()) };
    out.id.set_if_wanted(capture.id.0);
    let graph = machine::with(|machine| {
        let (device, _) = machine.stream(handle)?;
        Ok(machine.graphs.of_capture(device, capture.id))
    })?;
    out.graph.set_if_wanted(graph.unwrap_or(0));
    let terminals: Vec<u64> = capture.terminals.iter().map(|node| node.0).collect();
    out.terminal_count.set_if_wanted(terminals.len());
    let _ = TERMINALS.try_with(|kept| {
        kept.replace(terminals);
        out.terminals.set_if_wanted(kept.borrow().as_ptr());
    });
    Ok(())
}

/// `cudaStreamCaptureMode` by its number.
fn mode(number: u32) -> Answer<CaptureMode> {
    match number {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub(crate) fn begin_capture(handle: u64, mode_number: u32) -> Answer {
    let mode = mode(mode_number)?;
    machine::with(|machine| {
        let (device, stream) = machine.stream(handle)?;
        let id = machine.device(device)?.begin_capture(stream, mode)?;
        machine.graphs.begin(device, id);
        machine.count_captures();
        Ok(())
    })
}

pub(crate) fn end_capture(handle: u64, out: Out<u64>) -> Answer {
    out.wanted()?;
    let graph = machine::with(|machine| {
        let (device, stream) = machine.stream(handle)?;
        let ended = machine.device(device)?.end_capture(stream);
        machine.count_captures();
        Ok(machine.graphs.end(device, ended?))
    });
    out.set(graph.unwrap_or(0))?;
    graph.map(|_| ())
}

/// `cudaStreamUpdateCaptureDependencies`: adds to the dependencies (flag 0) or replaces them (flag 1).
pub(crate) fn update_dependencies(handle: u64, nodes: &[u64], flags: u32) -> Answer {
    machine::with(|machine| {
        machine.on_stream(handle, |device, stream| {
            let current = device.capture(stream)?.ok_or(Status::INVALID_VALUE)?;
            let kept = match flags {
                0 => current.terminals,
                1 => Vec::new(),
                _ => return Err(Status::INVALID_VALUE),
            };
            let added = nodes.iter().map(|&node| GraphNode(node));
            let mut nodes = kept;
            for node in added {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
            Ok(device.set_dependencies(stream, &nodes)?)
        })
    })
}

/// Sets the thread's capture mode and returns the one before.
pub(crate) fn exchange_mode(number: u32) -> Answer<u32> {
    let mode = mode(number)?;
    let mut before = CaptureMode::Global;
    machine::with(|machine| {
        // The mode is the thread's, whatever device it works on.
        for device in &mut machine.devices {
            before = device.exchange_capture_mode(mode)?;
        }
        Ok(())
    })?;
    Ok(match before {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    })
}
