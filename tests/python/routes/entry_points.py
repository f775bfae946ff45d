"""Every entry point of torch's C module with an accelerator's name: which of the table's rows calls it, or why none.

A torch with one that is not here fails the test: add it, with its relation to memory.
"""

import re

# Entry points that a row of the table calls, and the row; those that more rows call are under the plainest.
CALLED = {
    "_MemPool.__init__": "torch.cuda.MemPool",
    "_MemPool.id": "torch.cuda.MemPool",
    "_MemPool.use_count": "torch.cuda.MemPool",
    "_MemPool.allocator": "torch.cuda.MemPool(allocator=5)",
    "_MemPool.device": "torch.cuda.MemPool",
    "_CUDAGraph.capture_begin": "torch.cuda.graph",
    "_CUDAGraph.capture_end": "torch.cuda.graph",
    "_CUDAGraph.capture_end_pre": "torch.cuda.graph",
    "_CUDAGraph.capture_end_post": "torch.cuda.graph",
    "_CUDAGraph.instantiate": "torch.cuda.graph",
    "_CUDAGraph.replay": "torch.cuda.graph",
    "_CUDAGraph.reset": "torch.cuda.CUDAGraph.reset",
    "_CUDAGraph.pool": "torch.cuda.graph(pool=...)",
    "_CUDAGraph.pools": "torch.cuda.use_mem_pool in a capture",
    "_CUDAGraph._retain_pool": "torch.cuda.use_mem_pool in a capture",
    "_CUDAGraph.get_currently_capturing_graph": "torch.cuda.use_mem_pool in a capture",
    "_accelerator_emptyCache": "torch.accelerator.empty_cache",
    "_accelerator_getAllocatorSettings": "torch._C._accelerator_getAllocatorSettings",
    "_accelerator_getDeviceStats": "torch.accelerator.memory_stats",
    "_accelerator_getMemoryInfo": "torch.accelerator.get_memory_info",
    "_accelerator_isAllocatorInitialized": "torch.accelerator.memory_stats",
    "_accelerator_resetAccumulatedStats": "torch.accelerator.reset_accumulated_memory_stats",
    "_accelerator_resetPeakStats": "torch.accelerator.reset_peak_memory_stats",
    "_accelerator_setAllocatorSettings": "torch._C._accelerator_setAllocatorSettings('')",
    "_cuda_allocationTraceback": "torch.cuda.memory._allocation_traceback",
    "_cuda_annotateMemory": "torch.cuda.memory._annotate_tensor",
    "_cuda_attach_out_of_memory_observer": "torch._C._cuda_attach_out_of_memory_observer",
    "_cuda_beginAllocateCurrentThreadToPool": "torch.cuda.MemPool",
    "_cuda_changeCurrentAllocator": "torch.cuda.get_allocator_backend",
    "_cuda_checkPoolLiveAllocations": "torch._C._cuda_checkPoolLiveAllocations",
    "_cuda_cudaCachingAllocator_enable": "torch.cuda.caching_allocator_enable(False)",
    "_cuda_cudaCachingAllocator_is_enabled": "torch.cuda.caching_allocator_disabled",
    "_cuda_cudaCachingAllocator_raw_alloc": "torch.cuda.caching_allocator_alloc",
    "_cuda_cudaCachingAllocator_raw_delete": "torch.cuda.caching_allocator_alloc",
    "_cuda_cudaCachingAllocator_set_allocator_settings": "torch.cuda.memory._set_allocator_settings",
    "_cuda_customAllocator": "torch.cuda.get_allocator_backend",
    "_cuda_emptyCache": "torch.cuda.empty_cache",
    "_cuda_endAllocateCurrentStreamToPool": "torch.cuda.MemPool",
    "_cuda_endAllocateToPool": "torch.cuda.MemPool",
    "_cuda_getAllocatorBackend": "torch.cuda.get_allocator_backend",
    "_cuda_getCheckpointState": "torch._C._cuda_getCheckpointState",
    "_cuda_getMemoryFraction": "torch.cuda.get_per_process_memory_fraction",
    "_cuda_getMemoryMetadata": "torch.cuda.memory._set_memory_metadata",
    "_cuda_ipc_collect": "torch.cuda.ipc_collect",
    "_cuda_isHistoryEnabled": "torch._C._cuda_isHistoryEnabled",
    "_cuda_memoryMetadataSupported": "torch.cuda.memory._memory_metadata_supported",
    "_cuda_memorySnapshot": "torch.cuda.memory._snapshot",
    "_cuda_memoryStats": "torch.cuda.memory_stats",
    "_cuda_record_memory_history": "torch.cuda.memory._record_memory_history()",
    "_cuda_record_memory_history_legacy": "torch.cuda.memory._record_memory_history(True)",
    "_cuda_releasePool": "torch.cuda.MemPool",
    "_cuda_resetAccumulatedMemoryStats": "torch.cuda.reset_accumulated_memory_stats",
    "_cuda_resetPeakMemoryStats": "torch.cuda.reset_peak_memory_stats",
    "_cuda_setCheckpointPoolState": "torch._C._cuda_setCheckpointPoolState",
    "_cuda_setMemoryFraction": "torch.cuda.set_per_process_memory_fraction",
    "_cuda_setMemoryMetadata": "torch.cuda.memory._set_memory_metadata",
}

# Others, with the reason why no route can make a difference there.
OTHERS = {
    "like one that is called, for a filter by stream or for all streams": (
        r"_cuda_beginAllocate(CurrentStream)?ToPool",
    ),
    "names the allocator's own object": ("_cuda_getAllocator", r"_cuda_CUDAAllocator\w*"),
    "pinned host memory, which stays PyTorch's own": (
        r"_cuda_\w*[hH]ost(Allocator|Memory)\w*",
        "_accelerator_emptyHostCache",
    ),
    "devices and streams": (
        r"_(cuda|accelerator)_(get|set|exchange|maybeExchange|can)(Device\w*|\w*Stream\w*|Peer\w*|Accelerator)",
        r"_accelerator_(hooks_\w+|synchronizeDevice|maybeExchangeDevice|exchangeDevice)",
        r"_accelerator_(getDefaultGenerator|deviceCount)",
        r"_cuda_(synchronize|sleep|init|isInBadFork|hasPrimaryContext|isCurrentStreamCapturing|canDeviceAccessPeer)",
        r"_cuda_(getCompiledVersion|getArchFlags|[gs]et_sync_debug_mode|(un)?lock_mutex|busy_wait\w*)",
    ),
    "libraries, whose workspaces are tensors": (
        r"_cuda_(tunableop|record_untuned)_\w+",
        r"_cuda_(get|set|reset|clear)(Cublas\w+|CurrentBlasHandle|CurrentSolverHandle|HipblasltVersion)",
        r"_cuda_[gs]et_(cudnn_benchmark_limit|conv_benchmark_empty_cache)",
        r"_cuda_(getCurrentBlasHandle|getCurrentSolverHandle|getHipblasltVersion|jiterator_compile_and_launch_kernel)",
    ),
    "a graph's nodes, not its memory": (
        r"_CUDAGraph\.(debug_dump|enable_debug_mode|raw_cuda_graph\w*|register_generator_state|_has_graph_exec)",
        r"_CUDAGraph\.(begin_capture_to_\w+|end_capture_to_\w+|set_conditional_handle_for_current_node)",
    ),
}


def unknown(names, rows):
    """Entry points that are not classified here, and those whose row does not exist."""
    patterns = [re.compile(pattern) for group in OTHERS.values() for pattern in group]
    known = [name for name in names if name in CALLED or any(one.fullmatch(name) for one in patterns)]
    lost = [name for name in names if name in CALLED and CALLED[name] not in rows]
    return sorted({*names} - {*known}), lost
