"""Scenarios of limits: of the device, of a fraction of it, and of the settings."""

import time

from begin import MIB, empty, numbers, torch, traces


def out_of_memory(tell):
    observed = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: observed.append(numbers))
    held = empty(600 * MIB)
    for size in (500 * MIB, 1 << 61):
        try:
            empty(size)
        except torch.OutOfMemoryError as error:
            # All of PyTorch's sentence: ours comes behind it. Where to read on is another page in each version.
            tell.setdefault("says", []).append(str(error).splitlines()[0].split("See documentation")[0])
    tell["observed"] = observed
    tell["smaller"] = empty(100 * MIB).numel()
    tell["numbers"] = numbers()
    del held


def attach_rejection_observer(observe):
    """By the C++ function: Python has none. The result has to live as long as the process."""
    import ctypes
    import os
    import subprocess
    import tempfile

    from vramtape._bridge import toolchain

    tools = toolchain.find(torch)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rejections.cpp")
    built = os.path.join(tempfile.mkdtemp(), "rejections.so")
    includes = [f"-isystem{folder}" for folder in tools.includes]
    command = [tools.compiler, *toolchain.flags(torch), "-O0", *includes, source, "-o", built]
    subprocess.run([*command, *toolchain.libraries(torch)], check=True)
    callback = ctypes.CFUNCTYPE(None, ctypes.c_long, *[ctypes.c_ulong] * 3)(observe)
    ctypes.CDLL(built).attach(callback)
    return callback


def rejections(tell):
    """throw_on_cudamalloc_oom of 2.13 and later: observers, statistics, the cache and unaffected requests."""
    if not hasattr(torch._C, "_cuda_annotateMemory"):
        return
    ooms, observed = [], []
    torch.cuda.init()
    keep = attach_rejection_observer(lambda *numbers: observed.append(numbers))
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: ooms.append(numbers))
    change = torch._C._accelerator_setAllocatorSettings
    torch.cuda.memory._record_memory_history(stacks="python")
    held = []

    def ask(name, mib, more=0):
        try:
            held.append(empty(mib * MIB + more))
            tell[name] = ["given", numbers()]
        except torch.OutOfMemoryError as error:
            # Only here ours says more, behind PyTorch's sentence.
            tell[name] = [str(error).splitlines()[0], numbers()]

    change("per_process_memory_fraction:0.1,throw_on_cudamalloc_oom:True")  # 102.4 MiB.
    held += [empty(30 * MIB), empty(30 * MIB)]
    del held[0]
    ask("with memory cached", 50, 5)
    ask("from the cache", 3)
    ask("a small one", 0, 1000)
    torch.cuda.set_per_process_memory_fraction(0.15)
    ask("beyond the limit, then the settings", 80)
    ask("beyond the limit", 200)
    torch.cuda.set_per_process_memory_fraction(1.0)
    held.clear()
    torch.cuda.empty_cache()
    ask("all of it", 102)
    ask("one more", 0, 1)
    held.clear()
    torch.cuda.empty_cache()
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        held.append(empty(60 * MIB))
        held.clear()
        ask("in a pool", 70)
    ask("with a pool that lends", 50)
    change("expandable_segments:True")
    ask("expandable", 60)
    change("expandable_segments:False,throw_on_cudamalloc_oom:False")
    ask("not any more", 60)
    change("throw_on_cudamalloc_oom:True,per_process_memory_fraction:1.0")
    ask("of the whole device", 2000)
    torch.cuda.reset_accumulated_memory_stats()
    tell["reset"] = numbers()
    # PyTorch calls its observers from threads of their own.
    counted = sum("rejected" in said[0] for said in tell.values() if isinstance(said, list))
    for _ in range(100):
        if len(observed) < counted:
            time.sleep(0.1)
    tell["observed"], tell["ooms"], tell["kept"] = sorted(observed), ooms, keep is not None
    tell["traces"] = traces(torch.cuda.memory._snapshot())
    torch.cuda.memory._record_memory_history(enabled=None)
    change("throw_on_cudamalloc_oom:False")


def latched(tell):
    """The settings at CUDA's initialization hold for every device, also for one that is used later."""
    torch.cuda.init()
    has_fraction = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 10)
    also = ",per_process_memory_fraction:0.25" if has_fraction else ""
    torch.cuda.memory._set_allocator_settings(f"max_split_size_mb:64{also}")
    held = [torch.empty(1000, device=f"cuda:{at}") for at in (0, 1)]
    for at in (0, 1):
        limit = [torch.cuda.get_per_process_memory_fraction(at)] if has_fraction else []
        tell[str(at)] = [*limit, torch.cuda.memory_stats(at)["max_split_size"], held[at].numel()]


def fraction(tell):
    total = torch.cuda.mem_get_info()[1]
    get = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    torch.cuda.set_per_process_memory_fraction(100 * MIB / total)
    tell["fraction"] = get() if get else None
    held = empty(90 * MIB)
    for size in (40 * MIB,):
        try:
            empty(size)
        except torch.OutOfMemoryError as error:
            tell["says"] = str(error).split("See documentation")[0]
    torch.cuda.set_per_process_memory_fraction(1.0)
    tell["again"] = [get() if get else None, empty(40 * MIB).numel()]
    for wrong in (-0.5, 2.0):
        try:
            torch.cuda.set_per_process_memory_fraction(wrong)
        except (ValueError, RuntimeError) as error:
            tell[str(wrong)] = [type(error).__name__, str(error).splitlines()[0]]
    del held
