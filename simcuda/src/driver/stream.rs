//! Streams, events, captures and graphs.

use std::ffi::{c_int, c_void};

use crate::abi::{InOut, Out, driver};
use crate::capture::{self, CaptureStatus};
use crate::{event, graph, stream};

driver! {
    fn cuStreamCreate(out: Out<u64>, flags: u32) {
        stream::create(out, flags, 0)
    }

    fn cuStreamCreateWithPriority(out: Out<u64>, flags: u32, priority: c_int) {
        stream::create(out, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: u64) {
        stream::destroy(stream)
    }

    fn cuStreamQuery(stream: u64) {
        stream::query(stream)
    }

    fn cuStreamSynchronize(stream: u64) {
        stream::synchronize(stream)
    }

    fn cuStreamWaitEvent(stream: u64, event: u64, _flags: u32) {
        event::wait(stream, event)
    }

    fn cuStreamBeginCapture_v2(stream: u64, mode: u32) {
        capture::begin(stream, mode)
    }

    fn cuStreamEndCapture(stream: u64, graph: Out<u64>) {
        capture::end(stream, graph)
    }

    fn cuStreamIsCapturing(stream: u64, status: Out<CaptureStatus>) {
        status.set(capture::status(stream)?)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: u64, status: Out<CaptureStatus>, id: Out<u64>, graph: Out<u64>,
        terminals: Out<*const u64>, terminal_count: Out<usize>,
    ) {
        capture::info(stream, capture::Info { status, id, graph, terminals, terminal_count })
    }

    /// With edge data: dependencies are plain, so there is none.
    fn cuStreamGetCaptureInfo_v3(
        stream: u64, status: Out<CaptureStatus>, id: Out<u64>, graph: Out<u64>,
        terminals: Out<*const u64>, edges: Out<*const c_void>, terminal_count: Out<usize>,
    ) {
        edges.set_if_wanted(std::ptr::null());
        capture::info(stream, capture::Info { status, id, graph, terminals, terminal_count })
    }

    fn cuThreadExchangeStreamCaptureMode(mode: InOut<u32>) {
        let before = capture::exchange_mode(mode.get()?)?;
        mode.set(before)
    }

    fn cuEventCreate(out: Out<u64>, flags: u32) {
        event::create(out, flags)
    }

    fn cuEventDestroy_v2(event: u64) {
        event::destroy(event)
    }

    fn cuEventRecord(event: u64, stream: u64) {
        event::record(event, stream)
    }

    fn cuEventRecordWithFlags(event: u64, stream: u64, _flags: u32) {
        event::record(event, stream)
    }

    fn cuEventQuery(event: u64) {
        event::query(event)
    }

    fn cuEventSynchronize(event: u64) {
        event::synchronize(event)
    }

    fn cuEventElapsedTime(out: Out<f32>, start: u64, end: u64) {
        event::elapsed(out, start, end)
    }

    fn cuEventElapsedTime_v2(out: Out<f32>, start: u64, end: u64) {
        event::elapsed(out, start, end)
    }

    fn cuGraphInstantiateWithFlags(out: Out<u64>, graph: u64, _flags: u64) {
        graph::instantiate(out, graph)
    }

    fn cuGraphLaunch(executable: u64, stream: u64) {
        graph::launch(executable, stream)
    }

    fn cuGraphDestroy(graph: u64) {
        graph::destroy(graph)
    }

    fn cuGraphExecDestroy(executable: u64) {
        graph::destroy(executable)
    }

    fn cuGraphGetNodes(graph: u64, out: Out<u64>, count: InOut<usize>) {
        graph::nodes(graph, out, count)
    }

    fn cuGraphNodeGetDependencies(node: u64, out: Out<u64>, count: InOut<usize>) {
        graph::dependencies(node, out, count)
    }

    /// With edge data: dependencies are plain, so there is none.
    fn cuGraphNodeGetDependencies_v2(
        node: u64, out: Out<u64>, _edges: Out<c_void>, count: InOut<usize>,
    ) {
        graph::dependencies(node, out, count)
    }
}
