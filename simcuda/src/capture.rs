//! Stream captures.

use std::cell::RefCell;
use std::ffi::c_void;

use rustc_hash::FxHashMap;

use device::{Capture, CaptureMode, Device, GraphNode};

use crate::abi::{Answer, InOut, Out, Status};
use crate::machine;

pub(crate) fn is_capturing(handle: u64) -> Answer<bool> {
    Ok(status(handle)? != CaptureStatus::NONE)
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

fn status(handle: u64) -> Answer<CaptureStatus> {
    if !machine::any_capture() {
        return Ok(CaptureStatus::NONE);
    }
    Ok(state(handle)?.0)
}

/// `cudaStreamIsCapturing`.
pub(crate) fn hand_out_status(handle: u64, out: Out<CaptureStatus>) -> Answer {
    out.set(status(handle)?)
}

fn state(handle: u64) -> Answer<(CaptureStatus, Option<Capture>)> {
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
    /// The dependencies of each stream that `info` pointed to.
    static TERMINALS: RefCell<FxHashMap<u64, Vec<u64>>> = RefCell::default();
}

/// `cudaStreamGetCaptureInfo` of CUDA 13, with edge data: dependencies are plain, so there is none.
pub(crate) fn info_with_edges(
    handle: u64,
    status: Out<CaptureStatus>,
    id: Out<u64>,
    graph: Out<u64>,
    terminals: Out<*const u64>,
    edges: Out<*const c_void>,
    terminal_count: Out<usize>,
) -> Answer {
    edges.set_if_wanted(std::ptr::null());
    info(handle, status, id, graph, terminals, terminal_count)
}

/// `cudaStreamGetCaptureInfo` and the driver's versions of it. All outputs but the first may be null. The list of
/// terminals stays readable until the stream has others: PyTorch asks again before it has read the first answer.
pub(crate) fn info(
    handle: u64,
    status: Out<CaptureStatus>,
    id: Out<u64>,
    graph: Out<u64>,
    terminals: Out<*const u64>,
    terminal_count: Out<usize>,
) -> Answer {
    if !machine::any_capture() {
        return status.set(CaptureStatus::NONE);
    }
    let (found, capture) = state(handle)?;
    status.set(found)?;
    let Some(capture) = capture else { return Ok(()) };
    id.set_if_wanted(capture.id.0);
    let captured = machine::with(|machine| {
        let (device, _) = machine.stream(handle)?;
        Ok(machine.graphs.of_capture(device, capture.id))
    })?;
    graph.set_if_wanted(captured.unwrap_or(0));
    let nodes: Vec<u64> = capture.terminals.iter().map(|node| node.0).collect();
    terminal_count.set_if_wanted(nodes.len());
    let _ = TERMINALS.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        let kept = kept.entry(handle).or_default();
        if *kept != nodes {
            *kept = nodes;
        }
        terminals.set_if_wanted(kept.as_ptr());
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

pub(crate) fn begin(handle: u64, mode_number: u32) -> Answer {
    let mode = mode(mode_number)?;
    machine::with(|machine| {
        let (device, stream) = machine.stream(handle)?;
        let id = machine.device(device)?.begin_capture(stream, mode)?;
        machine.graphs.begin(device, id);
        machine.count_captures();
        Ok(())
    })
}

pub(crate) fn end(handle: u64, out: Out<u64>) -> Answer {
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

/// Sets the thread's capture mode and hands out the one before.
pub(crate) fn exchange_mode(place: InOut<u32>) -> Answer {
    let mode = mode(place.get()?)?;
    let mut before = CaptureMode::Global;
    machine::with(|machine| {
        // The mode is the thread's, whatever device it works on.
        for device in &mut machine.devices {
            before = device.exchange_capture_mode(mode)?;
        }
        Ok(())
    })?;
    place.set(match before {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    })
}
