"""Runs one scenario under PyTorch's own allocator on the simulated driver: dump.py SCENARIO SNAPSHOT.pickle

Dumps the history and prints what PyTorch counted, as JSON.
"""

import gzip
import json
import os
import pickle
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import harness

harness.load_simcuda()

import torch

MIB = 1 << 20
memory = torch.cuda.memory


def tensor(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)


def churn(steps=40, device="cuda"):
    """A few hundred allocations, of which some stay."""
    kept = []
    for step in range(steps):
        kept.append(tensor(1000 * (step + 1), device))
        tensor(MIB + step, device)
        if step % 3 == 0:
            kept.append(tensor(5 * MIB + step, device))
        if step % 5 == 4:
            del kept[: len(kept) // 2]
    return kept


def plain():
    with torch.profiler.record_function("churn"):
        kept = churn()
    other = torch.cuda.Stream()
    shared = tensor(3 * MIB)
    shared.record_stream(other)
    del shared
    kept += churn(1)
    tensor(64 * MIB)
    torch.cuda.empty_cache()
    return kept, churn(3)


def private_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        churn(5)
    return pool, churn(5)


def mid_run():
    """History that begins when memory is in use already."""
    memory._record_memory_history(None)
    kept = churn()
    memory._record_memory_history("all", max_entries=100_000)
    return kept, churn()


def overflow():
    """A ring that is smaller than the run."""
    memory._record_memory_history("all", max_entries=50)
    return churn()


def two_devices():
    return churn(), churn(7, "cuda:1")


def annotated():
    kept = churn(3)
    if hasattr(memory, "_annotate_tensor"):
        memory._annotate_tensor(kept[0], "the first one")
    return kept


def out_of_memory():
    kept = churn(3)
    try:
        tensor(1 << 50)
    except torch.OutOfMemoryError:
        pass
    return kept


SCENARIOS = {
    "plain": plain,
    "expandable": plain,
    "private_pool": private_pool,
    "mid_run": mid_run,
    "overflow": overflow,
    "two_devices": two_devices,
    "annotated": annotated,
    "out_of_memory": out_of_memory,
}

name, path = sys.argv[1:]
torch.cuda.init()
memory._record_memory_history("all", max_entries=100_000)
alive = SCENARIOS[name]()
memory._dump_snapshot(path)
snapshot = memory._snapshot()
for protocol in range(6):
    with open(f"{path}.{protocol}", "wb") as file:
        pickle.dump(snapshot, file, protocol=protocol)
with gzip.open(f"{path}.gz", "wb") as file:
    pickle.dump(snapshot, file, protocol=2)
with open(f"{path}.json", "w") as file:
    json.dump(snapshot, file)
stats = [torch.cuda.memory_stats(device) for device in range(torch.cuda.device_count())]
print(json.dumps([{key: value for key, value in one.items() if "bytes.all" in key} for one in stats]))
