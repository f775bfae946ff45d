"""Pinned host memory, as PyTorch counts it.

On every route PyTorch's own host allocator serves it. It has no hook for single blocks, so a tape has its statistics:
a moment whose name they are (docs/trace-format.md, "Pinned host memory"; ``replay/src/host_memory.rs`` reads it).
"""

from __future__ import annotations

import sys
from typing import Any, Optional

_PREFIX = "pinned host memory:"
_IN_USE_SINCE = (2, 15)


def line() -> Optional[str]:
    """The statistics now, as the name of a mark; None where nothing was ever pinned, or they are not available.

    Never raises. About 5 us.
    """
    try:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        stats = torch._C._cuda_hostMemoryStats()
        if not stats["num_host_alloc"]:
            return None
        return f"{_PREFIX} {' '.join(f'{name}={value}' for name, value in _named(stats, torch.__version__).items())}"
    except Exception:  # A later PyTorch may count otherwise; a mark is no reason to end a training.
        return None


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
