"""One page at several addresses, as `stitch` has them: writes through one are read through another by the next kernel
of the stream, by copies, by matrix products, by another stream after an event, in a graph and under dependent launch.
Two blocks in one page are used through an address each.
"""

import torch

from driver import PAGE_BYTES, Driver, Pages

COUNT = 16
WORDS = PAGE_BYTES // 4


class Range:
    """Mapped memory as PyTorch takes it from other libraries."""

    def __init__(self, address, words):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (words,), "typestr": "<f4", "version": 3}


class Aliases:
    """The same pages in two orders of addresses: `first[n]` and `second[n]` are views of one page."""

    def __init__(self, pages):
        order = list(range(COUNT))
        backwards = [page ^ 5 for page in order]
        self.first, second = (self.view(pages.map(one)) for one in (order, backwards))
        self.second = [second[page ^ 5] for page in order]  # A list of views: no copy brings them together.

    @staticmethod
    def view(address):
        return torch.as_tensor(Range(address, COUNT * WORDS), device="cuda").view(COUNT, WORDS)


def run(simulated):
    if simulated:
        return {"skipped": "the simulated driver computes nothing"}
    pages = Pages(Driver(), COUNT)
    results = {}
    try:
        aliases = Aliases(pages)
        for name, check in CHECKS:
            results[name] = check(aliases)
            torch.cuda.synchronize()
    finally:
        torch.cuda.synchronize()
        aliases = None
        pages.close()
    wrong = {name: found for name, found in results.items() if isinstance(found, int) and found}
    if wrong:
        raise AssertionError(f"elements that are not as written through the other address: {wrong}")
    return {"checks": results}


def count_wrong(wrong, aliases, value):
    """Adds the words that the second addresses do not show as `value`."""
    for page in aliases.second:
        wrong += (page != value).sum()


def kernels(aliases, rounds=400):
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for number in range(rounds):
        aliases.first.fill_(float(number))
        count_wrong(wrong, aliases, float(number))
        for page in aliases.second:  # And the other way.
            page.fill_(-float(number))
        wrong += (aliases.first != -float(number)).sum()
    return int(wrong)


def single_page(aliases, rounds=4000):
    """Small kernels, back to back: one ends while the next is launched."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    first, second = aliases.first[3], aliases.second[3]
    for number in range(rounds):
        first.add_(1.0) if number % 2 else second.fill_(float(number))
        wrong += ((second if number % 2 else first) != float(number)).sum()
    return int(wrong)


def copies(aliases, rounds=200):
    """The copy engines: memset, and copies from the device, to it and from the host."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    host = torch.empty(COUNT, WORDS, pin_memory=True)
    back = torch.empty_like(host)
    source = torch.empty(COUNT, WORDS, device="cuda")
    for number in range(rounds):
        source.fill_(float(number))
        aliases.first.copy_(source)
        count_wrong(wrong, aliases, float(number))
        aliases.first.zero_()
        count_wrong(wrong, aliases, 0.0)
        if number % 20 == 0:
            torch.cuda.synchronize()
            host.fill_(number + 0.5)
            aliases.first.copy_(host, non_blocking=True)
            count_wrong(wrong, aliases, number + 0.5)
            for page, row in zip(aliases.second, back):
                row.copy_(page, non_blocking=True)
            torch.cuda.synchronize()
            wrong += int((back != number + 0.5).sum())
    return int(wrong)


def products(aliases, rounds=200):
    """Matrix products that write through one address and read through the other; bfloat16, one page each."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    side = 1024
    torch.manual_seed(5)
    fixed = torch.randn(side, side, device="cuda", dtype=torch.bfloat16) / side**0.5
    expected = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)
    first, second = ([page.view(torch.bfloat16).view(side, side) for page in one] for one in (
        aliases.first, aliases.second))  # fmt: skip
    first[0].copy_(expected)
    for number in range(rounds):
        here, there = number % COUNT, (number + 1) % COUNT
        expected = expected @ fixed
        torch.mm(second[here], fixed, out=first[there])
        wrong += (second[there] != expected).sum()
    return int(wrong)


def atomics(aliases, rounds=500):
    first, second = aliases.first[7], aliases.second[7]
    index = torch.randint(0, WORDS, (1 << 18,), device="cuda")
    ones = torch.ones(index.shape, device="cuda")
    first.zero_()
    for number in range(rounds):
        (second if number % 2 else first).index_add_(0, index, ones)
    expected = torch.bincount(index, minlength=WORDS).float() * rounds
    return int((second != expected).sum())


def streams(aliases, rounds=300):
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    side = torch.cuda.Stream()
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    for number in range(rounds):
        aliases.first.fill_(float(number))
        side.wait_stream(main)
        with torch.cuda.stream(side):
            count_wrong(wrong, aliases, float(number))
        main.wait_stream(side)
    return int(wrong)


def parts(aliases, rounds=2000):
    """Two blocks in one page, each through an address of its own, written at the same time."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    cut = 777 * 512 // 4  # Blocks begin at multiples of 512 bytes.
    first, second = aliases.first[4], aliases.second[4]
    side = torch.cuda.Stream()
    main = torch.cuda.current_stream()
    for number in range(rounds):
        side.wait_stream(main)
        first[:cut].fill_(float(number))
        with torch.cuda.stream(side):
            second[cut:].fill_(-float(number))
        main.wait_stream(side)
        wrong += (second[:cut] != float(number)).sum() + (first[cut:] != -float(number)).sum()
    return int(wrong)


def graph(aliases, rounds=200):
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    value = torch.zeros((), device="cuda")
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        value += 1
        aliases.first.copy_(value.expand(COUNT, WORDS))
        count_wrong(wrong, aliases, value)
    for _ in range(rounds):
        captured.replay()
    torch.cuda.synchronize()
    return int(wrong) if float(value) == rounds else rounds


def dependent(aliases, rounds=2000):
    """Programmatic dependent launch: the reader starts before the writer ends, and waits for its memory."""
    try:
        from dependent import launch_pair
    except ImportError as error:
        return f"skipped: no Triton: {error}"
    wrong = torch.zeros(1, dtype=torch.int32, device="cuda")
    first, second = aliases.first[2], aliases.second[2]
    for number in range(rounds):
        launch_pair(first, second, wrong, float(number))
        launch_pair(second, first, wrong, -float(number))
    return int(wrong)


CHECKS = (
    ("kernels", kernels),
    ("small kernels", single_page),
    ("copies", copies),
    ("products", products),
    ("atomics", atomics),
    ("streams", streams),
    ("two blocks in a page", parts),
    ("graph", graph),
    ("dependent launch", dependent),
)
