"""What things cost: an allocation and its free in Python, and each call of the driver that an allocator makes."""

import ctypes
import statistics
import time

import torch

from driver import MIB, PAGE_BYTES, Driver

BUSY_CYCLES = 200_000_000  # A tenth of a second.
WAITS_US = 10_000


def run_empty(simulated):
    """Nanoseconds of `torch.empty` and the free of what it made, median of 11 rounds."""
    pairs = 200 if simulated else 20_000
    results = {}
    for name, n_bytes in (("512 B", 512), ("4 MiB", 4 * MIB)):
        rounds = []
        for _ in range(11):
            began = time.perf_counter_ns()
            for _ in range(pairs):
                torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
            rounds.append((time.perf_counter_ns() - began) / pairs)
        results[name] = round(statistics.median(rounds), 1)
    return {"pair_ns": results}


class Stopwatch:
    """Microseconds of the driver's calls, by name and label."""

    def __init__(self):
        self.label, self.times = "", {}
        self.driver = Driver(self.watch)

    def watch(self, name, call):
        began = time.perf_counter_ns()
        code = call()
        self.times.setdefault(f"{name}{self.label}", []).append((time.perf_counter_ns() - began) / 1000)
        return code

    def medians(self):
        return {label: round(statistics.median(all_), 2) for label, all_ in self.times.items()}


def run_driver(simulated):
    """Microseconds of each call, median of several, by size where the size matters."""
    torch.empty(1, device="cuda")
    watch = Stopwatch()
    driver = watch.driver
    sizes = [2 * MIB, 20 * MIB] + ([] if simulated else [256 * MIB, 1024 * MIB])
    for _ in range(3 if simulated else 15):
        for size in sizes:
            watch.label = f" {size // MIB} MiB"
            address = ctypes.c_uint64()
            driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            driver.call("cuMemFree_v2", address)
            room, handle = driver.reserve(size), driver.create(size)
            driver.map(room, size, handle)
            driver.open(room, size)
            driver.unmap(room, size)
            driver.release(handle)
            driver.unreserve(room, size)
        watch.label = ""
        event = ctypes.c_void_p()
        driver.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(2))
        driver.call("cuEventRecord", event, ctypes.c_void_p(0))
        driver.call("cuEventSynchronize", event)
        driver.call("cuEventQuery", event)
        driver.call("cuEventDestroy_v2", event)
        driver.call("cuStreamSynchronize", ctypes.c_void_p(0))
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    granularity = [driver.granularity(recommended) for recommended in (False, True)]
    return {"microseconds": watch.medians(), "granularity_bytes": granularity}


def run_pages(simulated):
    """Pages of 2 MiB, as `stitch` maps them: microseconds a page, by the number that are mapped together."""
    results = {}
    for count in (1, 8) if simulated else (1, 16, 128, 1024, 8192):
        rounds = max(1, min(9, 512 // count))
        samples = [pages_round(count) for _ in range(rounds)]
        medians = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
        results[str(count)] = {name: round(us / count, 2) for name, us in medians.items()}
    return {"microseconds_a_page": results}


def pages_round(count, work=lambda: None):
    """Microseconds of each phase behind some work of the device, for all pages together."""
    driver, size, taken = Driver(), count * PAGE_BYTES, {}

    def phase(name, call, *every):
        torch.cuda.synchronize()
        work()
        began = time.perf_counter_ns()
        made = [call(*arguments) for arguments in zip(*every)]
        taken[name] = (time.perf_counter_ns() - began) / 1000
        return made

    pages = [PAGE_BYTES] * count
    handles = phase("create", driver.create, pages)
    ranges = [driver.reserve(size) for _ in range(2)]
    places = [[start + at * PAGE_BYTES for at in range(count)] for start in ranges]
    phase("map", driver.map, places[0], pages, handles)
    phase("set access, together", driver.open, [ranges[0]], [size])
    phase("map a second time", driver.map, places[1], pages, handles)
    phase("set access, page by page", driver.open, places[1], pages)
    phase("unmap the second", driver.unmap, places[1], pages)
    phase("unmap, page by page", driver.unmap, places[0], pages)
    phase("release", driver.release, handles)
    torch.cuda.synchronize()
    for start in ranges:
        driver.unreserve(start, size)
    return taken


def run_busy(simulated):
    """Microseconds a page while the GPU works, by what it does, and of the calls that wait for the end of the work."""
    if simulated:
        return {"skipped": "no kernel runs on the simulated driver"}
    work = {"idle": lambda: None, "one long kernel": sleep, "matrix products": multiply}
    results = {}
    for name, launch in work.items():
        launch()
        torch.cuda.synchronize()
        results[name] = pages_round(64, launch)
    medians = {name: {phase: round(us / 64, 1) for phase, us in taken.items()} for name, taken in results.items()}
    waits = {name: us for name, us in segment_round().items() if us > WAITS_US}
    return {"microseconds_a_page": medians, "waits": waits}


def sleep():
    torch.cuda._sleep(BUSY_CYCLES)


def multiply():
    """A tenth of a second of matrix products, some hundred of them."""
    torch.cuda.synchronize()
    left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    into = torch.empty_like(left)
    for _ in range(500):
        torch.mm(left, right, out=into)


def segment_round():
    """Microseconds of a segment's calls behind a long kernel."""
    watch, address = Stopwatch(), ctypes.c_uint64()
    driver = watch.driver
    torch.cuda.synchronize()
    sleep()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(16 * MIB))
    torch.cuda.synchronize()
    sleep()
    driver.call("cuMemFree_v2", address)
    return watch.medians()
