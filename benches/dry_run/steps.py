"""Trains the model of `examples/gpt.py`, and prints how the processor time of a step is spent.

Runs under `vramtape dry-run`. The simulated libraries count the time in their entry points, with the clock's own cost.
An allocation and its free are timed in a loop from Python, so that their time is an upper bound.
"""

import ctypes
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
import gpt

STEPS, WARM_UPS, PAIRS = 100, 5, 100_000
libraries = ctypes.CDLL("libcuda.so.1")


def spent_ns():
    counted = ctypes.c_uint64()
    assert libraries.simcuda_spent_ns(ctypes.byref(counted)) == 0
    return counted.value


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


def train(steps):
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(text[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


model = gpt.GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
text = torch.randint(16384, (8, 513), device="cuda")
train(WARM_UPS)
spent_ns(), allocations()
before = time.process_time_ns(), spent_ns(), allocations()
train(STEPS)
step_ns, libraries_ns, pairs = (
    (now - then) / STEPS for now, then in zip((time.process_time_ns(), spent_ns(), allocations()), before)
)
allocate, free = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
started_ns = time.process_time_ns()
for _ in range(PAIRS):
    free(allocate(1 << 20, 0))
pair_ns = (time.process_time_ns() - started_ns) / PAIRS
for name, value in (("step", step_ns), ("libraries", libraries_ns), ("allocator", pairs * pair_ns), ("pairs", pairs)):
    print(f"FIGURE {name} {value}", flush=True)
