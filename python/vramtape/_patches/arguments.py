"""The argument checks of the entry points, with PyTorch's errors."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

# Keys that snapshots have since some torch.
SINCE = {
    "graph_capture_record_stream_reuse": (2, 9),
    "compile_context": (2, 8),
    "user_metadata": (2, 10),
    "pool_id": (2, 12),
    "host_segments": (2, 14),
    "host_traces": (2, 14),
    "max_round_threshold": (2, 13),
    "max_cached_size": (2, 13),
}


def version_of(torch: ModuleType) -> tuple[int, ...]:
    """The version as (major, minor)."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return tuple(map(int, found.groups())) if found else (999,)


def only_known(entries: dict[str, Any], version: tuple[int, ...]) -> dict[str, Any]:
    """The entries under keys that this torch has."""
    return {key: value for key, value in entries.items() if SINCE.get(key, (0,)) <= version}


def device_index(torch: ModuleType, device: Any, complaint: str) -> int:
    """The device's number.

    :raises RuntimeError: with PyTorch's words, where it is no number, no device of this machine, or CUDA has not begun
    """
    if not isinstance(device, int) or isinstance(device, bool):
        raise RuntimeError(complaint)
    if not 0 <= device < device_count(torch):
        raise RuntimeError(f"Invalid device argument {device}: did you call init?")
    return device


def device_count(torch: ModuleType) -> int:
    """How many devices the allocator knows: none before CUDA begins."""
    return torch.cuda.device_count() if torch.cuda.is_initialized() else 0
