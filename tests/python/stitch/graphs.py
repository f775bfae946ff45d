"""Captures graphs beside a growing default pool, opens a MemPool, and runs out of memory; the pools stay apart."""

import torch

x = torch.zeros(1 << 21, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        (x * 2 + 1).relu()
torch.cuda.synchronize()
graphs, results = [], []
for size in (1, 2, 3):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results.append((x[: size << 19] * 2 + 1).relu())
    graphs.append(graph)
    torch.empty(size * 30 << 20, dtype=torch.uint8, device="cuda")
for graph in graphs:
    graph.replay()

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    inside = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
segments = torch.cuda.memory_snapshot()
plain = [segment for segment in segments if not segment["is_expandable"]]
assert plain and all(segment["segment_pool_id"] != (0, 0) for segment in plain), "private pools have segments"
runs = [segment for segment in segments if segment["is_expandable"]]
assert runs and all(segment["segment_pool_id"] == (0, 0) for segment in runs), "the default pool has runs"

held = []
try:
    while True:
        held.append(torch.empty(13 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    assert "Tried to allocate" in str(error) and "private pools" in str(error), error
free = torch.cuda.mem_get_info()[0]
assert free < 14 << 20, f"{free} bytes are left"
del held[::2]
# Every second block is free: only pages apart from addresses serve a request of several times their size.
wide = torch.empty(13 * (len(held) - 2) << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_stats()["num_ooms"] == 1
