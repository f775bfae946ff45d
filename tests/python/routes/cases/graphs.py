"""CUDA graphs with their private pools, and what inductor's trees of graphs ask of the allocator."""

from .case import Cases

CASES = Cases()


def captured(torch, pool=None):
    """A graph that keeps one tensor in its pool and gives another back."""
    given = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        passing = given + 1
        kept = passing * 2
        del passing
    return graph, given, kept


@CASES.add("torch.cuda.graph")
def graph(torch):
    graph, *kept = captured(torch)
    graph.replay()
    # A stream's handle is an address of the driver's.
    segments = [{**segment, "stream": segment["stream"] != 0} for segment in torch.cuda.memory_snapshot()]
    return tuple(graph.pool()), segments, torch.cuda.memory_stats(), kept


@CASES.add("torch.cuda.memory_snapshot(graph.pool())")
def snapshot_of_pool(torch):
    graph, *kept = captured(torch)
    segments = torch.cuda.memory_snapshot(graph.pool())
    return [{**segment, "stream": segment["stream"] != 0} for segment in segments], kept


@CASES.add("torch.cuda.graph(pool=...)")
def shared_pool(torch):
    first, *kept = captured(torch)
    second, *more = captured(torch, pool=first.pool())
    return second.pool() == first.pool(), torch.cuda.memory_stats(), kept, more


@CASES.add("torch.cuda.CUDAGraph.reset")
def reset(torch):
    graph, *kept = captured(torch)
    kept.clear()
    graph.reset()
    before = torch.cuda.memory_stats()
    torch.cuda.empty_cache()
    return before, torch.cuda.memory_stats()


@CASES.add("torch.cuda.use_mem_pool in a capture", "_C._CUDAGraph._retain_pool")
def mem_pool_in_capture(torch):
    given = torch.zeros(1000, device="cuda")
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = given + 1
        with torch.cuda.use_mem_pool(pool):
            second = first + 1
    counts = [pool.use_count()]
    pools = [tuple(pool) for pool in graph.pools()]
    graph.reset()
    return counts, pool.use_count(), pools, second


@CASES.add("torch.cuda.make_graphed_callables")
def graphed_callables(torch):
    layer = torch.nn.Linear(32, 32, device="cuda")
    graphed = torch.cuda.make_graphed_callables(layer, (torch.zeros(8, 32, device="cuda"),))
    graphed(torch.zeros(8, 32, device="cuda")).sum().backward()
    return torch.cuda.memory_stats()


@CASES.add("torch._C._cuda_checkPoolLiveAllocations")
def live_allocations(torch):
    graph, _, kept = captured(torch)
    check = torch._C._cuda_checkPoolLiveAllocations
    return check(0, graph.pool(), {kept.untyped_storage().data_ptr()}), check(0, graph.pool(), set())


@CASES.add("torch._C._cuda_getCheckpointState")
def checkpoint(torch):
    graph, _, kept = captured(torch)
    return type(torch._C._cuda_getCheckpointState(0, graph.pool())).__name__, kept


@CASES.add("torch._C._cuda_getCheckpointState(no pool)")
def checkpoint_of_no_pool(torch):
    torch.cuda.init()
    return torch._C._cuda_getCheckpointState(0, (0, 77))


@CASES.add("torch._C._cuda_setCheckpointPoolState")
def restore(torch):
    graph, _, kept = captured(torch)
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    del kept
    freed = torch.cuda.memory_allocated()
    torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    return freed, torch.cuda.memory_allocated(), torch.cuda.memory_stats()
