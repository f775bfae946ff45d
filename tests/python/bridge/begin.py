"""Begins the allocator that the command line names, PyTorch's own ("native") or a route of vramtape; and the state that
the scenarios compare.

Addresses are left out where the two may differ, and so are times; the live blocks show where each allocation is.
"""

import gc
import os
import sys

if sys.argv[1] != "native":
    import vramtape

    assert vramtape.install(route=sys.argv[1]) == sys.argv[1]
else:
    from vramtape import _runtime

    _runtime.use_simcuda()

import torch

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
HAS_POOLS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)


def empty(size, **options):
    return torch.empty(size, dtype=torch.uint8, device="cuda", **options)


def numbers():
    """Everything that is counted."""
    return dict(torch.cuda.memory_stats())


def segments(found=None):
    """Segments and blocks, with addresses from the first segment on."""
    found = torch.cuda.memory_snapshot() if found is None else found
    base = {}
    rows = []
    for segment in found:
        first = base.setdefault(segment["device"], segment["address"])
        blocks = [
            [block["address"] - first, block["size"], block["requested_size"], block["state"], bool(block["frames"])]
            for block in segment["blocks"]
        ]
        own = [frame["name"] for frame in segment["frames"] if frame["filename"].startswith(HERE)]
        rest = {
            key: value for key, value in segment.items() if key not in ("address", "blocks", "frames", "forward_frames")
        }
        rows.append([segment["address"] - first, own, blocks, sorted(rest.items())])
    return rows


def traces(snapshot):
    """The history, with addresses in the order of their first appearance."""
    rows = []
    for device in snapshot["device_traces"]:
        seen = {}
        entries = []
        for entry in device:
            address = seen.setdefault(entry.get("addr"), len(seen))
            mine = [frame["name"] for frame in entry.get("frames", ()) if frame["filename"].startswith(HERE)]
            rest = {key: value for key, value in entry.items() if key not in ("addr", "time_us", "frames")}
            entries.append([address, "frames" in entry, mine, sorted(rest.items(), key=lambda pair: pair[0])])
        rows.append(entries)
    return rows


def churn():
    """Small, middle and large blocks, split and merged."""
    held = [empty(size) for size in (700, 5000, MIB, 3 * MIB, 9 * MIB, 30 * MIB)]
    del held[1::2]
    held += [empty(size) for size in (2 * MIB, 4000, 11 * MIB)]
    gc.collect()
    return held
