"""Pinned host memory: the calls of the CUDA runtime for it, and PyTorch's statistics.

On every route PyTorch's own host allocator serves it. The library counts the calls of the CUDA runtime, each a moment
on the tape. PyTorch counts which part of its blocks is in use; with steps and moments a tape has both
(docs/trace-format.md, "Pinned host memory"; ``trace-format/src/host_memory.rs`` reads it).
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional

from . import _runtime

_PREFIX = "pinned host memory:"
_IN_USE_SINCE = (2, 15)
# The numbers are those of the calls.
_BY_CALLS = 2


def watch() -> None:
    """Begins to count the calls of PyTorch and of the libraries that are loaded now, once."""
    _runtime.call("watch_host_memory")


def line() -> Optional[str]:
    """The numbers now, as the name of a mark; None where nothing was ever pinned, or they are not available.

    Never raises. About 5 us.
    """
    try:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        stats = torch._C._cuda_hostMemoryStats()
        counted = _counted()
        if not (stats["num_host_alloc"] or counted.get("reserved_bytes_peak")):
            return None
        named = {**_named(stats, torch.__version__), **counted}
        return f"{_PREFIX} {' '.join(f'{name}={value}' for name, value in named.items())}"
    except Exception:  # A later PyTorch may count otherwise; a mark is no reason to end a training.
        return None


def _counted() -> dict[str, int]:
    """What the calls of the CUDA runtime pinned; empty where they are not counted."""
    numbers = (ctypes.c_uint64 * 3)()
    if not _runtime.load().vramtape_host_memory(numbers):
        return {}
    return {**dict(zip(("reserved_bytes", "reserved_bytes_peak", "blocks"), numbers)), "per_block": _BY_CALLS}


def _named(stats: dict[str, Any], version: str) -> dict[str, int]:
    """PyTorch's numbers under names that mean the same in every version.

    What is in use is left out where PyTorch counts it incorrectly: 2.7 adds a byte where it should subtract a block,
    and 2.11 in some cases subtracts nothing. 2.15 is the first version that counts it correctly here.
    """
    held, blocks = ("allocated_bytes", "allocations") if "allocations" in stats else ("reserved_bytes", "segment")
    named = {
        "reserved_bytes": stats[held]["current"],
        "reserved_bytes_peak": stats[held]["peak"],
        "blocks": stats[blocks]["current"],
    }
    if tuple(map(int, version.split(".")[:2])) >= _IN_USE_SINCE:
        named["active_bytes"] = stats["active_bytes"]["current"]
        named["active_bytes_peak"] = stats["active_bytes"]["peak"]
        named["active_blocks"] = stats["active_requests"]["current"]
    return named
