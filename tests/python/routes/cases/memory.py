"""Memory itself: the cache, the limit, allocation without tensors, and its end."""

from .case import MIB, Cases, tensor, work

CASES = Cases()


@CASES.add("torch.cuda.empty_cache")
def empty_cache(torch):
    kept = work(torch)
    kept.pop(3)
    answer = torch.cuda.empty_cache()
    return answer, torch.cuda.memory_stats(), torch.cuda.memory_snapshot(), kept


@CASES.add("torch.cuda.set_per_process_memory_fraction")
def set_fraction(torch):
    answer = torch.cuda.set_per_process_memory_fraction(0.5)
    return answer, torch.cuda.get_per_process_memory_fraction(0)


@CASES.add("torch.cuda.get_per_process_memory_fraction", "cuda.get_per_process_memory_fraction")
def get_fraction(torch):
    return torch.cuda.get_per_process_memory_fraction()


@CASES.add("torch._C._cuda_setMemoryFraction(2.0)")
def fraction_too_large(torch):
    torch.cuda.init()
    return torch._C._cuda_setMemoryFraction(2.0, 0)


@CASES.add("torch._C._cuda_setMemoryFraction(no device)")
def fraction_of_no_device(torch):
    torch.cuda.init()
    return torch._C._cuda_setMemoryFraction(0.5, 99)


@CASES.add("torch._C._cuda_getMemoryFraction(no device)", "_C._cuda_getMemoryFraction")
def get_fraction_of_no_device(torch):
    torch.cuda.init()
    return torch._C._cuda_getMemoryFraction(99)


@CASES.add("torch.cuda.caching_allocator_alloc")
def alloc_and_delete(torch):
    address = torch.cuda.caching_allocator_alloc(3 * MIB)
    during = torch.cuda.memory_stats()
    answer = torch.cuda.caching_allocator_delete(address)
    return isinstance(address, int) and address > 0, during, answer, torch.cuda.memory_stats()


@CASES.add("torch.cuda.caching_allocator_alloc on a stream")
def alloc_on_a_stream(torch):
    side = torch.cuda.Stream()
    address = torch.cuda.caching_allocator_alloc(3 * MIB, stream=side)
    streams = [segment["stream"] == side.cuda_stream for segment in torch.cuda.memory_snapshot()]
    torch.cuda.caching_allocator_delete(address)
    return streams, torch.cuda.memory_stats()


@CASES.add("torch.cuda.caching_allocator_delete(unknown)")
def delete_unknown(torch):
    torch.cuda.init()
    return torch.cuda.caching_allocator_delete(512)


@CASES.add("torch.cuda.caching_allocator_delete(0)")
def delete_nothing(torch):
    torch.cuda.init()
    return torch.cuda.caching_allocator_delete(0)


@CASES.add("torch.cuda.caching_allocator_enable(False)", "cuda.caching_allocator_enable")
def without_caching(torch):
    before = tensor(torch, 100)
    answer = torch.cuda.caching_allocator_enable(False)
    during = tensor(torch, 3 * MIB)
    stats = torch.cuda.memory_stats()
    del before, during
    torch.cuda.caching_allocator_enable(True)
    after = tensor(torch, 100)
    return answer, stats, torch.cuda.memory_stats(), after


@CASES.add("torch.cuda.caching_allocator_enable(False), frees across", "cuda.caching_allocator_enable")
def across_caching(torch):
    cached, answers = tensor(torch, 5 * MIB), []

    def note():
        answers.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()))

    note()
    torch.cuda.caching_allocator_enable(False)
    uncached = tensor(torch, 3 * MIB)
    uncached.record_stream(torch.cuda.Stream())
    raw = torch.cuda.caching_allocator_alloc(7 * MIB)
    note()
    del cached
    torch.cuda.caching_allocator_delete(raw)
    note()
    torch.cuda.caching_allocator_enable(True)
    del uncached
    torch.cuda.empty_cache()
    note()
    return answers


@CASES.add("torch.cuda.caching_allocator_enable(1)", "cuda.caching_allocator_enable")
def enabled_by_a_number(torch):
    torch.cuda.init()
    return torch.cuda.caching_allocator_enable(1)


@CASES.add("torch.cuda.caching_allocator_disabled", "cuda.memory.caching_allocator_disabled")
def disabled(torch):
    torch.cuda.init()
    with torch.cuda.memory.caching_allocator_disabled():
        during = torch._C._cuda_cudaCachingAllocator_is_enabled()
    return during, torch._C._cuda_cudaCachingAllocator_is_enabled()


def out_of_memory(torch, size=1 << 45):
    """The exception of a request that no device can serve, or None."""
    try:
        tensor(torch, size)
    except torch.OutOfMemoryError as error:
        return error
    return None


@CASES.add("torch.OutOfMemoryError")
def oom(torch):
    kept = work(torch)
    error = out_of_memory(torch)
    begins = str(error).startswith("CUDA out of memory. Tried to allocate 32768.00 GiB. GPU 0 has a total capacity of ")
    return type(error).__name__, begins, isinstance(error, RuntimeError), torch.cuda.memory_stats(), kept


@CASES.add("torch.OutOfMemoryError beyond the fraction")
def oom_beyond_fraction(torch):
    torch.cuda.set_per_process_memory_fraction(0.01)
    error = out_of_memory(torch, 8 << 30)
    smaller = tensor(torch, 100 * MIB)
    return type(error).__name__, smaller.nbytes, torch.cuda.memory_stats()


@CASES.add("torch.OutOfMemoryError by throw_on_cudamalloc_oom", "_C._cuda_annotateMemory")
def rejection(torch):
    kept = tensor(torch, 100)  # Where a device begins, the settings' fraction becomes its limit.
    torch.cuda.memory._record_memory_history(context=None, stacks="python")
    total = torch.cuda.mem_get_info()[1]
    settings = f"per_process_memory_fraction:{100 * MIB / total:.9f},throw_on_cudamalloc_oom:True"
    torch._C._accelerator_setAllocatorSettings(settings)
    cached = tensor(torch, 60 * MIB)
    del cached
    error = out_of_memory(torch, 70 * MIB)
    smaller = tensor(torch, 50 * MIB)
    said = str(error).splitlines()[0]
    traces = [entry["action"] for entry in torch.cuda.memory._snapshot()["device_traces"][0]]
    return type(error).__name__, said, smaller.nbytes, torch.cuda.memory_stats(), "oom" in traces, kept


@CASES.add("torch.OutOfMemoryError in the history")
def oom_in_history(torch):
    torch.cuda.memory._record_memory_history(stacks="python")
    kept = tensor(torch, 100)
    out_of_memory(torch)
    entry = torch.cuda.memory._snapshot()["device_traces"][0][-1]
    entry["device_free"] = entry["device_free"] > 0
    return entry, kept


@CASES.add("torch._C._cuda_attach_out_of_memory_observer")
def observer(torch):
    seen = []
    torch.cuda.init()
    answer = torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(arguments))
    error = out_of_memory(torch)
    device, size, total, free = seen[0]
    return answer, len(seen), (device, size, total), 0 < free <= total, type(error).__name__


@CASES.add("torch._C._cuda_attach_out_of_memory_observer(one that raises)")
def observer_that_raises(torch):
    def observe(*_):
        raise ValueError("from the observer")

    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(observe)
    return type(out_of_memory(torch)).__name__


@CASES.add("torch.cuda.get_allocator_backend")
def backend(torch):
    return torch.cuda.get_allocator_backend()
