"""torch.cuda.memory_stats and its like."""

from .case import MIB, Cases, tensor, work

CASES = Cases()


def after_work(read):
    def run(torch):
        kept = work(torch)
        answer = read(torch)
        del kept
        return answer, read(torch)

    return run


for name in (
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "memory_summary",
    "host_memory_stats",
):
    reader = lambda torch, name=name: getattr(torch.cuda, name)()  # noqa: E731
    CASES.add(f"torch.cuda.{name}", f"cuda.{name}")(after_work(reader))


@CASES.add("torch.cuda.memory_stats before CUDA")
def before_cuda(torch):
    return torch.cuda.memory_stats(), torch.cuda.memory_allocated(), torch.cuda.is_initialized()


@CASES.add("torch.cuda.memory_stats of a device")
def of_a_device(torch):
    kept = work(torch)
    answers = [torch.cuda.memory_stats(device) for device in (0, "cuda:0", torch.device("cuda", 0))]
    return answers, kept


@CASES.add("torch._C._cuda_memoryStats(no device)")
def of_no_device(torch):
    torch.cuda.init()
    return torch._C._cuda_memoryStats(99)


@CASES.add("torch._C._cuda_memoryStats(no number)")
def of_no_number(torch):
    torch.cuda.init()
    return torch._C._cuda_memoryStats("cuda")


def after_reset(name):
    def run(torch):
        kept = work(torch)
        kept.pop()
        answer = getattr(torch.cuda, name)()
        return answer, torch.cuda.memory_stats_as_nested_dict(), kept

    return run


for name in (
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
):
    CASES.add(f"torch.cuda.{name}", f"cuda.{name}")(after_reset(name))


@CASES.add("torch.cuda.mem_get_info")
def mem_get_info(torch):
    kept = tensor(torch, 100 * MIB)
    free, total = torch.cuda.mem_get_info()
    return total - free >= kept.nbytes, total
