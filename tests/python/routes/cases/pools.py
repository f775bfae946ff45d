"""torch.cuda.MemPool and use_mem_pool."""

import ctypes
import gc

from .case import MIB, Cases, tensor, work

CASES = Cases()
AFTER_2_7 = "_C._cuda_beginAllocateCurrentThreadToPool"


@CASES.add("torch.cuda.MemPool")
def pool(torch):
    pool = torch.cuda.MemPool()
    counts = [pool.use_count()]
    with torch.cuda.use_mem_pool(pool):
        inside = tensor(torch, 3 * MIB)
        counts.append(pool.use_count())
    counts.append(pool.use_count())
    outside = tensor(torch, 3 * MIB)
    ids = pool.id, torch.cuda.MemPool().id
    return ids, counts, torch.cuda.memory_snapshot(), torch.cuda.memory_stats(), inside, outside


@CASES.add("torch.cuda.MemPool.snapshot")
def snapshot(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = work(torch)
    outside = work(torch)
    return pool.snapshot(), inside, outside


@CASES.add("torch.cuda.MemPool in the history")
def history(torch):
    torch.cuda.memory._record_memory_history(stacks="python")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = tensor(torch, 3 * MIB)
    del inside
    pool.snapshot()
    return torch.cuda.memory._snapshot()


@CASES.add("torch.cuda.MemPool, its end")
def end(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = tensor(torch, 3 * MIB)
    del pool
    gc.collect()
    while_used = torch.cuda.memory_stats()
    del inside
    torch.cuda.empty_cache()
    return while_used, torch.cuda.memory_stats()


@CASES.add("torch.cuda.MemPool, its end without allocations")
def end_of_empty(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor(torch, 3 * MIB)
    before = torch.cuda.memory_reserved()
    del pool
    gc.collect()
    return before, torch.cuda.memory_reserved()


@CASES.add("torch.cuda.MemPool(use_on_oom=True)", AFTER_2_7)
def use_on_oom(torch):
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        lent = tensor(torch, 600 * MIB)
    del lent
    torch.cuda.set_per_process_memory_fraction(1 / 128)  # 640 MiB of 80 GiB
    kept = tensor(torch, 500 * MIB)
    return torch.cuda.memory_snapshot(), torch.cuda.memory_stats(), kept


@CASES.add("torch.cuda.MemPool(no_split=True)", AFTER_2_7)
def no_split(torch):
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        inside = [tensor(torch, 3 * MIB), tensor(torch, 100)]
    return pool.snapshot(), inside


@CASES.add("torch.cuda.MemPool(allocator=...)", AFTER_2_7)  # There native PyTorch dies of it.
def own_allocator(torch):
    """Its own memory is another pool's: host memory, which nothing here looks into."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    calls = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    def allocate(size, device, _stream):
        calls.append(("allocate", size, device))
        return libc.malloc(size)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    def free(ptr, size, device, _stream):
        calls.append(("free", size, device))
        libc.free(ptr)

    functions = [ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, free)]
    pool = torch.cuda.MemPool(torch._C._cuda_customAllocator(*functions))
    with torch.cuda.use_mem_pool(pool):
        inside = [tensor(torch, 3 * MIB), tensor(torch, 40 * MIB)]
    reserved = torch.cuda.memory_reserved()
    del inside, pool
    gc.collect()
    torch.cuda.empty_cache()
    return calls, reserved, torch.cuda.memory_reserved()


@CASES.add("torch.cuda.MemPool(allocator=5)")
def no_allocator(torch):
    torch.cuda.init()
    return torch.cuda.MemPool(5)


@CASES.add("torch.cuda.use_mem_pool, nested")
def nested(torch):
    one, other = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(one):
        first = tensor(torch, 100)
        with torch.cuda.use_mem_pool(other):
            second = tensor(torch, 200)
        third = tensor(torch, 300)
    pools = [segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()]
    return pools, torch.cuda.memory_stats(), first, second, third


@CASES.add("torch.cuda.use_mem_pool twice at once", AFTER_2_7)  # As above.
def twice(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool), torch.cuda.use_mem_pool(pool):
        pass


@CASES.add("torch._C._cuda_endAllocateToPool(not open)")
def end_unopened(torch):
    torch.cuda.init()
    return torch._C._cuda_endAllocateToPool(0, (0, 77))


@CASES.add("torch.cuda.graph_pool_handle")
def handle(torch):
    torch.cuda.init()
    return torch.cuda.graph_pool_handle()
