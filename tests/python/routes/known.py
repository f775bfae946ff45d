"""Where a route cannot be as PyTorch's own allocator is, and what it does instead: the table shows these words.

By route and row. Where an error is raised, the table has it from the run itself, before these words. An entry whose
row has become equal fails the test.
"""

NEEDS_BRIDGE = "needs the bridge"

PLUGGABLE = {
    "torch.cuda.get_allocator_backend": "returns `'pluggable'`, PyTorch's name for such an allocator",
    "torch.cuda.memory._record_memory_history(record_pinned_host_memory=True)": (
        "records device memory only; `host_segments` and `host_traces` are empty"
    ),
    "torch._C._cuda_attach_out_of_memory_observer(one that raises)": (
        "the observer's exception is printed, and `torch.OutOfMemoryError` is raised"
    ),
    "torch._C._cuda_checkPoolLiveAllocations": NEEDS_BRIDGE,
    "torch._C._cuda_getCheckpointState": NEEDS_BRIDGE,
    "torch._C._cuda_setCheckpointPoolState": NEEDS_BRIDGE,
    "torch.UntypedStorage._share_cuda_": NEEDS_BRIDGE,
}

BRIDGE: dict = {}

TAKES_A_SNAPSHOT = "the history's first entry is the snapshot that the observer takes when CUDA starts"
OBSERVE = {
    "torch.cuda.memory._snapshot of expandable segments": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._dump_snapshot": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._snapshot of two streams": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history()": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history(context=None)": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history(context='state')": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history(context='alloc')": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history(skip_actions=...)": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history(True)": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._set_memory_metadata": TAKES_A_SNAPSHOT,
    "torch.cuda.MemPool in the history": TAKES_A_SNAPSHOT,
    "torch.cuda.memory._record_memory_history(clear_history=True)": (
        "the stack of `empty_cache` has a frame of the observer"
    ),
}

KNOWN = {"pluggable": PLUGGABLE, "bridge": BRIDGE, "observe": OBSERVE}

# Since 2.11. Before, PyTorch records no ranges either.
NEWER = {
    "torch.cuda.memory._record_memory_history(global_record_annotations=True)": "`external_annotations` is empty",
}

INNER_POOL = "the inner pool is used, as in PyTorch since 2.10; PyTorch 2.7 uses the outer one"

# Differences under one version of PyTorch only.
KNOWN_UNDER = {
    ("2.7", "pluggable"): {
        "torch.cuda.use_mem_pool, nested": INNER_POOL,
    },
    ("2.7", "bridge"): {
        "torch.cuda.use_mem_pool, nested": INNER_POOL,
    },
    ("2.7", "observe"): {  # As PyTorch's there.
        "torch.cuda.memory._record_memory_history(skip_actions=...)": None,
        "torch.cuda.memory._record_memory_history(clear_history=True)": None,
    },
    ("2.11", "pluggable"): NEWER,
    ("2.15", "pluggable"): NEWER,
    ("2.15", "observe"): {"torch.cuda.memory._annotate_tensor": TAKES_A_SNAPSHOT},
}
