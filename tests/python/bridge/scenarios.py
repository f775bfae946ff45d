"""Runs scenarios under PyTorch's own allocator or under a route of vramtape, and prints PyTorch's results as JSON."""

import gc
import json
import sys

import limits
from begin import HAS_POOLS, MIB, churn, empty, numbers, segments, torch, traces


def statistics(tell):
    tell["before"] = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), len(torch.cuda.memory_stats())]
    held = churn()
    tell["churned"] = numbers()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    tell["reset"] = numbers()
    del held
    torch.cuda.empty_cache()
    tell["emptied"] = numbers()
    tell["summary"] = torch.cuda.memory_summary()
    if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "memory_stats"):
        tell["accelerator"] = dict(torch.accelerator.memory_stats())
        torch.accelerator.empty_cache()
        torch.accelerator.reset_peak_memory_stats()
    tell["mem_get_info"] = torch.cuda.mem_get_info()


def snapshot(tell, *_):
    held = churn()
    tell["segments"] = segments()
    whole = torch.cuda.memory._snapshot()
    tell["keys"] = sorted(whole)
    tell["settings"] = sorted((key, str(value)) for key, value in whole["allocator_settings"].items())
    del held
    torch.cuda.empty_cache()
    tell["emptied"] = segments()


def history(tell, context="all"):
    record = torch.cuda.memory._record_memory_history
    before = empty(3000)
    tell["before"] = torch._C._cuda_isHistoryEnabled()
    record(context=context, stacks="python", max_entries=100)
    tell["recording"] = torch._C._cuda_isHistoryEnabled()
    held = churn()
    del before, held[0]
    torch.cuda.empty_cache()
    whole = torch.cuda.memory._snapshot()
    tell["traces"], tell["segments"] = traces(whole), segments(whole["segments"])
    record(enabled=None)
    record(context=context, stacks="python", max_entries=5)
    held += churn()
    tell["five"] = traces(torch.cuda.memory._snapshot())
    record(enabled=None)
    tell["after"] = [torch._C._cuda_isHistoryEnabled(), traces(torch.cuda.memory._snapshot())]
    record(context=context, stacks="python")
    held.pop()
    tell["again"] = traces(torch.cuda.memory._snapshot())


def stacks_of_segments(tell):
    """PyTorch forgets a segment's stack when the segment is cut, and keeps it while one block is all of it."""
    record = torch.cuda.memory._record_memory_history
    record(context="all", stacks="python")
    whole, cut = empty(40 * MIB), empty(3 * MIB)
    tell["held"] = segments()
    del whole, cut
    tell["freed"] = segments()
    cut = empty(25 * MIB)
    tell["cut later"] = segments()
    del cut
    record(context="state", stacks="python", clear_history=True) if HAS_POOLS else record(context="state")
    torch.cuda.empty_cache()
    small = empty(1000)
    tell["anew"] = segments()
    del small
    torch.cuda.empty_cache()
    tell["traces"] = traces(torch.cuda.memory._snapshot())
    record(enabled=None)


def pools(tell):
    if not HAS_POOLS:
        return
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = empty(3 * MIB)
        small = empty(1000)
    outside = empty(3 * MIB)
    tell["users"] = [pool.use_count()]
    tell["segments"] = segments()
    tell["of the pool"] = segments(pool.snapshot())
    del inside
    with torch.cuda.use_mem_pool(pool):
        tell["users"].append(pool.use_count())
        again = empty(2 * MIB)
    tell["numbers"] = numbers()
    del again, small
    torch.cuda.empty_cache()
    tell["held"] = segments()
    del pool
    gc.collect()
    tell["gone"] = segments()
    del outside


def pool_with_allocator(tell):
    """A MemPool whose segments come from another allocator: the driver's own functions, in C."""
    other = torch.cuda.memory.CUDAPluggableAllocator(source_library(), "take", "give").allocator()
    pool = torch.cuda.MemPool(other)
    with torch.cuda.use_mem_pool(pool):
        inside = [empty(3 * MIB), empty(1000)]
    tell["segments"] = segments()
    tell["numbers"] = numbers()
    del inside, pool
    gc.collect()
    tell["gone"] = segments()
    tell["emptied"] = numbers()


def source_library():
    """A library with the two functions of a pluggable allocator, over cudaMalloc and cudaFree."""
    import subprocess
    import tempfile

    code = """
    #include <stddef.h>
    int cudaMalloc(void** ptr, size_t size);
    int cudaFree(void* ptr);
    void* take(ptrdiff_t size, int device, void* stream) { void* p = NULL; return cudaMalloc(&p, size) ? NULL : p; }
    void give(void* ptr, ptrdiff_t size, int device, void* stream) { cudaFree(ptr); }
    """
    folder = tempfile.mkdtemp()
    compile = ["cc", "-shared", "-fPIC", "-xc", "-", "-o", f"{folder}/source.so"]
    subprocess.run(compile, input=code, text=True, check=True)
    return f"{folder}/source.so"


def graphs(tell):
    static = empty(4 * MIB)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inner = static + 1
        del inner
        out = static + 2
    tell["captured"] = numbers()
    tell["segments"] = segments()
    graph.replay()
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        out2 = out + 1
    tell["shared"] = segments()
    del out, out2
    graph.reset()
    second.reset()
    torch.cuda.empty_cache()
    tell["reset"] = segments()


def checkpoint(tell, *_):
    """The way of inductor's trees of graphs: a recording, its state, another one, and back."""
    device = torch.cuda.current_device()
    static = empty(4 * MIB)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        live = [static + 1, empty(1000) + 1]
        scratch = static + 2
        del scratch
    pool = graph.pool()
    state = torch._C._cuda_getCheckpointState(device, pool)
    tell["at the checkpoint"] = segments()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), pool=pool):
        more = [static + 3, empty(3000) + 1]
    pointers = {tensor.data_ptr() for tensor in live + more}
    tell["more"] = segments()
    addresses = [tensor.data_ptr() for tensor in live]
    again = torch._C._construct_storage_from_data_pointer(addresses[1], static.device, 1000)
    live.pop(), more.clear()
    tell["freed"] = segments()
    # The first is freed and made again under its tensor; the second gets a deleter with a storage that had none, as the
    # outputs of a replay have.
    torch._C._cuda_setCheckpointPoolState(device, state, [], [again._cdata])
    tell["is live"] = torch._C._cuda_checkPoolLiveAllocations(device, pool, set(addresses))
    tell["is more"] = torch._C._cuda_checkPoolLiveAllocations(device, pool, pointers)
    tell["back"] = segments()
    tell["numbers"] = numbers()
    tell["has deleter"] = torch._C._has_Standard_Deleter(again._cdata)
    del again, live
    tell["numbers without"] = numbers()


def live_allocations(tell):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = empty(1000) + 1
    check = torch._C._cuda_checkPoolLiveAllocations
    tell["live"] = check(0, graph.pool(), {out.data_ptr()})
    tell["other"] = check(0, graph.pool(), {out.data_ptr(), 4096})
    tell["none"] = check(0, graph.pool(), set())


def settings(tell):
    """Settings at run time reach us by PyTorch's own way, and what PyTorch refuses is refused as it was."""
    change = torch.cuda.memory._set_allocator_settings
    held = [empty(30 * MIB)]
    change("max_split_size_mb:25")
    del held[:]
    held = [empty(26 * MIB), empty(4 * MIB)]
    tell["split"] = segments()
    change("expandable_segments:True")
    held += [empty(24 * MIB)]
    tell["expandable"] = segments()
    change("expandable_segments:False,roundup_power2_divisions:4")
    held += [empty(1200 * 1024)]
    tell["rounded"] = numbers()["allocated_bytes.all.current"]
    for wrong in ("max_split_size_mb:3", "foo:bar", "expandable_segments:maybe"):
        try:
            change(wrong)
            tell[wrong] = "taken"
        except (ValueError, RuntimeError, IndexError) as error:
            tell[wrong] = type(error).__name__


def streams(tell):
    side = torch.cuda.Stream()
    tensor = empty(4 * MIB)
    tensor.record_stream(side)
    del tensor
    tell["waits"] = segments()
    others = [empty(4 * MIB), empty(4 * MIB)]
    tell["taken"] = segments()
    with torch.cuda.stream(side):
        mine = empty(4 * MIB)
    tell["numbers"] = numbers()
    torch.cuda.synchronize()
    others += [empty(1 * MIB) for _ in range(4)]
    tell["later"] = [[block[1:4] for block in segment[2]] for segment in segments()]
    del mine


def uncached(tell, *env):
    enable = getattr(torch.cuda, "caching_allocator_enable", None) or torch.cuda.memory.caching_allocator_enable
    before = empty(5000)
    if not env:
        enable(False)
    inside = empty(5000)
    tell["numbers"] = numbers()
    del before, inside
    tell["after"] = numbers()
    if not env:
        enable(True)
    raw = torch.cuda.caching_allocator_alloc(3000)
    tell["raw"] = numbers()
    torch.cuda.caching_allocator_delete(raw)
    tell["given back"] = numbers()


def annotations(tell):
    record = torch.cuda.memory._record_memory_history
    options = {"global_record_annotations": True} if hasattr(torch._C, "_cuda_getMemoryMetadata") else {}
    record(stacks="python", **options)
    with torch.profiler.record_function("the step"):
        first = empty(1000)
    if hasattr(torch.cuda.memory, "_set_memory_metadata"):
        torch.cuda.memory._set_memory_metadata("weights")
        second = empty(2000)
        tell["metadata"] = torch.cuda.memory._get_memory_metadata()
        torch.cuda.memory._set_memory_metadata("")
        del second
    whole = torch.cuda.memory._snapshot()
    tell["traces"] = traces(whole)
    found = whole["external_annotations"]
    tell["annotations"] = [{key: value for key, value in entry.items() if key != "time_us"} for entry in found]
    del first


def annotated(tell):
    """A later annotation of an allocation has the allocation's own device, stream and pool in the history."""
    if not hasattr(torch.cuda.memory, "_annotate_tensor"):
        return
    note = torch.cuda.memory._annotate_tensor
    for context in ("all", "state"):
        torch.cuda.memory._record_memory_history(context=context, stacks="python")
        pool, side = torch.cuda.MemPool(), torch.cuda.Stream()
        with torch.cuda.stream(side), torch.cuda.use_mem_pool(pool):
            inside = empty(1000)
        elsewhere = torch.empty(1000, device="cuda:1")
        torch.cuda.memory._set_memory_metadata("weights")
        note(inside, "mine")
        note(elsewhere, "the other device's")
        torch.cuda.memory._set_memory_metadata("")
        pool.snapshot()
        tell[context] = traces(torch.cuda.memory._snapshot())
        torch.cuda.memory._record_memory_history(enabled=None)
        del inside, elsewhere, pool
    try:
        torch._C._cuda_annotateMemory(5, "nothing's")
    except RuntimeError as error:
        tell["error"] = str(error).splitlines()[0]


def profiler(tell):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        held = [empty(1000), empty(3 * MIB)]
        del held[0]
    events = [(event.name, event.self_device_memory_usage) for event in profile.events()]
    tell["memory"] = [[name, bytes] for name, bytes in events if bytes]


def two_devices(tell):
    held = [torch.empty(1000 * (at + 1), device=f"cuda:{at}") for at in (0, 1)]
    tell["numbers"] = [dict(torch.cuda.memory_stats(at)) for at in (0, 1)]
    torch.cuda.set_device(1)
    del held[0]  # The other device's, freed under this one.
    tell["freed"] = [torch.cuda.memory_allocated(at) for at in (0, 1)]
    tell["segments"] = [segment[1:] for segment in segments()]
    torch.cuda.empty_cache()
    tell["emptied"] = [torch.cuda.memory_reserved(at) for at in (0, 1)]


def peers(tell):
    """Access of each device's kernels to the other's memory, after copies in both directions."""
    import ctypes

    class Location(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int)]

    driver = ctypes.CDLL("libcuda.so.1")

    def access(tensor, device):
        flags = ctypes.c_uint64()
        on_device = 1
        where, at = Location(on_device, device), ctypes.c_uint64(tensor.data_ptr())
        assert driver.cuMemGetAccess(ctypes.byref(flags), ctypes.byref(where), at) == 0
        return flags.value

    held = [empty(3 * MIB)]
    held.append(held[0].to("cuda:1"))
    held.append(held[1].to("cuda:0"))
    held.append(empty(30 * MIB))  # Mapped after that.
    tell["access"] = [[access(tensor, device) for device in (0, 1, 2)] for tensor in held]
    tell["segments"] = segments()


def unshared(tell):
    """TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=0: mapped memory is not shared, other memory is."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):
        tell["obeyed"] = "since 2.10"
        return
    for expandable in (True, False):
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
        try:
            handle = empty(30 * MIB).untyped_storage()._share_cuda_()[1]
            tell[f"expandable {expandable}"] = len(handle)
        except RuntimeError as error:
            # Before 2.13 PyTorch asks the driver for what it did not make, and says what that says.
            said = str(error).splitlines()[0]
            tell[f"expandable {expandable}"] = said if hasattr(torch._C, "_cuda_annotateMemory") else "refused"


def errors(tell):
    """Impossible calls fail as they do there."""
    empty(1)
    calls = {
        "stats": lambda: torch._C._cuda_memoryStats(7),
        "reset": lambda: torch._C._cuda_resetPeakMemoryStats(7),
        "delete": lambda: torch._C._cuda_cudaCachingAllocator_raw_delete(4096),
        "checkpoint": lambda: torch._C._cuda_getCheckpointState(0, (7, 7)),
        "pool": lambda: torch._C._cuda_checkPoolLiveAllocations(0, (7, 7), set()),
        "history": lambda: torch.cuda.memory._record_memory_history(enabled="often"),
    }
    for name, call in calls.items():
        try:
            call()
            tell[name] = "went well"
        except Exception as error:
            tell[name] = type(error).__name__


if __name__ == "__main__":
    results = {}
    for scenario in sys.argv[2:]:
        name, *arguments = scenario.split()
        function = globals().get(name) or getattr(limits, name)
        function(results.setdefault(scenario, {}), *arguments)
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    print("\n" + json.dumps(results))
