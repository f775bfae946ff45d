"""Kernels that stay on the device while pages of 2 MiB are mapped and unmapped, and one page at two addresses inside
one kernel.

`stitch` maps and unmaps pages whose other addresses a running kernel may use. It never gives a running kernel a second
address of a page: CUDA orders such accesses only after `fence.proxy.alias`, and the first checks count how they fare.
"""

import torch

from aliases import COUNT, WORDS, Aliases
from driver import PAGE_BYTES, Driver, Pages

ROUNDS = 2000
LONG_ROUNDS = 100_000  # Seconds.
SOURCE = r"""
__device__ void fence(int alias) {
    __threadfence();
    if (alias) asm volatile("fence.proxy.alias;" ::: "memory");
}

__device__ void meet(int *met, int target) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(met, 1);
        while (atomicAdd(met, 0) < target) {}
    }
    __syncthreads();
}

// Block b writes page b through one address; the pages of the block `ahead` of it are read through the other.
extern "C" __global__ void pass_on(float *first, float *second, int stride, int words, int rounds, int ahead,
                                   int alias, int *met, int *wrong) {
    int bad = 0;
    for (int number = 1; number <= rounds; number++) {
        float *to = number % 2 ? first : second, *of = number % 2 ? second : first;
        for (int at = threadIdx.x; at < words; at += blockDim.x) to[blockIdx.x * (long long)stride + at] = number;
        fence(alias);
        if (ahead) meet(met, (2 * number - 1) * gridDim.x); else __syncthreads();
        fence(alias);
        long long page = (blockIdx.x + ahead) % gridDim.x;
        for (int at = threadIdx.x; at < words; at += blockDim.x) bad += of[page * stride + at] != (float)number;
        if (ahead) meet(met, 2 * number * gridDim.x); else __syncthreads();
    }
    atomicAdd(wrong, bad);
}
"""
# Of each page, so that a round is short.
WORDS_USED = 4096
THREADS = 256


def run(simulated):
    if simulated:
        return {"skipped": "no kernel runs on the simulated driver"}
    pass_on = torch.cuda._compile_kernel(SOURCE, "pass_on")
    pages = Pages(Driver(), COUNT)
    try:
        aliases = Contiguous(pages)
        inside = {
            f"{readers}, {fence}": count(pass_on, aliases.first, aliases.second, ROUNDS, ahead, alias)
            for readers, ahead in (("same block", 0), ("another block", 3))
            for fence, alias in (("without fence.proxy.alias", 0), ("with it", 1))
        }
        cycles, wrong = mapped_meanwhile(pass_on, aliases, pages)
    finally:
        torch.cuda.synchronize()
        pages.close()
    if wrong or inside["another block, with it"] or inside["same block, with it"]:
        raise AssertionError(f"elements that are not as written: {wrong} while pages were mapped; {inside}")
    return {"wrong_inside_one_kernel": inside, "wrong_while_mapped": wrong, "pages_mapped_meanwhile": cycles * COUNT}


class Contiguous(Aliases):
    """The same pages in the same order at two addresses."""

    def __init__(self, pages):
        self.first, self.second = (self.view(pages.map(list(range(COUNT)))) for _ in range(2))


def launch(kernel, first, second, rounds, ahead, alias, stream=None):
    """The number of wrong elements, on the device."""
    met, wrong = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    arguments = [first, second, WORDS, WORDS_USED, rounds, ahead, alias, met, wrong]
    kernel(grid=(COUNT, 1, 1), block=(THREADS, 1, 1), args=arguments, stream=stream)
    return wrong, met


def count(*arguments):
    wrong, _met = launch(*arguments)
    return int(wrong)


def mapped_meanwhile(kernel, aliases, pages):
    """Maps the pages at a third range and unmaps them, again and again, while a kernel uses them through the first."""
    driver = pages.driver
    side = torch.cuda.Stream()
    done = torch.cuda.Event()
    room = driver.reserve(COUNT * PAGE_BYTES)
    wrong, _met = launch(kernel, aliases.first, aliases.first, LONG_ROUNDS, 3, 0, side)
    done.record(side)
    cycles = 0
    while not done.query():
        for at, handle in enumerate(pages.handles):
            driver.map(room + at * PAGE_BYTES, PAGE_BYTES, handle)
            driver.open(room + at * PAGE_BYTES, PAGE_BYTES)
        for at in range(COUNT):
            driver.unmap(room + at * PAGE_BYTES, PAGE_BYTES)
        cycles += 1
    driver.unreserve(room, COUNT * PAGE_BYTES)
    if cycles < 10:
        raise AssertionError(f"the kernel ended after {cycles} rounds of mappings: make it longer")
    return cycles, int(wrong)
