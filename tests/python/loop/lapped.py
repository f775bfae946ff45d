"""A block larger than the ring: what is missing is said, and the rest is true."""

import warnings

import vramtape

vramtape.install(route="pluggable")
import torch

kept = torch.empty(1 << 20, device="cuda")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with vramtape.profile() as p:
        for _ in range(3000):
            torch.empty(1 << 19, device="cuda")
        later = torch.empty(1 << 18, device="cuda")
    stats = p.memory_stats
texts = [str(one.message) for one in said]
assert any("at the beginning of this block are missing" in text and "ring_events" in text for text in texts), texts
# A ring holds at least 1024 slots; what it held is less than the block.
assert stats["lost"] + stats["records"] >= 6001 and 0 < stats["records"] < 6001, stats
assert stats["end_allocated_bytes"] == 5 << 20
assert stats["peak_allocated_bytes"] == 6 << 20
