"""Pools of their own: MemPool, what lives in it while others allocate, and its end."""

import torch


def run(simulated):
    if not hasattr(torch.cuda, "MemPool"):
        return {"skipped": "this torch has no MemPool"}
    elements = 1 << (16 if simulated else 24)
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.full((elements,), float(number), device="cuda") for number in range(8)]
    outside = [torch.full((elements,), -1.0, device="cuda") for _ in range(8)]
    segments = torch.cuda.memory_snapshot()
    of_pool = [segment for segment in segments if tuple(segment["segment_pool_id"]) == tuple(pool.id)]
    ranges = [(segment["address"], segment["address"] + segment["total_size"]) for segment in of_pool]
    for tensors, expected in ((inside, True), (outside, False)):
        for tensor in tensors:
            is_inside = any(begin <= tensor.data_ptr() < end for begin, end in ranges)
            assert is_inside == expected, f"a tensor made {'in' if expected else 'out'}side of the pool is not there"
    del outside[::2]
    torch.cuda.empty_cache()
    if not simulated:
        assert all(bool((tensor == number).all()) for number, tensor in enumerate(inside)), "a tensor was overwritten"
    reserved_bytes = torch.cuda.memory_reserved()
    del inside, tensor, tensors, outside, pool
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved_bytes, "the pool's memory did not come back"
    return {"segments": len(of_pool)}
