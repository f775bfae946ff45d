"""A snapshot of PyTorch's own with its history of pinned host memory, and what PyTorch counts of it then."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import load_simcuda

load_simcuda()

import torch

MIB = 1 << 20


def pinned(size):
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


torch.cuda.memory._record_memory_history(stacks="python", record_pinned_host_memory=True)
kept = [torch.empty(MIB, device="cuda")]
for _ in range(3):
    batch = pinned(3 * MIB)
    kept.append(pinned(MIB))
    batch.cuda(non_blocking=True)
    del batch
torch.cuda.synchronize()
torch.accelerator.empty_host_cache()
kept.append(pinned(2 * MIB))
torch.cuda.memory._dump_snapshot(sys.argv[1])
print(json.dumps(torch.cuda.host_memory_stats_as_nested_dict()))
