//! Streams and events.

use std::ffi::c_void;

use super::runtime;
use crate::abi::{In, InOut, Out, Status};
use crate::capture::{self, CaptureStatus};
use crate::sharing::{self, Handle};
use crate::{event, not_simulated, stream};

/// `cudaHostFn_t`.
type HostFunction = extern "C" fn(*mut c_void);
/// `cudaStreamCallback_t`.
type Callback = extern "C" fn(u64, i32, *mut c_void);

runtime! {
    fn cudaStreamCreate(out: Out<u64>) {
        stream::create(out, 0, 0)
    }

    fn cudaStreamCreateWithFlags(out: Out<u64>, flags: u32) {
        stream::create(out, flags, 0)
    }

    fn cudaStreamCreateWithPriority(out: Out<u64>, flags: u32, priority: i32) {
        stream::create(out, flags, priority)
    }

    fn cudaStreamDestroy(stream: u64) {
        stream::destroy(stream)
    }

    fn cudaStreamGetPriority(stream: u64, out: Out<i32>) {
        stream::priority(stream, out)
    }

    fn cudaStreamGetFlags(stream: u64, out: Out<u32>) {
        stream::flags(stream, out)
    }

    fn cudaStreamGetDevice(stream: u64, out: Out<i32>) {
        out.set(i32::from(stream::device(stream)?))
    }

    fn cudaStreamQuery(stream: u64) {
        stream::query(stream)
    }

    fn cudaStreamSynchronize(stream: u64) {
        stream::synchronize(stream)
    }

    fn cudaStreamWaitEvent(stream: u64, event: u64, _flags: u32) {
        event::wait(stream, event)
    }

    /// All work before is done, so the function runs at once.
    fn cudaLaunchHostFunc(stream: u64, function: Option<HostFunction>, argument: *mut c_void) {
        let function = function.ok_or(Status::INVALID_VALUE)?;
        if capture::is_capturing(stream)? {
            not_simulated("a host function in a CUDA graph");
            return Err(Status::NOT_SUPPORTED);
        }
        function(argument);
        Ok(())
    }

    fn cudaStreamAddCallback(
        stream: u64, function: Option<Callback>, argument: *mut c_void, _flags: u32,
    ) {
        let function = function.ok_or(Status::INVALID_VALUE)?;
        if capture::is_capturing(stream)? {
            return Err(Status::CAPTURE_UNSUPPORTED);
        }
        function(stream, 0, argument);
        Ok(())
    }

    fn cudaStreamBeginCapture(stream: u64, mode: u32) {
        capture::begin(stream, mode)
    }

    fn cudaStreamEndCapture(stream: u64, graph: Out<u64>) {
        capture::end(stream, graph)
    }

    fn cudaStreamIsCapturing(stream: u64, status: Out<CaptureStatus>) {
        status.set(capture::status(stream)?)
    }

    /// CUDA 13's, with edge data: dependencies are plain, so there is none.
    fn cudaStreamGetCaptureInfo(
        stream: u64, status: Out<CaptureStatus>, id: Out<u64>, graph: Out<u64>,
        terminals: Out<*const u64>, edges: Out<*const c_void>, terminal_count: Out<usize>,
    ) {
        edges.set_if_wanted(std::ptr::null());
        capture::info(stream, capture::Info { status, id, graph, terminals, terminal_count })
    }

    /// The symbol of `cudaStreamGetCaptureInfo` in CUDA 12.
    fn cudaStreamGetCaptureInfo_v2(
        stream: u64, status: Out<CaptureStatus>, id: Out<u64>, graph: Out<u64>,
        terminals: Out<*const u64>, terminal_count: Out<usize>,
    ) {
        capture::info(stream, capture::Info { status, id, graph, terminals, terminal_count })
    }

    fn cudaStreamUpdateCaptureDependencies(
        stream: u64, nodes: In<u64>, _edges: In<c_void>, count: usize, flags: u32,
    ) {
        capture::update_dependencies(stream, &nodes.list(count)?, flags)
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: InOut<u32>) {
        let before = capture::exchange_mode(mode.get()?)?;
        mode.set(before)
    }

    fn cudaEventCreate(out: Out<u64>) {
        event::create(out, 0)
    }

    fn cudaEventCreateWithFlags(out: Out<u64>, flags: u32) {
        event::create(out, flags)
    }

    fn cudaIpcGetEventHandle(out: Out<Handle>, event: u64) {
        sharing::get_event(out, event)
    }

    fn cudaIpcOpenEventHandle(out: Out<u64>, handle: Handle) {
        sharing::open_event(out, handle)
    }

    fn cudaEventDestroy(event: u64) {
        event::destroy(event)
    }

    fn cudaEventRecord(event: u64, stream: u64) {
        event::record(event, stream)
    }

    fn cudaEventRecordWithFlags(event: u64, stream: u64, _flags: u32) {
        event::record(event, stream)
    }

    fn cudaEventQuery(event: u64) {
        event::query(event)
    }

    fn cudaEventSynchronize(event: u64) {
        event::synchronize(event)
    }

    fn cudaEventElapsedTime(out: Out<f32>, start: u64, end: u64) {
        event::elapsed(out, start, end)
    }
}
