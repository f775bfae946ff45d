//! Entry points that only pass their arguments on: the driver's and, behind the bar, the runtime's.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{InOut, Out, accepted, driver, forward};
use crate::capture::CaptureStatus;
use crate::driver::context;
use crate::runtime::execution::{self, Dim3};
use crate::runtime::runtime;
use crate::sharing::Handle;
use crate::{capture, copy, event, graph, host, kernel, limit, memory, pointer, sharing, stream};

// Devices.
forward! {
    cuDriverGetVersion | cudaDriverGetVersion => context::version(out: Out<c_int>);
    cuDeviceGetUuid cuDeviceGetUuid_v2 | => context::uuid(out: Out<[u8; 16]>, ordinal: c_int);
    cuDeviceGetAttribute | cudaDeviceGetAttribute
        => context::attribute(out: Out<c_int>, attribute: c_int, ordinal: c_int);
    cuDeviceGetPCIBusId | cudaDeviceGetPCIBusId
        => context::pci_bus_id(out: Out<c_char>, room: c_int, ordinal: c_int);
    cuDeviceCanAccessPeer | cudaDeviceCanAccessPeer
        => context::can_access_peer(out: Out<c_int>, ordinal: c_int, peer: c_int);
    cuCtxSynchronize | cudaDeviceSynchronize => context::synchronize();
    cuCtxGetLimit | cudaDeviceGetLimit => limit::get(out: Out<usize>, limit: c_int);
    cuCtxSetLimit | cudaDeviceSetLimit => limit::set(limit: c_int, value: usize);
}

// Memory.
forward! {
    | cudaMalloc => memory::allocate(out: Out<u64>, size_bytes: usize);
    cuMemFree_v2 | cudaFree => memory::free(addr: u64);
    cuMemGetInfo_v2 | cudaMemGetInfo
        => memory::info(free_bytes: Out<usize>, total_bytes: Out<usize>);
    cuMemAddressFree | => memory::unreserve(addr: u64, size_bytes: usize);
    cuMemRelease | => memory::release(handle: u64);
    cuMemUnmap | => memory::unmap(addr: u64, size_bytes: usize);
    cuPointerGetAttribute
        | => pointer::attribute(out: Out<c_void>, attribute: c_int, addr: u64);
    cuIpcGetMemHandle | cudaIpcGetMemHandle => sharing::get_memory(out: Out<Handle>, addr: u64);
    cuIpcOpenMemHandle_v2 | cudaIpcOpenMemHandle
        => sharing::open_memory(out: Out<u64>, handle: Handle, flags: u32);
    cuIpcCloseMemHandle | cudaIpcCloseMemHandle => sharing::close_memory(addr: u64);
    | cudaHostAlloc cudaMallocHost => host::allocate(out: Out<*mut c_void>, size_bytes: usize);
    | cudaFreeHost => host::free(memory: *mut c_void);
    | cudaHostRegister => host::register(addr: u64, size_bytes: usize);
    | cudaHostUnregister => host::unregister(addr: u64);
    cuMemcpyAsync cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2
        | => copy::copy_async(to: u64, from: u64, size_bytes: usize, stream: u64);
    cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 | cudaMemcpy
        => copy::copy(to: u64, from: u64, size_bytes: usize);
    cuMemsetD8Async | => copy::fill_async(addr: u64, byte: u8, count: usize, stream: u64);
}

// Streams and events.
forward! {
    cuStreamCreate | cudaStreamCreateWithFlags => stream::create_usual(out: Out<u64>, flags: u32);
    cuStreamCreateWithPriority | cudaStreamCreateWithPriority
        => stream::create(out: Out<u64>, flags: u32, priority: c_int);
    cuStreamDestroy_v2 | cudaStreamDestroy => stream::destroy(stream: u64);
    | cudaStreamGetPriority => stream::priority(stream: u64, out: Out<c_int>);
    | cudaStreamGetFlags => stream::flags(stream: u64, out: Out<u32>);
    | cudaStreamGetDevice => stream::device(stream: u64, out: Out<c_int>);
    cuStreamQuery | cudaStreamQuery => stream::query(stream: u64);
    cuStreamSynchronize | cudaStreamSynchronize => stream::synchronize(stream: u64);
    cuStreamWaitEvent | cudaStreamWaitEvent => event::wait(stream: u64, event: u64);
    cuEventCreate | cudaEventCreateWithFlags => event::create(out: Out<u64>, flags: u32);
    cuEventDestroy_v2 | cudaEventDestroy => event::destroy(event: u64);
    cuEventRecord cuEventRecordWithFlags | cudaEventRecord cudaEventRecordWithFlags
        => event::record(event: u64, stream: u64);
    cuEventQuery | cudaEventQuery => event::query(event: u64);
    cuEventSynchronize | cudaEventSynchronize => event::synchronize(event: u64);
    cuEventElapsedTime cuEventElapsedTime_v2 | cudaEventElapsedTime
        => event::elapsed(out: Out<f32>, start: u64, end: u64);
    cuIpcGetEventHandle | cudaIpcGetEventHandle
        => sharing::get_event(out: Out<Handle>, event: u64);
    cuIpcOpenEventHandle | cudaIpcOpenEventHandle
        => sharing::open_event(out: Out<u64>, handle: Handle);
}

// Captures. The runtime's function with edge data is CUDA 13's; the symbol without them is the one of CUDA 12.
forward! {
    cuStreamBeginCapture_v2 | cudaStreamBeginCapture => capture::begin(stream: u64, mode: u32);
    cuStreamEndCapture | cudaStreamEndCapture => capture::end(stream: u64, graph: Out<u64>);
    cuStreamIsCapturing | cudaStreamIsCapturing
        => capture::hand_out_status(stream: u64, out: Out<CaptureStatus>);
    cuStreamGetCaptureInfo_v3 | cudaStreamGetCaptureInfo => capture::info_with_edges(
        stream: u64, status: Out<CaptureStatus>, id: Out<u64>, graph: Out<u64>,
        terminals: Out<*const u64>, edges: Out<*const c_void>, terminal_count: Out<usize>);
    cuStreamGetCaptureInfo_v2 | cudaStreamGetCaptureInfo_v2 => capture::info(
        stream: u64, status: Out<CaptureStatus>, id: Out<u64>, graph: Out<u64>,
        terminals: Out<*const u64>, terminal_count: Out<usize>);
    cuThreadExchangeStreamCaptureMode | cudaThreadExchangeStreamCaptureMode
        => capture::exchange_mode(mode: InOut<u32>);
}

// Graphs.
forward! {
    cuGraphInstantiateWithFlags | cudaGraphInstantiate cudaGraphInstantiateWithFlags
        => graph::instantiate(out: Out<u64>, graph: u64);
    cuGraphDestroy cuGraphExecDestroy | cudaGraphDestroy cudaGraphExecDestroy
        => graph::destroy(graph: u64);
    cuGraphLaunch | cudaGraphLaunch => graph::launch(executable: u64, stream: u64);
    cuGraphGetNodes | cudaGraphGetNodes
        => graph::nodes(graph: u64, out: Out<u64>, count: InOut<usize>);
    cuGraphNodeGetDependencies
        | => graph::dependencies(node: u64, out: Out<u64>, count: InOut<usize>);
    cuGraphNodeGetDependencies_v2 | cudaGraphNodeGetDependencies
        => graph::dependencies_with_edges(
            node: u64, out: Out<u64>, edges: Out<c_void>, count: InOut<usize>);
    | cudaUserObjectCreate => graph::create_object(
        out: Out<u64>, argument: *mut c_void, destructor: Option<graph::Destructor>,
        references: u32);
    | cudaUserObjectRelease => graph::release_object(object: u64, count: u32);
    | cudaGraphRetainUserObject
        => graph::retain_object(graph: u64, object: u64, count: u32, flags: u32);
}

// Code and kernels.
forward! {
    cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleGetFunction
    cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel cuKernelGetFunction
        | cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryGetKernel
        => kernel::load(out: Out<u64>);
    cuOccupancyMaxActiveBlocksPerMultiprocessor
        | cudaOccupancyMaxActiveBlocksPerMultiprocessor
          cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        => kernel::occupancy(
            out: Out<c_int>, function: u64, block_threads: c_int, shared_bytes: usize);
    | cudaLaunchKernel cudaLaunchCooperativeKernel __cudaLaunchKernel => execution::launch_kernel(
        function: u64, grid: Dim3, block: Dim3, arguments: u64, shared_bytes: usize, stream: u64);
}

// Code is never read. The descriptor of a tensor map is for kernels, which do not run.
accepted! {
    cuModuleUnload cuLibraryUnload cuFuncSetAttribute cuFuncSetCacheConfig cuKernelSetAttribute
    cuLinkAddData cuLinkAddData_v2 cuLinkDestroy
    cuTensorMapEncodeTiled cuLogsUnregisterCallback
    cudaFuncSetAttribute cudaKernelSetAttributeForDevice cudaLibraryUnload
    cudaProfilerStart cudaProfilerStop cudaDeviceSetGraphMemAttribute
}
