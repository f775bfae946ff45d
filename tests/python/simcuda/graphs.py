"""CUDA graphs: capture, replay, pools, forked streams, and what a capture forbids."""

import common

common.load()

import gc
import os
import traceback

import torch

x = torch.empty(64, 256, device="cuda")
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
warm = torch.cuda.Stream()
warm.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(warm):
    for _ in range(3):
        model(x).sum().backward()
torch.cuda.current_stream().wait_stream(warm)

graphs = []
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=graphs[0][0].pool() if graphs else None):
        assert torch.cuda.is_current_stream_capturing()
        y = model(x)
        y.sum().backward()
    assert not torch.cuda.is_current_stream_capturing()
    graphs.append((graph, y))
for graph, _ in graphs:
    graph.replay()
torch.cuda.synchronize()
private = [segment for segment in torch.cuda.memory_snapshot() if segment["segment_pool_id"] != (0, 0)]
assert private and len({segment["segment_pool_id"] for segment in private}) == 1, "one pool, shared"
common.check_accounts()

side = torch.cuda.Stream()
forked = torch.cuda.CUDAGraph()
with torch.cuda.graph(forked):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = x * 2
        assert torch.cuda.is_current_stream_capturing(), "a fork takes part in the capture"
    torch.cuda.current_stream().wait_stream(side)
    z += 1
forked.replay()

if torch.__version__ >= "2.10":  # PyTorch walks the graph from the streams' terminals.
    torch._C._accelerator_setAllocatorSettings("graph_capture_record_stream_reuse:True")
    reusing, main = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(reusing, stream=main):
        used = torch.empty(8, device="cuda")
        address = used.data_ptr()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            used.add_(1)
            used.record_stream(side)
        del used
        before = torch.empty(8, device="cuda")
        main.wait_stream(side)
        before.fill_(1)
        after = torch.empty(8, device="cuda")
        assert before.data_ptr() != address == after.data_ptr(), "a block is used again once its other stream joined"
    torch._C._accelerator_setAllocatorSettings("graph_capture_record_stream_reuse:False")
    del reusing, before, after


IS_OLD = torch.__version__ < "2.8"
IS_EXPANDABLE = "expandable" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
pool = inside = None
if not (IS_OLD and IS_EXPANDABLE):  # "torch.cuda.MemPool doesn't currently support expandable_segments."
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(common.MIB, device="cuda")
    assert any(segment["segment_pool_id"] == pool.id for segment in torch.cuda.memory_snapshot())
del inside, pool

del graphs, graph, _, forked, y, z, private, model, x
gc.collect()
common.release_everything()
assert common.used_bytes() == 0, common.used_bytes()


# Last, because torch does not end a pool's scope whose capture failed.
def fails(sentence, body):
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            x + 1
            body()
    except RuntimeError:
        assert sentence in traceback.format_exc(), traceback.format_exc()
        torch.cuda.synchronize()
        return
    raise AssertionError(f"{sentence!r} was expected")


x = torch.empty(64, 256, device="cuda")


def unjoined():
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x + 1


fails("not permitted when stream is capturing", torch.cuda.synchronize)
if not IS_OLD:  # Which cannot begin another capture after that.
    fails("unjoined", unjoined)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x + 1
