"""Small programs that run out of memory on a GPU of 1 GiB, two or more for each cause.

A program receives a `Run` and ends with `run.request(...)`, which memory does not suffice for. The changes that
`vramtape explain` proposes are made through the `Run`: smaller requests, blocks freed before the last request, and an
emptied cache before a step. `explain` names code by file and line: the same line is what `--free` of a run names.
"""

import ctypes
import sys

import torch
from torch import nn

MIB = 1 << 20


class Run:
    """One run of a program, with the changes made to it."""

    def __init__(self, factor=1.0, freed=0, emptied="", fraction=0.0, shares_pool=False, outside_less_mib=0):
        """`factor` scales requests, blocks of line `freed` go before the last request, `emptied` empties the cache
        before the `last` step or before `every` step, `fraction` is a memory fraction in place of the program's, with
        `shares_pool` all graphs have one pool, and libraries take `outside_less_mib` less of the device.
        """
        self.factor, self.freed, self.emptied, self.fraction = factor, freed, emptied, fraction
        self.pool = torch.cuda.graph_pool_handle() if shares_pool else None
        self.outside_less_mib = outside_less_mib
        self.held = {}

    def bytes(self, mib):
        """The size of a request of so many MiB."""
        return max(1, round(mib * MIB * self.factor))

    def hold(self, value):
        """Keeps a tensor, or what owns some, under the line that calls this."""
        self.held.setdefault(sys._getframe(1).f_lineno, []).append(value)
        return value

    def drop(self, line=None):
        """Drops the tensors of a line, or all."""
        self.held.pop(line, None) if line else self.held.clear()

    def step(self, is_last=False):
        """Marks a step."""
        if "vramtape" in sys.modules:
            sys.modules["vramtape"].step()
        if self.emptied == "every" or (self.emptied == "last" and is_last):
            torch.cuda.empty_cache()

    def release(self):
        """Drops what is to be freed before the last request."""
        self.held.pop(self.freed, None)

    def request(self, mib):
        """Makes the last request."""
        self.release()
        return torch.empty(self.bytes(mib), dtype=torch.uint8, device="cuda")


def capacity_by_a_list(run):
    for _ in range(4):
        run.step()
        for _ in range(2):
            run.hold(torch.empty(run.bytes(120), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(120)


def capacity_by_training(run):
    """Parameters, gradients and the state of the optimizer leave too little for a larger batch."""
    width = round(4096 * run.factor**0.5)
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).cuda()
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    run.step()
    net(torch.ones(8, width, device="cuda")).sum().backward()
    optimizer.step()
    run.step(is_last=True)
    run.request(600)


def capacity_by_logits(run):
    """Float copies of the logits of a large vocabulary."""
    words, rows = 50_257, max(1, round(1024 * run.factor))
    run.step(is_last=True)
    for _ in range(2):
        run.hold(torch.empty(rows, words, dtype=torch.float32, device="cuda"))
    run.hold(torch.empty(run.bytes(500), dtype=torch.uint8, device="cuda"))
    run.request(words * 1024 * 4 / MIB)


def capacity_by_rounding(run):
    """A remainder of less than 1 MiB is not split off: every block of 11.2 MiB takes 12."""
    for _ in range(84):
        run.hold(torch.empty(run.bytes(11.2), dtype=torch.uint8, device="cuda"))
    run.request(16.5)


def huge_request(run):
    run.hold(torch.empty(run.bytes(64), dtype=torch.uint8, device="cuda"))
    run.request(1500)


def huge_request_by_an_outer_product(run):
    rows = max(1, round(20_000 * run.factor))
    x = torch.ones(rows, device="cuda")
    run.step(is_last=True)
    torch.outer(x, x)


def pin_each_segment(run, count, segment, pin):
    """Leaves a block of `pin` MiB in each of `count` segments, all else of which is free."""
    rests = []
    for _ in range(count):
        whole = torch.empty(run.bytes(segment), dtype=torch.uint8, device="cuda")
        del whole
        run.hold(torch.empty(run.bytes(pin), dtype=torch.uint8, device="cuda"))
        rests.append(torch.empty(run.bytes(segment - pin), dtype=torch.uint8, device="cuda"))


def fragmentation_by_results(run):
    """A small result of each batch stays in the segment of the batch."""
    run.step()
    pin_each_segment(run, 9, 100, 10)
    run.step(is_last=True)
    run.request(200)


def fragmentation_by_layers(run):
    """The output of each layer stays beside its scratch memory."""
    scratch = []
    for _ in range(50):
        scratch.append(torch.empty(run.bytes(9), dtype=torch.uint8, device="cuda"))
        run.hold(torch.empty(run.bytes(9), dtype=torch.uint8, device="cuda"))
    del scratch
    run.step(is_last=True)
    run.request(300)


def fragmentation_of_small_blocks(run):
    """One block of 64 KiB keeps each segment of 2 MiB of the small pool."""
    blocks = []
    for _ in range(450 * 32):
        blocks.append(torch.empty(run.bytes(1 / 16), dtype=torch.uint8, device="cuda"))
    for block in blocks[::32]:
        run.hold(block)
    del block, blocks
    run.step(is_last=True)
    run.request(300)


def partly_fragmentation_by_results(run):
    run.hold(torch.empty(run.bytes(500), dtype=torch.uint8, device="cuda"))
    pin_each_segment(run, 2, 100, 10)
    run.step(is_last=True)
    run.request(400)


def partly_fragmentation_by_a_buffer(run):
    whole = torch.empty(run.bytes(300), dtype=torch.uint8, device="cuda")
    del whole
    run.hold(torch.empty(run.bytes(40), dtype=torch.uint8, device="cuda"))
    run.hold(torch.empty(run.bytes(400), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(450)


def other_process(run):
    """`cases.py` lets another process hold 500 MiB."""
    run.hold(torch.empty(run.bytes(300), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(300)


def other_process_at_the_start(run):
    run.request(700)


def take_outside(run, mib):
    """A library of the program takes so much of the device."""
    pointer, size_bytes = ctypes.c_void_p(), ctypes.c_size_t((mib - run.outside_less_mib) * MIB)
    assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(pointer), size_bytes) == 0


def beside_the_allocator(run):
    """What a library takes is no more than a CUDA context may have."""
    run.hold(torch.empty(run.bytes(300), dtype=torch.uint8, device="cuda"))
    take_outside(run, 500)
    run.request(300)


def libraries_outside(run):
    """`test_explain.py` has a device of 4 GiB for this."""
    run.hold(torch.empty(run.bytes(1000), dtype=torch.uint8, device="cuda"))
    take_outside(run, 2400)
    run.step(is_last=True)
    run.request(1000)


def capture(run, mib):
    """A graph whose pool holds so many MiB after the capture."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=run.pool):
        x = torch.empty(run.bytes(mib), dtype=torch.uint8, device="cuda")
        del x
    return graph


def graphs_of_one_model(run):
    graph = capture(run, 600)
    run.hold(torch.empty(run.bytes(200), dtype=torch.uint8, device="cuda"))
    run.request(300)
    del graph


def graphs_of_a_ladder(run):
    """One graph for each batch size, each with a pool of its own."""
    graphs = [capture(run, mib) for mib in (320, 240, 160, 80)]
    run.request(400)
    del graphs


def other_stream_of_copies(run):
    """The stream of prefetched batches keeps its cache: a block beside it is live."""
    with torch.cuda.stream(torch.cuda.Stream()):
        whole = torch.empty(run.bytes(600), dtype=torch.uint8, device="cuda")
        del whole
        run.hold(torch.empty(run.bytes(16), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(500)


def other_stream_of_an_evaluation(run):
    run.hold(torch.empty(run.bytes(200), dtype=torch.uint8, device="cuda"))
    run.step()
    with torch.cuda.stream(torch.cuda.Stream()):
        logits = torch.empty(run.bytes(500), dtype=torch.uint8, device="cuda")
        del logits
        run.hold(torch.empty(run.bytes(2), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(400)


def pending_free_in_a_capture(run):
    """A block that another stream used is free only after the capture."""
    graph, other = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        x = torch.empty(run.bytes(600), dtype=torch.uint8, device="cuda")
        other.wait_stream(torch.cuda.current_stream())
        x.record_stream(other)
        torch.cuda.current_stream().wait_stream(other)
        del x
        run.request(600)


def settings_of_the_fraction(run):
    torch.cuda.set_per_process_memory_fraction(run.fraction or 0.5)
    run.hold(torch.empty(run.bytes(300), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(300)


def settings_of_the_rounding(run):
    """`cases.py` sets `roundup_power2_divisions:2`, which makes 512 MiB of 400, and 384 of 280 and of 270."""
    run.hold(torch.empty(run.bytes(400), dtype=torch.uint8, device="cuda"))
    run.hold(torch.empty(run.bytes(280), dtype=torch.uint8, device="cuda"))
    run.step(is_last=True)
    run.request(270)


def cached_before_a_capture(run):
    """PyTorch does not return cached memory to the device during a capture."""
    whole = torch.empty(run.bytes(700), dtype=torch.uint8, device="cuda")
    del whole
    run.step(is_last=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        try:
            run.request(500)
        finally:
            graph.capture_end()
