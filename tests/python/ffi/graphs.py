"""A graph capture has a pool of its own, shared where asked, and its memory is returned with the last graph."""

import gc

from _start import Training, no_errors, segments, torch


def private(pool):
    return [segment for segment in segments() if segment["segment_pool_id"] == list(pool)]


training = Training()
static = torch.randn(64, 256, device="cuda")
other = torch.cuda.Stream()
capture = torch.cuda.Stream()
capture.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(capture):
    training.model(static)  # cuBLAS keeps a workspace for each stream; it shall not lie in the graph's pool.
torch.cuda.current_stream().wait_stream(capture)

first = torch.cuda.CUDAGraph()
with torch.cuda.graph(first, stream=capture):
    inner = training.model(static)
    used = torch.empty(3_000_000, device="cuda")
    used.record_stream(other)
    inner_address = used.data_ptr()
    del used  # Free within the graph; others must not have it.
    output = inner * 2
pool = first.pool()
assert private(pool), "the capture had no pool of its own"
own = [range(segment["address"], segment["address"] + segment["total_size"]) for segment in private(pool)]
assert any(output.data_ptr() in part for part in own) and any(inner_address in part for part in own)
outside = [torch.empty(3_000_000, device="cuda") for _ in range(20)]
assert not any(tensor.data_ptr() in part for tensor in outside for part in own), "a graph's memory was handed out"

second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second, pool=pool, stream=capture):
    shared = training.model(static)
first.replay()
second.replay()
training.step()

del first, inner, output
gc.collect()
torch.cuda.empty_cache()
assert private(pool), "the second graph still needs the pool"
del second, shared
gc.collect()
torch.cuda.empty_cache()
assert not private(pool), "memory of an unused pool was kept"
no_errors()
