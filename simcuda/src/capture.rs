//! Stream captures.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use device::{Capture, CaptureMode, Device, GraphNode};

use crate::abi::{Answer, Out, Status};
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

pub(crate) fn status(handle: u64) -> Answer<CaptureStatus> {
    if !machine::any_capture() {
        return Ok(CaptureStatus::NONE);
    }
    Ok(state(handle)?.0)
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

/// Outputs of `info`; all but the first may be null.
pub(crate) struct Info {
    pub(crate) status: Out<CaptureStatus>,
    pub(crate) id: Out<u64>,
    pub(crate) graph: Out<u64>,
    pub(crate) terminals: Out<*const u64>,
    pub(crate) terminal_count: Out<usize>,
}

/// `cudaStreamGetCaptureInfo` and the driver's versions of it. The list of terminals stays readable until the
/// stream has others: PyTorch asks again before it has read the first answer.
pub(crate) fn info(handle: u64, out: Info) -> Answer {
    if !machine::any_capture() {
        return out.status.set(CaptureStatus::NONE);
    }
    let (status, capture) = state(handle)?;
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
        let mut kept = kept.borrow_mut();
        let kept = kept.entry(handle).or_default();
        if *kept != terminals {
            *kept = terminals;
        }
        out.terminals.set_if_wanted(kept.as_ptr());
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
