"""Scripts whose placements have to be the same under PyTorch's own allocator and under vramtape.

Each is deterministic: sizes come from a seeded generator, never from values on the device, which the simulated driver
does not compute. A workload returns what it wants alive at its end.
"""

import gc
import os
import random
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))

import gpt

MIB = 1 << 20


def block(n_bytes):
    """Device memory of exactly this size."""
    return torch.empty(n_bytes, dtype=torch.uint8, device="cuda")


def train_gpt(steps=4):
    """Training with texts of differing length, and an emptied cache in the middle."""
    rng = random.Random(1)
    model = gpt.GPT(width=256, depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(steps):
        text = torch.zeros(4, rng.choice([257, 513, 777, 1001]), dtype=torch.long).cuda()
        # Its cache would be freed in the order of host addresses, which differ from process to process.
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            logits = model(text[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step == steps // 2:
            torch.cuda.empty_cache()
    return model, optimizer


def streams(rounds=400, live_max=24, largest=24 * MIB):
    """Memory made on four streams and used by others (record_stream); events complete late."""
    rng = random.Random(2)
    lanes = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in range(3)]
    live = []
    for i in range(rounds):
        home, user = rng.sample(lanes, 2)
        with torch.cuda.stream(home):
            size = rng.choice([rng.randrange(1, 4096), rng.randrange(4096, MIB), rng.randrange(MIB, largest)])
            made = block(size)
        if rng.random() < 0.6:
            made.record_stream(user)
        live.append(made)
        while len(live) > live_max or (live and rng.random() < 0.4):
            live.pop(rng.randrange(len(live)))
        if i % 150 == 149:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    return live


def graphs():
    """CUDA graphs of several batch sizes: some in a shared pool, some replaced, side streams inside a capture."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda()
    captured, pool = [], None
    for i, batch in enumerate((64, 128, 256, 512, 1024, 96)):
        x = torch.empty(batch, 1024, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool if i % 2 else None):
            y = model(x)
            branch = torch.cuda.Stream()
            branch.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(branch):
                z = x * 2
            torch.cuda.current_stream().wait_stream(branch)
            z.record_stream(torch.cuda.current_stream())
            del z
        pool = pool or graph.pool()
        captured.append((graph, x, y))
        block(30 * MIB)
        if i == 3:
            captured.pop(1)
            gc.collect()
            torch.cuda.empty_cache()
    for graph, _, _ in captured:
        graph.replay()
    return captured


def tight():
    """Memory for barely half of what is asked, with frees that wait for other streams: flushes and retries."""
    return streams(rounds=500, live_max=12, largest=100 * MIB)


def limited():
    """A memory fraction with garbage collection: old cached segments go before the limit is reached."""
    rng = random.Random(3)
    # With two functions the hooks are set at the first allocation; no fraction gets through before.
    live = [block(512)]
    torch.cuda.set_per_process_memory_fraction(0.5)
    for _ in range(600):
        live.append(block(rng.randrange(1, 36 * MIB)))
        while len(live) > 10 or (live and rng.random() < 0.3):
            live.pop(rng.randrange(len(live)))
    return live


def out_of_memory():
    """Runs out of memory three times, gives some back each time, and goes on."""
    rng = random.Random(4)
    live, refused = [], 0
    while refused < 3:
        try:
            live.append(block(rng.randrange(MIB, 90 * MIB)))
        except torch.OutOfMemoryError:
            refused += 1
            del live[:: refused + 1]
    return live
