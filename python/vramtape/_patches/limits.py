"""The fraction of a device's memory that this process may have; setting it goes through a hook that torch has."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from .. import _runtime
from .arguments import device_count


def entry_points(torch: ModuleType) -> dict[str, Callable[..., Any]]:
    """The replacements of this group."""

    def get_memory_fraction(device: int, /) -> float:
        if not isinstance(device, int):
            raise TypeError(f"'{type(device).__name__}' object cannot be interpreted as an integer")
        if not 0 <= device < device_count(torch):
            raise RuntimeError(f"Allocator not initialized for device {device}: did you call init?")
        fraction: float = _runtime.call("get_memory_fraction", device)
        return fraction

    return {"_cuda_getMemoryFraction": get_memory_fraction}
