//! Graph capture: which stream captures, what its graph looks like, and the thread's capture mode.

use std::{ptr, slice};

use cudarc::driver::sys::{self, CUstreamCaptureMode, CUstreamCaptureStatus};
use events::Stream;

use super::CudaDevice;
use super::driver::Code;
use super::event::stream_handle;
use device::{Capture, CaptureId, CaptureMode, DeviceCall, GraphNode, Result};

const ACTIVE: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as u32;
const INVALIDATED: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED as u32;
const CAPTURE_INVALIDATED: Code = sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as Code;

const GLOBAL: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL as u32;
const THREAD_LOCAL: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as u32;
const RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;

impl CudaDevice {
    pub(super) fn capture_of(&self, stream: Stream) -> Result<Option<Capture>> {
        let (mut status, mut id, mut count) = (0, 0, 0);
        let mut nodes: *const sys::CUgraphNode = ptr::null();
        let graph = ptr::null_mut();
        let code = if self.driver.capture_info_v3.is_present() {
            let info = self.driver.capture_info_v3.get(DeviceCall::Capture)?;
            let mut edges: *const sys::CUgraphEdgeData = ptr::null();
            let stream = stream_handle(stream);
            // SAFETY: the answers are written before they are read; null asks for no graph.
            self.in_context(|_| unsafe {
                info(
                    stream,
                    &raw mut status,
                    &raw mut id,
                    graph,
                    &raw mut nodes,
                    &raw mut edges,
                    &raw mut count,
                )
            })
        } else {
            let info = self.driver.capture_info_v2.get(DeviceCall::Capture)?;
            let stream = stream_handle(stream);
            // SAFETY: every answer has room that outlives the call and is initialised; null asks for no graph.
            self.in_context(|_| unsafe {
                info(stream, &raw mut status, &raw mut id, graph, &raw mut nodes, &raw mut count)
            })
        };
        self.driver.check(DeviceCall::Capture, code)?;
        if status == INVALIDATED {
            self.driver.check(DeviceCall::Capture, CAPTURE_INVALIDATED)?;
        }
        if status != ACTIVE {
            return Ok(None);
        }
        let terminals = if nodes.is_null() {
            Vec::new()
        } else {
            // SAFETY: the driver's own array of that many nodes, valid until the stream's next
            // call; the caller's stream makes none meanwhile.
            unsafe { slice::from_raw_parts(nodes, count) }.iter().copied().map(node_id).collect()
        };
        Ok(Some(Capture { id: CaptureId(id), terminals }))
    }

    pub(super) fn dependencies_of(&self, node: GraphNode) -> Result<Vec<GraphNode>> {
        let dependencies = self.driver.node_dependencies.get(DeviceCall::Dependencies)?;
        let node: sys::CUgraphNode = ptr::with_exposed_provenance_mut(node.0 as usize);
        let mut count = 0;
        // SAFETY: the node is of a graph being captured; a null array asks for the number only.
        let code = unsafe { dependencies(node, ptr::null_mut(), &raw mut count) };
        self.driver.check(DeviceCall::Dependencies, code)?;
        let mut nodes = vec![ptr::null_mut(); count];
        // SAFETY: the array has room for `count` nodes, and the driver writes no more.
        let code = unsafe { dependencies(node, nodes.as_mut_ptr(), &raw mut count) };
        self.driver.check(DeviceCall::Dependencies, code)?;
        nodes.truncate(count);
        Ok(nodes.into_iter().map(node_id).collect())
    }

    pub(super) fn swap_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        let exchange = self.driver.exchange_capture_mode.get(DeviceCall::ExchangeCaptureMode)?;
        let mut mode = match mode {
            CaptureMode::Global => GLOBAL,
            CaptureMode::ThreadLocal => THREAD_LOCAL,
            CaptureMode::Relaxed => RELAXED,
        };
        // SAFETY: the mode is one of the driver's, and is replaced by the one before.
        let code = unsafe { exchange(&raw mut mode) };
        self.driver.check(DeviceCall::ExchangeCaptureMode, code)?;
        Ok(match mode {
            THREAD_LOCAL => CaptureMode::ThreadLocal,
            RELAXED => CaptureMode::Relaxed,
            _ => CaptureMode::Global,
        })
    }
}

fn node_id(node: sys::CUgraphNode) -> GraphNode {
    GraphNode(node.expose_provenance() as u64)
}
