"""A first allocation inside a capture has the capture's pool, or is refused: it is never used again behind its back.

PyTorch 2.11 allocates on its own before it announces the capture, so the hooks are set in time; 2.15 does not.
"""

from _start import segments, torch

torch.cuda.init()
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
tensor, refusal = None, ""
with torch.cuda.stream(stream):
    graph.capture_begin()
    for _ in range(2):  # The second is no better.
        try:
            tensor = torch.empty(1000, device="cuda")
        except RuntimeError as error:
            refusal = str(error)
    graph.capture_end()
if tensor is None:
    assert "inside a graph capture" in refusal, refusal
    # Said once and understood: from now on PyTorch's hooks are ours.
    torch.empty(1000, device="cuda")
else:
    (pool,) = [
        tuple(segment["segment_pool_id"])
        for segment in segments()
        if 0 <= tensor.data_ptr() - segment["address"] < segment["total_size"]
    ]
    assert pool == graph.pool(), (pool, graph.pool())
