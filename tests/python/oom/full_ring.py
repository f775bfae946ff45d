"""Prints how long a refused request takes with a full ring and 100,000 live blocks, in milliseconds by the clock and of
its thread alone: the most of five."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

harness.use_vramtape()


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


live = [empty(512 * (1 + at % 7)) for at in range(100_000)]
for _ in range(600):  # Two events each, and a few for the blocks: 1.3 million, of which the ring holds 1 million.
    passing = [empty(3000) for _ in range(1000)]
    del passing
live += [empty(90 << 20) for _ in range(5)]


def refuse(size):
    start, own_start = time.perf_counter(), time.thread_time()
    try:
        empty(size)
    except torch.OutOfMemoryError as error:
        taken, text = (time.perf_counter() - start, time.thread_time() - own_start), str(error)
    else:
        raise AssertionError("no torch.OutOfMemoryError")
    lines = text.split("\n")[1:]
    assert len(lines) == 3 and "pinning set: " in lines[1], text
    return taken


taken = {size: max(refuse(size << 20) for _ in range(5)) for size in (900, 400)}
print(
    ", ".join(f"{size} MiB: {wall * 1000:.1f} ms, {own * 1000:.1f} of its own" for size, (wall, own) in taken.items())
)
