"""Printed by every script here at its end: PyTorch's own numbers."""

import json

import torch


def report(**more):
    """Prints one line of JSON: the peaks of device 0, and what else the script found."""
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    numbers = {
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "device_allocs": stats["num_device_alloc"],
    }
    print(json.dumps({**numbers, **more}), flush=True)
