"""Snapshots, without a history and with one."""

import os
import pickle
import tempfile

from .case import MIB, Cases, tensor, work

CASES = Cases()
POOL_ARGUMENT = "_C._cuda_beginAllocateCurrentThreadToPool"  # Both came after 2.7.


@CASES.add("torch.cuda.memory_snapshot")
def memory_snapshot(torch):
    kept = work(torch)
    return torch.cuda.memory_snapshot(), kept


@CASES.add("torch.cuda.memory._snapshot")
def snapshot(torch):
    kept = work(torch)
    return torch.cuda.memory._snapshot(), kept


@CASES.add("torch.cuda.memory._snapshot before use")
def snapshot_of_nothing(torch):
    torch.cuda.init()
    return torch.cuda.memory._snapshot()


@CASES.add("torch.cuda.memory._snapshot of expandable segments", "_C._accelerator_setAllocatorSettings")
def snapshot_of_expandable(torch):
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    torch.cuda.memory._record_memory_history(stacks="python")
    kept = work(torch)
    torch.cuda.empty_cache()
    return torch.cuda.memory._snapshot(), torch.cuda.memory_stats(), kept


@CASES.add("torch.cuda.memory._dump_snapshot")
def dump_snapshot(torch):
    torch.cuda.memory._record_memory_history(stacks="python")
    kept = work(torch)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump.pickle")
        answer = torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as dump:
            return answer, pickle.load(dump), kept


@CASES.add("torch.cuda.memory_snapshot(include_traces=False)", POOL_ARGUMENT)
def without_traces(torch):
    torch.cuda.memory._record_memory_history(stacks="python")
    kept = work(torch)
    return torch._C._cuda_memorySnapshot((0, 0, False)), kept


for label, arguments in {"a list": [0, 0], "one number": (0,), "no integers": (0.5, 1)}.items():

    @CASES.add(f"torch._C._cuda_memorySnapshot({label})", POOL_ARGUMENT)
    def wrong_arguments(torch, arguments=arguments):
        torch.cuda.init()
        return torch._C._cuda_memorySnapshot(arguments)


@CASES.add("torch.cuda.memory._snapshot of two streams")
def two_streams(torch):
    side = torch.cuda.Stream()
    torch.cuda.memory._record_memory_history(stacks="python")
    here = tensor(torch, 3 * MIB)
    with torch.cuda.stream(side):
        there = tensor(torch, 5 * MIB)
    here.record_stream(side)
    del here
    snapshot = torch.cuda.memory._snapshot()
    handles = {0: "default", side.cuda_stream: "side"}
    for part in (*snapshot["segments"], *snapshot["device_traces"][0]):
        part["stream"] = handles[part["stream"]]
    return snapshot, there
